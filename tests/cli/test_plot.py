import json
from xml.etree import ElementTree

import pytest
from tests.runs.report_runs import manifest, table, write_grid, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return write_grid(tmp_path_factory.mktemp("grid") / "runs", seeds=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "begins"),
    [("pdf", b"%PDF-"), ("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype")],
)
def test_the_ending_chooses_the_format(fedsched, runs, tmp_path, suffix, begins):
    place = tmp_path / f"figure.{suffix}"
    code, out, err = fedsched("plot", runs, "-o", place)
    assert (code, err) == (0, "")
    assert "test accuracy over simulated time; 4 configurations of 2 seeds" in out
    assert place.read_bytes().startswith(begins)


def test_a_figure_in_svg_is_a_column_wide_and_names_every_configuration(fedsched, runs, tmp_path):
    place = tmp_path / "figure.svg"
    fedsched("plot", runs, "--kind", "time-to-target", "--targets", "0.8", "-o", place)
    root = ElementTree.parse(place).getroot()
    assert root.get("width") == "252pt"  # 3.5 in
    text = place.read_text(encoding="utf-8")
    for name in ("lyapunov m=1", "lyapunov m=10", "uniform m=1", "uniform m=10", "fastest"):
        assert f">{name}</text>" in text


def test_tables_come_as_latex_and_as_csv(fedsched, runs, tmp_path):
    for suffix, begins in (("tex", "% \\usepackage{booktabs}"), ("csv", "environment,")):
        place = tmp_path / f"table.{suffix}"
        code, _, _ = fedsched(
            "plot", runs, "--kind", "speedup", "--targets", "0.5,0.8", "-o", place
        )
        assert code == 0
        assert place.read_text(encoding="utf-8").startswith(begins)


def test_uniform_is_shown_whoever_is_asked_for(fedsched, runs, tmp_path):
    said = fedsched(
        "plot", runs, "--policies", "lyapunov", "-o", tmp_path / "a.csv", "--json"
    )[1]  # fmt: skip
    assert json.loads(said)["configurations"] == [
        "lyapunov m=1", "lyapunov m=10", "uniform m=1", "uniform m=10",
    ]  # fmt: skip
    alone = [runs / f"lyapunov-m{m}-seed1" for m in (1, 10)]
    _, _, err = fedsched("plot", *alone, "-o", tmp_path / "b.csv")
    assert "there is no run of uniform here" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["-o", "a.gif"],
            "out must end in one of .png, .svg, .pdf, .html, .tex, .csv, got 'a.gif'",
        ),
        (["-o", "nowhere/a.pdf"], "the folder 'nowhere' does not exist"),
        (["-o", "a.tex"], "out: convergence has too many numbers for a table in LaTeX"),
        (
            ["--kind", "convergance"],
            "kind: 'convergance' is not known; did you mean 'convergence'?",
        ),
        (["--kind", "speedup"], "targets: name the test accuracies to reach for --kind speedup"),
        (["--kind", "speedup", "--targets", "80"], "targets must be test accuracies in (0, 1]"),
        (["--kind", "time-to-target", "--targets", "0.999"], "no configuration reached 0.999"),
        (["--columns", "three"], "columns: 'three' is not known"),
        (["--smooth", "0"], "smooth must be"),
        (["--until-s", "-1"], "until-s must be"),
        (["--computation-s", "-1"], "computation-s must be"),
        (["--environment", "mars"], "environment: there is no 'mars': all runs have one "),
        (["--until-s", "5"], "until-s is the right end of --kind time-to-target, and --kind conv"),
        (["--kind", "rounds", "--until-s", "5"], "leave --until-s out"),
        (["--policies", "unifrom"], "policies: 'unifrom' is not known; did you mean 'uniform'?"),
    ],
)
def test_errors_are_sentences(fedsched, runs, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = fedsched("plot", runs, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_runs_is_a_sentence(fedsched, tmp_path):
    code, _, err = fedsched("plot", tmp_path, "-o", tmp_path / "a.pdf")
    assert code == 2
    assert "there is no run that can be read" in err
    assert "there is no folder" in fedsched("plot", tmp_path / "none", "-o", tmp_path / "a.pdf")[2]


def test_numbers_have_units_and_the_help_keeps_its_lines(fedsched, runs, tmp_path):
    asked = ["--kind", "time-to-target", "--targets", "50%,0.8", "--computation-s", "500ms"]
    code, out, _ = fedsched("plot", runs, *asked, "--until-s", "1e1", "--smooth", "1e0",
                            "-o", tmp_path / "a.csv")  # fmt: skip
    assert code == 0 and "computation 0.5 s a round" in out
    for command in ("plot", "reproduce"):
        said = fedsched(command, "--help")[1]
        assert "\\b" not in said
    assert "\n  rounds          test accuracy over rounds\n" in fedsched("plot", "--help")[1]


def test_environments_are_named_where_there_are_several(fedsched, tmp_path):
    for kind in ("homogeneous", "heterogeneous"):
        write_run(tmp_path / "runs" / kind, manifest(channel__kind=kind), table())
    place = tmp_path / "a.csv"
    code, _, err = fedsched("plot", tmp_path / "runs", "--environment", "mars", "-o", place)
    assert code == 2
    assert "'mars' is not known (known: heterogeneous, homogeneous)" in err


def test_a_schedule_for_another_computation_time_is_named(fedsched, tmp_path):
    about = manifest("auto", uplink__computation_s=0.1)
    write_run(tmp_path / "runs" / "auto", about, table())
    for kind, said in (("convergence", True), ("rounds", False)):
        asked = ["--kind", kind, "--computation-s", 10, "-o", tmp_path / "a.csv"]
        _, _, err = fedsched("plot", tmp_path / "runs", *asked)
        assert ("auto plans with the computation time, and no run" in err) == said
    asked = ["--kind", "time-to-target", "--targets", 0.5, "-o", tmp_path / "a.csv"]
    _, _, err = fedsched("plot", tmp_path / "runs", *asked)
    said = "auto was made for 0.1 s of computation: its line is meant from 0.05 to 0.2 s\n"
    assert err.endswith(said)
