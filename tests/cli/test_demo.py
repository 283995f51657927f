import json
import re

import pytest

from fedsched.analysis.arrival import ACCURACY, InARow
from fedsched.cli import demo, output
from fedsched.runs.engines import Outcome
from fedsched.runs.runlog import read_run


@pytest.fixture
def small(monkeypatch):
    """A demo of a few rounds, whose target is soon reached, except by uniform with one draw."""
    monkeypatch.setattr(demo, "UNIFORM", {1: 4, 3: 24})
    monkeypatch.setattr(demo, "LYAPUNOV", {3: 24})
    monkeypatch.setattr(demo, "AUTO_ROUNDS", 24)
    monkeypatch.setattr(demo, "COMPUTATIONS_S", (0.1, 2.0))
    monkeypatch.setattr(demo, "SEEDS", (1,))
    monkeypatch.setattr(demo, "TARGET", 0.3)
    monkeypatch.setattr(demo, "PROTOCOL", InARow(1))


NAMES = ("uniform-m1", "uniform-m3", "lyapunov-m3", "auto-0.1s", "auto-2s")


def by_times(fedsched, out):
    """What ``times --best`` says of auto and of uniform, by computation time."""
    asked = ("--targets", 0.3, "--best", "0.1,2", "--protocol", "row", "--patience", 1, "--json")
    rows = json.loads(fedsched("times", out, *asked)[1])["rows"]
    found = {(each["computation_s"], each["configuration"].split()[0]): each for each in rows}
    return [
        (c, found[c, "auto"]["seconds"][0], found[c, "uniform"]["seconds"][0],
         found[c, "auto"]["sooner"][0]["ratio"])
        for c in (0.1, 2.0)
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demo_trains_compares_and_the_second_time_trains_nothing(fedsched, tmp_path):
    out = tmp_path / "demo"
    code, shown, err = fedsched("demo", "--out", out, "--workers", 1)
    assert (code, err) == (0, "")
    logs = {name: read_run(out / f"{name}-seed1") for name in NAMES}
    assert {path.name for path in out.iterdir() if path.is_dir()} == {f"{n}-seed1" for n in NAMES}
    assert all(log.finished for log in logs.values())
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "auto" in (out / "demo.svg").read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "uniform-m3-seed1" in page
    (data,) = re.findall(r'<script [^>]*id="data"[^>]*>(.*?)</script>', page, re.S)
    shown_runs = [run["name"] for group in json.loads(data)["groups"] for run in group["runs"]]
    assert {"auto-0.1s-seed1", "auto-2s-seed1"} < set(shown_runs)  # each takes part at its time
    assert json.loads(data)["computation_s"] == 0.1

    made = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.suffix in
            (".npz", ".arrows", ".json")}  # fmt: skip
    code, text, err = fedsched("demo", "--out", out, "--workers", 1, "--json")
    assert (code, err) == (0, "")
    assert made == {path: path.stat().st_mtime_ns for path in made}

    told = json.loads(text)
    reached = {name: ACCURACY.reach(log, 0.3, InARow(1)) for name, log in logs.items()}
    assert reached["uniform-m1"] is None  # too few rounds
    rows = {(row["policy"], row["draws"]): row for row in told["rows"]}
    assert set(rows) == {("auto", None), ("uniform", 1), ("uniform", 3), ("lyapunov", 3)}
    assert rows["uniform", 1]["seconds_to_target"] == {"0.1": None, "2": None}
    times = {each: reached["uniform-m3"].time_s(each) for each in (0.1, 2.0)}
    assert rows["uniform", 3]["seconds_to_target"] == {"0.1": times[0.1], "2": times[2.0]}
    # Each time of auto is of the schedule that was made for it.
    own = {"0.1": reached["auto-0.1s"].time_s(0.1), "2": reached["auto-2s"].time_s(2.0)}
    assert rows["auto", None]["seconds_to_target"] == own
    for best, computation_s in zip(told["best"], (0.1, 2.0), strict=True):
        assert best["best_uniform_m"] == 3 and best["edge"]
        sooner = times[computation_s] / own[f"{computation_s:g}"]
        assert best["sooner"] == pytest.approx(sooner)
        said = f"{sooner:.2f} times sooner" if sooner >= 1 else f"{1 / sooner:.2f} times later"
        assert said in shown
    assert by_times(fedsched, out) == [
        (
            each["computation_s"],
            each["auto_s"],
            each["best_uniform_s"],
            pytest.approx(each["sooner"]),
        )
        for each in told["best"]
    ]
    assert rows["uniform", 3]["budgets"][0]["worst_use"] == pytest.approx(1.0)
    assert "not reached" in shown and "m=3, the largest that was tried" in shown


def test_all_policies_of_the_demo_see_the_same_channel_and_the_papers_airtimes():
    scenarios = [entry.scenario(2) for entry in demo.entries()]
    assert len({each.channel for each in scenarios}) == len({each.data for each in scenarios}) == 1
    assert {each.run.seed for each in scenarios} == {2}
    assert {each.uplink.bits for each in scenarios} == {32 * 555_178}
    kinds = [(each.policy.kind, each.policy.draws) for each in scenarios]
    assert {m for kind, m in kinds if kind == "uniform"} == {1, 2, 3, 5, 10, 20}
    autos = {each.uplink.computation_s for each in scenarios if each.policy.kind == "auto"}
    assert autos == {0.0, 0.1, 1.0}


@pytest.mark.usefixtures("small")
def test_runs_that_fail_are_named_once_all_have_ended(fedsched, monkeypatch, tmp_path):
    def failing(jobs, *, workers, **_):
        assert workers == 1
        for number, job in enumerate(jobs):
            yield Outcome(job=job, failure="it is bad" if number in (0, 3) else None)
        ended.append(len(jobs))

    ended = []
    monkeypatch.setattr(output, "run_jobs", failing)
    code, _, err = fedsched("demo", "--out", tmp_path, "--workers", 1)
    assert code == 2
    assert len(ended) == 1
    assert err == (
        f"fedsched: 2 of {ended[0]} runs failed: uniform-m3-seed1, auto-0.1s-seed1: it is bad\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--workers", "0"], "workers must be a whole number of at least 1, got 0"),
        (["--out", "a-file"], "out: the folder 'a-file' cannot be made"),
    ],
)
def test_a_bad_option_is_refused_with_a_sentence(
    fedsched, monkeypatch, tmp_path, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").touch()
    code, out, err = fedsched("demo", *arguments)
    assert code == 2
    assert sentence in err
    assert out == ""
