"""The results in the repository: made by this code, and told truly by the documents."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from fedsched.assembly import policy_of, uplink_of
from fedsched.core.uplink import PAPER_UPLINK
from fedsched.reproduction.scales import make_scale
from fedsched.results.analysis import curve_of, reach
from fedsched.results.groups import group_runs, mean_reach, paired_speedup
from fedsched.results.runlog import read_run
from fedsched.scenario import run_name, scenario_from
from fedsched.simulation import schedule
from fedsched.wireless import make_channel

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "results" / "cifar10"
PARTS = ("runs", "designs")
RUNS = [folder for part in PARTS for folder in sorted((PLACE / part).glob("*"))]
PAPER = make_scale("paper", None)
ROUNDS = 200  # of each schedule made again
MOST_BYTES = 20_000_000


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_the_schedule_of_a_run_comes_out_again(folder):
    log = read_run(folder)
    scenario = scenario_from(log.manifest["scenario"])
    assert run_name(scenario) == folder.name
    channel = make_channel(scenario.channel.kind, scenario.channel.devices)
    uplink = uplink_of(scenario, int(PAPER_UPLINK.bits) // 32)
    rounds = schedule(
        channel=channel, policy=policy_of(scenario, uplink), uplink=uplink, seed=scenario.run.seed
    )
    devices, weights = log.lists("device"), log.lists("weight")
    airtime_s = log.column("airtime_s")
    for t, (done, _) in enumerate(itertools.islice(rounds, min(ROUNDS, len(devices)))):
        assert done.cohort.device.tolist() == devices[t]
        np.testing.assert_allclose(done.cohort.weight, weights[t], rtol=1e-9)
        np.testing.assert_allclose(done.airtime_s, airtime_s[t], rtol=1e-9)


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_the_document_has_the_seconds_and_rounds_of_every_finished_run(folder):
    log = read_run(folder)
    document = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    target = log.manifest["scenario"]["run"]["stop_accuracy"]
    reached = reach(curve_of(log), target, patience=PAPER.patience)
    if reached is None:
        assert not log.finished
    else:
        assert f"{reached.time_s(0.0):,.0f} s, {reached.rounds:,.0f} " in document


def headline_pair(folders):
    """Uniform and lyapunov, ten draws over heterogeneous channels, i.i.d. data."""
    pair = {}
    for group in group_runs(map(read_run, folders)):
        scenario = group.logs[0].manifest["scenario"]
        policy, data = scenario["policy"], scenario["data"]
        place = (scenario["channel"]["kind"], policy["draws"], policy["design"], data["alpha"])
        if place == ("heterogeneous", 10, "with-replacement", "inf"):
            pair[policy["kind"]] = group
    return pair["uniform"], pair["lyapunov"]


def test_the_headline_of_the_readme_is_what_the_runs_say():
    headline = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    uniform, ours = headline_pair(folder for folder in RUNS if folder.parent.name == "runs")
    assert uniform.seeds == ours.seeds == [1, 2, 3]
    uniform_s, ours_s = (
        mean_reach(group, 0.775, patience=PAPER.patience).time_s(0.0) for group in (uniform, ours)
    )
    gain = paired_speedup(uniform, ours, 0.775, patience=PAPER.patience)
    assert f"test accuracy 0.775 took {uniform_s:,.0f} s" in headline
    assert f"{ours_s:,.0f} s with fedsched, {gain.ratio:.1f} times less" in headline
    interval = f"{gain.low:.1f} to {gain.high:.1f}"
    assert f"(three seeds, 95 % interval {interval}, no computation time" in headline
    targets = (0.6, 0.65, 0.7, 0.73, 0.75, 0.76, 0.77, 0.775)
    mean = paired_speedup(uniform, ours, *targets, patience=PAPER.patience)
    interval = f"{mean.low:.1f} to {mean.high:.1f}"
    assert f"accuracies from 0.60 on {mean.ratio:.1f} times, {interval}" in headline


def test_the_results_are_small():
    files = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
