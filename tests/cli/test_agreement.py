"""Commands that judge the same runs give one answer."""

import json
import re

import pytest
from click.testing import CliRunner

from fedsched.analysis.arrival import ACCURACY, ARRIVAL, RunningMean
from fedsched.analysis.comparison import comparison_row
from fedsched.analysis.groups import group_runs, summary_rows
from fedsched.cli import demo
from fedsched.cli.report import command as report
from fedsched.cli.times import command as times
from fedsched.paper.scales import SCALES
from fedsched.runs.experiment import run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from

COMPUTATION_S = 0.25


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for kind in ("lyapunov", "uniform"):
        table = {
            "run": {"rounds": 40, "seed": 1, "eval_every": 1},
            "policy": {"kind": kind, "draws": 3},
            "channel": {"devices": 10},
            "uplink": {"bits": 1e5, "computation_s": COMPUTATION_S},
            "data": {"samples": 40},
            "training": {"model": "softmax", "steps": 1, "batch_size": 2, "learning_rate": 0.05},
        }
        run(scenario_from(table), place / f"{kind}-m3-seed1")
    return place


def asked(command, *arguments):
    done = CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def by_times(runs, target):
    answer = json.loads(asked(times, runs, "--targets", target, "--json"))
    return {row["configuration"]: (row["seconds"][0], row["rounds"][0]) for row in answer["rows"]}


def by_the_page(runs, page, target):
    """As the page's script does: the first step at or above the target, then the clock."""
    asked(report, runs, "-o", page)
    (text,) = re.findall(r'<script [^>]*id="data"[^>]*>(.*?)</script>', page.read_text(), re.S)
    found = {}
    for group in json.loads(text)["groups"]:
        steps = zip(*group["runs"][0]["steps"][:3], strict=True)
        first = next(((a, t) for t, a, value in steps if value >= target), None)
        found[group["choice"]] = (
            (None, None) if first is None else (first[0] + COMPUTATION_S * first[1], first[1])
        )
    return found


def telling(logs):
    """Targets that tell means over windows of unlike length from each other."""

    def rounds(log, target, window):
        reached = ACCURACY.reach(log, target, RunningMean(window))
        return None if reached is None else reached.rounds

    accuracies = {each for log in logs for each in log.column("test_accuracy").tolist()}
    return [
        target
        for target in sorted(accuracies)
        if any(rounds(log, target, 200) not in (rounds(log, target, 5), None) for log in logs)
    ]


@pytest.mark.slow
def test_all_commands_say_the_same_of_the_same_runs(runs, tmp_path, monkeypatch):
    logs = {kind: read_run(runs / f"{kind}-m3-seed1") for kind in ("lyapunov", "uniform")}
    targets = telling(logs.values())
    assert targets
    for target in (targets[0], targets[-1], 0.99):  # the last is never reached
        agree(runs, logs, target, tmp_path, monkeypatch)


def agree(runs, logs, target, tmp_path, monkeypatch):
    expected = by_times(runs, target)
    compared = {kind: comparison_row(log, target) for kind, log in logs.items()}
    assert expected == {
        kind: (row["seconds_to_target"], row["rounds_to_target"]) for kind, row in compared.items()
    }
    assert expected == by_the_page(runs, tmp_path / "page.html", target)
    groups = group_runs(logs.values())
    for group, row in zip(
        groups, summary_rows(groups, target, computation_s=COMPUTATION_S), strict=True
    ):
        assert (row["seconds_to_target"], row["rounds_to_target"]) == expected[group.choice]
    best = json.loads(asked(times, runs, "--targets", target, "--best", COMPUTATION_S, "--json"))
    reached = {kind: seconds for kind, (seconds, _) in expected.items() if seconds is not None}
    assert {each["configuration"]: each["seconds"][0] for each in best["rows"]} == reached
    # The demo has computation times and a target of its own.
    monkeypatch.setattr(demo, "TARGET", target)
    for group in groups:
        (shown,) = demo._times([logs[group.choice]], COMPUTATION_S)
        assert shown == expected[group.choice][0]


def test_the_paper_is_asked_by_the_protocol_of_all_commands():
    assert all(scale.protocol == ARRIVAL for (name, _), scale in SCALES.items() if name != "smoke")
