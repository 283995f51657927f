"""Devices that compute for times of their own: the clock, the log, and what if they were slower."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.radio.test_access import simulated_turns_s

from fedsched.analysis.collect import slowed
from fedsched.analysis.curves import curve_of
from fedsched.analysis.groups import group_runs
from fedsched.cli.times import command as times
from fedsched.clock import Computation
from fedsched.errors import InputError
from fedsched.runs.assembly import schedule_of
from fedsched.runs.experiment import run
from fedsched.runs.pack import pack_run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from

DEVICES = 8
OWN = [0.5 * n for n in range(DEVICES)]


def scenario(seed=3, **uplink):
    return scenario_from(
        {
            "run": {"rounds": 12, "seed": seed, "eval_every": 2, "checkpoint_every": 5},
            "policy": {"kind": "uniform", "draws": 4},
            "channel": {"devices": DEVICES},
            "data": {"samples": 40},
            "training": {"model": "softmax", "steps": 2, "batch_size": 8},
            "uplink": {"bits": 2e7, **uplink},
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with a computation time for each device. Look, do not touch."""
    place = tmp_path_factory.mktemp("own")
    run(scenario(computation_s=OWN), place)
    return place


def simulated_s(log, factor=1.0):
    """The rounds of a log from its members' times, event by event."""
    own = np.array(OWN) * factor
    members = zip(log.lists("device"), log.lists("upload_s"), strict=True)
    return [simulated_turns_s(upload, own[device]) for device, upload in members]


def test_a_round_takes_as_long_as_a_simulation_of_its_events(folder):
    log = read_run(folder)
    assert log.column("airtime_s") == pytest.approx(simulated_s(log), rel=1e-14)
    assert log.lists("ready_s") == [[OWN[n] for n in round_] for round_ in log.lists("device")]


def test_who_takes_part_does_not_depend_on_how_long_it_computes(folder, tmp_path):
    plain = run(scenario(computation_s=2.0), tmp_path)
    own = read_run(folder)
    for name in ("device", "weight", "upload_s", "train_loss"):
        assert own.table[name].to_pylist() == plain.table[name].to_pylist()
    assert plain.lists("ready_s") == [[]] * 12  # what all have in common is left to the clock


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.0, 0.3, 2.0, 17.0])
def test_the_clock_of_slower_devices_is_that_of_a_run_with_them(folder, tmp_path, factor):
    there = run(scenario(computation_s=[factor * c for c in OWN]), tmp_path / "there")
    packed = read_run(pack_run(folder, tmp_path / "packed"))
    for log in (read_run(folder), packed):
        found = slowed(log, factor)
        assert found.column("airtime_s").tolist() == there.column("airtime_s").tolist()
        assert curve_of(found).airtime_s.tolist() == curve_of(there).airtime_s.tolist()
        assert found.column("airtime_s") == pytest.approx(simulated_s(log, factor), rel=1e-14)


@pytest.mark.slow
def test_waits_for_a_duty_cycle_are_in_the_clock_of_slower_devices(tmp_path):
    table = scenario(computation_s=OWN).as_dict()
    table |= {"policy": {"kind": "auto"}, "budgets": {"duty_cycle": 0.05}}
    log = run(scenario_from(table), tmp_path)
    assert log.column("wait_s").max() > 0.0
    expected = log.column("wait_s") + simulated_s(log, 2.0)
    assert slowed(log, 2.0).column("airtime_s") == pytest.approx(expected, rel=1e-14)


def test_blocks_are_timed_again_as_a_run_times_them(tmp_path):
    access = {"access": "ofdma", "blocks": 12}
    run(scenario(computation_s=OWN, **access), tmp_path / "here")
    there = run(scenario(computation_s=[2.0 * c for c in OWN], **access), tmp_path / "there")
    found = slowed(read_run(tmp_path / "here"), 2.0)
    assert found.column("airtime_s").tolist() == there.column("airtime_s").tolist()


def test_times_asks_what_if_devices_were_slower(folder):
    def seconds(*options):
        asked = [str(folder), "--targets", "0.2", "--patience", "1", "--json", *options]
        said = CliRunner().invoke(times, asked, catch_exceptions=False)
        return json.loads(said.stdout)["rows"][0]["seconds"][0]

    log = read_run(folder)
    place = int(np.flatnonzero(log.column("test_accuracy") >= 0.2)[0]) + 1
    assert seconds() == pytest.approx(sum(simulated_s(log)[:place]))
    assert seconds("--slower", "3") == pytest.approx(sum(simulated_s(log, 3.0)[:place]))
    # On top of their own times, all devices may compute alike.
    assert seconds("--computation-s", "2") == pytest.approx(seconds() + 2.0 * place)


def test_a_common_time_is_multiplied_too(tmp_path):
    run(scenario(computation_s=2.0), tmp_path)
    asked = [str(tmp_path), "--targets", "0.2", "--patience", "1", "--json"]
    found = [
        json.loads(CliRunner().invoke(times, [*asked, *more]).stdout)["rows"][0]
        for more in ([], ["--slower", "3"])
    ]
    added = found[1]["seconds"][0] - found[0]["seconds"][0]
    assert added == pytest.approx(4.0 * found[0]["rounds"][0])


def test_drawn_times_have_their_mean_and_are_the_same_for_all_policies():
    drawn = Computation(np.array([1.0, 10.0]), spread=0.8)
    rounds = [
        drawn.ready_s(np.array([0, 1]), 2, np.random.default_rng(seed)) for seed in range(4000)
    ]
    assert np.mean(rounds, axis=0) == pytest.approx([1.0, 10.0], rel=0.05)
    assert np.log(rounds).std(axis=0) == pytest.approx([0.8, 0.8], rel=0.05)
    alone = drawn.ready_s(np.array([1]), 2, np.random.default_rng(7))
    assert alone == rounds[7][1]


def test_drawn_times_are_in_the_rounds_of_a_schedule():
    table = scenario(computation_s=3.0, computation_spread=0.5)
    first, second = (next(schedule_of(table, 10)) for _ in range(2))
    assert first.ready_s.tolist() == second.ready_s.tolist()
    assert len(first.ready_s) == first.cohort.size and len(set(first.ready_s)) == first.cohort.size
    assert first.uploads_s == pytest.approx(simulated_turns_s(first.upload_s, first.ready_s))


def test_runs_with_other_times_of_their_own_are_other_configurations(folder, tmp_path):
    other = run(scenario(computation_s=[2.0] * DEVICES), tmp_path)
    groups = group_runs([read_run(folder), other])
    labels = [group.label.partition("#")[0] for group in groups]
    assert labels == ["uniform computation_s=0-3.5", "uniform computation_s=2-2"]


def test_times_are_counted_against_the_devices():
    with pytest.raises(InputError, match=r"uplink\.computation_s has 2 numbers and there are 8"):
        next(schedule_of(scenario(computation_s=[1.0, 2.0]), 10))


@pytest.mark.parametrize("given", [-1.0, [1.0, -2.0], [1.0, "inf"]])
def test_times_are_finite_and_not_negative(given):
    with pytest.raises(InputError, match=r"uplink\.computation_s must be a finite number"):
        scenario(computation_s=given)
