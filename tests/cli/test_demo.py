import json
import math

import pytest

from fedsched.analysis.arrival import ACCURACY, InARow
from fedsched.cli import demo, output
from fedsched.runs.engines import Outcome
from fedsched.runs.runlog import read_run

DRAWS = (1, 3)


@pytest.fixture
def small(monkeypatch):
    """A demo of a few rounds, whose target is soon reached, except by uniform with one draw."""
    monkeypatch.setattr(demo, "DRAWS", DRAWS)
    monkeypatch.setattr(demo, "SEEDS", (1,))
    monkeypatch.setattr(demo, "TARGET", 0.3)
    monkeypatch.setattr(demo, "PROTOCOL", InARow(1))
    rounds = {(policy, draws): 24 for policy in ("uniform", "lyapunov") for draws in DRAWS}
    monkeypatch.setattr(demo, "_ROUNDS", {**rounds, ("uniform", 1): 4})


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_demo_trains_compares_draws_and_the_second_time_trains_nothing(fedsched, tmp_path):
    out = tmp_path / "demo"
    code, shown, err = fedsched("demo", "--out", out, "--workers", 1)
    assert (code, err) == (0, "")
    names = {f"{policy}-m{draws}-seed1" for policy in ("uniform", "lyapunov") for draws in DRAWS}
    logs = {name: read_run(out / name) for name in names}
    assert {path.name for path in out.iterdir() if path.is_dir()} == names
    assert all(log.finished for log in logs.values())
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "demo.svg").stat().st_size > 1000

    made = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.suffix in
            (".npz", ".arrows", ".json")}  # fmt: skip
    assert len(made) >= 4 * 3
    code, text, err = fedsched("demo", "--out", out, "--workers", 1, "--json")
    assert (code, err) == (0, "")
    assert made == {path: path.stat().st_mtime_ns for path in made}

    report = json.loads(text)
    assert report["target"] == 0.3
    assert report["picture"] == str(out / "demo.png")
    reached = {name: ACCURACY.reach(log, 0.3, InARow(1)) for name, log in logs.items()}
    seconds = {name: each and each.time_s(0.0) for name, each in reached.items()}
    assert seconds["uniform-m1-seed1"] is None  # too few rounds
    wanted = seconds["uniform-m3-seed1"] / seconds["lyapunov-m3-seed1"]
    assert report["speedup"] == {"1": None, "3": pytest.approx(wanted)}
    assert [(row["draws"], row["policy"]) for row in report["rows"]] == [
        (draws, policy) for draws in DRAWS for policy in ("uniform", "lyapunov")
    ]
    for row in report["rows"]:
        log = logs[f"{row['policy']}-m{row['draws']}-seed1"]
        assert row["seconds_to_target"] == seconds[log.folder.name]
        assert row["final_accuracy"] == pytest.approx(log.column("test_accuracy")[-1])
        assert row["airtime_s_per_round"] == pytest.approx(log.column("airtime_s").mean())
    # The table said the same.
    assert f"{wanted:.2f}x" in shown
    assert "not reached" in shown
    assert f"{seconds['lyapunov-m3-seed1']:.1f}" in shown


def test_the_speedup_of_the_demo_is_that_of_its_report_seed_by_seed():
    seconds = {"uniform": [8.0, 18.0], "lyapunov": [4.0, 6.0]}
    rows = [
        {"policy": policy, "draws": 3, "seconds_by_seed": each} for policy, each in seconds.items()
    ]
    assert demo._speedup(rows, 3) == pytest.approx(math.sqrt(2.0 * 3.0))
    rows[0]["seconds_by_seed"] = [8.0, None]
    assert demo._speedup(rows, 3) is None


def test_both_policies_of_the_demo_see_the_same_channel_and_the_papers_airtimes():
    one, other = (demo.demo_scenario(policy, 5, 2) for policy in ("uniform", "lyapunov"))
    assert one.channel == other.channel
    assert one.run.seed == other.run.seed == 2
    assert one.uplink == other.uplink
    assert one.uplink.bits == 32 * 555_178
    assert (one.channel.kind, one.channel.devices) == ("heterogeneous", 100)
    assert demo.DRAWS == (1, 5, 10)


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
        f"fedsched: 2 of {ended[0]} runs failed: uniform-m3-seed1: it is bad; "
        "lyapunov-m1-seed1: it is bad\n"
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
