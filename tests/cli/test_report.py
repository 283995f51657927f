import json
import re

from click.testing import CliRunner
from tests.runs.report_runs import manifest, table, write_grid, write_run

from fedsched.cli.report import command
from fedsched.errors import InputError, RunLogError


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


def test_a_page_is_written_and_what_was_left_out_is_said_on_stderr(tmp_path):
    write_grid(tmp_path / "runs", seeds=(1,))
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "manifest.json").write_text("[]")
    page = tmp_path / "report.html"
    result = run(
        tmp_path / "runs", "-o", page, "--target", "0.8", "--title", "A <b>", "--patience", 2
    )
    assert result.exit_code == 0, result.output
    assert result.stdout == f"wrote {page}: 4 runs, 4 configurations\n"
    assert re.fullmatch(r"left out: foreign: .*is damaged.*\n", result.stderr)
    asked = run(tmp_path / "runs", "-o", page, "--json")
    about = json.loads(asked.stdout)
    assert (about["out"], about["runs"], about["configurations"]) == (str(page), 4, 4)
    assert list(about["left_out"]) == ["foreign"]
    run(tmp_path / "runs", "-o", page, "--target", "0.8", "--title", "A <b>", "--patience", 2)
    text = page.read_text(encoding="utf-8")
    assert "<title>A &lt;b&gt;</title>" in text
    assert "at the first of 2 measurements in a row" in text and '"target":0.8' in text


def test_several_folders_can_be_named_and_one_run_is_counted_as_one(tmp_path):
    write_grid(tmp_path, seeds=(1,))
    page = tmp_path / "report.html"
    one = run(tmp_path / "uniform-m1-seed1", "-o", page)
    assert one.stdout == f"wrote {page}: 1 run, 1 configuration\n"
    two = run(tmp_path / "uniform-m1-seed1", tmp_path / "lyapunov-m1-seed1", "-o", page)
    assert two.stdout == f"wrote {page} anew: 2 runs, 2 configurations\n"


def test_mistakes_end_in_an_error_of_ours(tmp_path):
    write_grid(tmp_path / "runs", seeds=(1,))
    (tmp_path / "empty").mkdir()
    page = tmp_path / "report.html"
    assert isinstance(run(tmp_path / "empty", "-o", page).exception, RunLogError)
    for wrong in (
        (tmp_path / "absent", "-o", page),
        (tmp_path / "runs", "-o", tmp_path / "report.pdf"),
        (tmp_path / "runs", "-o", tmp_path / "no" / "report.html"),
        (tmp_path / "runs", "-o", page, "--target", "92"),
        (tmp_path / "runs", "-o", page, "--patience", "0"),
    ):
        assert isinstance(run(*wrong).exception, InputError), wrong
    assert not page.exists()


def test_runs_must_be_named():
    result = run()
    assert result.exit_code == 2 and "RUNS" in result.output


def test_a_report_is_written_anew_and_a_foreign_page_is_left_alone(tmp_path):
    write_grid(tmp_path / "runs", seeds=(1,))
    page, mine = tmp_path / "report.html", tmp_path / "mine.html"
    assert run(tmp_path / "runs", "-o", page).stdout.startswith(f"wrote {page}: ")
    assert run(tmp_path / "runs", "-o", page).stdout.startswith(f"wrote {page} anew: ")
    mine.write_text("<html>my thesis</html>")
    refused = run(tmp_path / "runs", "-o", mine)
    assert isinstance(refused.exception, InputError)
    assert "is no report and would be written over" in str(refused.exception)
    assert mine.read_text() == "<html>my thesis</html>"


def test_slower_is_blamed_on_the_option_and_not_on_a_run(tmp_path):
    write_grid(tmp_path / "runs", seeds=(1,))
    for wrong in ("nan", "-1", "inf"):
        refused = run(tmp_path / "runs", "-o", tmp_path / "report.html", "--slower", wrong)
        assert isinstance(refused.exception, InputError), wrong
        assert str(refused.exception).startswith("slower must be a finite number, zero or more")
    assert not (tmp_path / "report.html").exists()


def test_a_target_that_nothing_reaches_is_said(tmp_path):
    write_grid(tmp_path / "one", seeds=(1,))
    page = tmp_path / "report.html"
    said = run(tmp_path / "one", "-o", page, "--target", "0.99").stderr
    begins = "target: no configuration reaches 0.99 with all its seeds (the page opens with 0."
    assert said.startswith(begins) and said.count("\n") == 1
    assert run(tmp_path / "one", "-o", page, "--target", "0.8").stderr == ""
    for kind, speed in (("homogeneous", 0.2), ("heterogeneous", 1.0)):
        write_run(tmp_path / "two" / kind, manifest(channel__kind=kind), table(speed=speed))
    said = run(tmp_path / "two", "-o", page, "--target", "0.9").stderr
    assert "with all its seeds in homogeneous (the page opens with 0." in said
    assert "heterogeneous" not in said
