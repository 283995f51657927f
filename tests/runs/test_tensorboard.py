import os
import sys
import time

import numpy as np
import pytest

from fedsched.errors import MissingExtraError
from fedsched.runs.engines import Job, run_jobs
from fedsched.runs.experiment import run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from
from fedsched.runs.tensorboard import EVENTS, EventFollower, events_are_current, write_events

SCENARIO = scenario_from(
    {
        "run": {"rounds": 12, "seed": 3, "eval_every": 4, "checkpoint_every": 5},
        "channel": {"devices": 10},
        "policy": {"kind": "lyapunov", "draws": 3},
        "training": {"model": "softmax", "steps": 1, "batch_size": 4},
        "uplink": {"computation_s": 2.0},
    }
)
COLUMNS = {
    "test/accuracy": "test_accuracy",
    "test/loss": "test_loss",
    "train/loss": "train_loss",
    "uplink/airtime_s": "airtime_s",
    "uplink/mean_power_w": "mean_power_w",
    "schedule/mean_inverse_probability": "mean_inverse_probability",
}


class StoppedError(Exception):
    pass


def events(folder):
    """Steps, values and times of every scalar, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder / EVENTS), size_guidance={"scalars": 0})
    reader.Reload()
    return {
        name: np.array([(each.step, each.value, each.wall_time) for each in reader.Scalars(name)])
        for name in reader.Tags()["scalars"]
    }


def stop_after(rounds):
    def progress(now):
        if now.round == rounds:
            raise StoppedError

    return progress


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The run without events."""
    return run(SCENARIO, tmp_path_factory.mktemp("runs") / "plain")


def assert_events_are_those_of_the_log(folder):
    log, found = read_run(folder), events(folder)
    assert set(found) == {*COLUMNS, "uplink/simulated_time_s", "schedule/devices"}
    clock_s = np.cumsum(log.column("airtime_s")) + 2.0 * np.arange(1, log.rounds + 1)
    expected = {name: log.column(column) for name, column in COLUMNS.items()}
    expected["uplink/simulated_time_s"] = clock_s
    expected["schedule/devices"] = np.array([len(each) for each in log.lists("device")])
    for name, values in expected.items():
        (measured,) = np.nonzero(~np.isnan(values))
        step, value, time_s = found[name].T
        np.testing.assert_array_equal(step, measured, err_msg=name)
        np.testing.assert_array_equal(value, values[measured].astype(np.float32), err_msg=name)
        np.testing.assert_allclose(time_s, clock_s[measured], rtol=1e-12, err_msg=name)


@pytest.mark.slow
def test_events_tell_what_the_log_tells(tmp_path, plain):
    log = run(SCENARIO, tmp_path, tensorboard=True)
    assert_events_are_those_of_the_log(tmp_path)
    assert len(events(tmp_path)["test/accuracy"]) < log.rounds == 12
    assert events_are_current(tmp_path)
    assert not events_are_current(plain.folder)


@pytest.mark.slow
def test_events_tell_what_auto_has_set_itself(tmp_path):
    table = {**SCENARIO.as_dict(), "policy": {"kind": "auto"}}
    log = run(table, tmp_path, tensorboard=True)
    found = events(tmp_path)
    names = {"auto/lambda": "price_of_time", "auto/kappa": "kappa",
             "auto/Q": "average_inverse_probability", "auto/tau": "average_airtime_s"}  # fmt: skip
    for name, column in names.items():
        np.testing.assert_array_equal(found[name][:, 1], log.column(column).astype(np.float32))


@pytest.mark.slow
def test_events_do_not_change_the_bits_of_a_run(tmp_path, plain):
    run(SCENARIO, tmp_path, tensorboard=True)
    for name in ("rounds.arrows", "model.npz"):
        assert (tmp_path / name).read_bytes() == (plain.folder / name).read_bytes()


def test_events_can_be_read_while_the_run_goes_on(tmp_path):
    seen = {}

    def look(now):
        if now.round in (4, 6, 11):
            seen[now.round] = len(events(tmp_path).get("train/loss", ()))

    run(SCENARIO, tmp_path, tensorboard=True, progress=look)
    assert seen == {4: 0, 6: 5, 11: 10}


@pytest.mark.parametrize("stopped_at", [3, 7])
def test_a_run_that_is_resumed_has_every_event_once(tmp_path, stopped_at):
    with pytest.raises(StoppedError):
        run(SCENARIO, tmp_path, tensorboard=True, progress=stop_after(stopped_at))
    run(SCENARIO, tmp_path, tensorboard=True)
    assert_events_are_those_of_the_log(tmp_path)


@pytest.mark.slow
def test_an_open_tensorboard_drops_what_is_written_anew(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytest.raises(StoppedError):
        run(SCENARIO, tmp_path, tensorboard=True, progress=stop_after(7))
    reader = EventAccumulator(str(tmp_path / EVENTS))
    reader.Reload()
    assert len(reader.Scalars("train/loss")) == 5
    time.sleep(1.1)  # event files are read in the order of the second in their names
    run(SCENARIO, tmp_path, tensorboard=True)
    reader.Reload()
    assert [each.step for each in reader.Scalars("train/loss")] == list(range(12))


def test_events_of_a_run_finished_without_them_are_made_from_its_log(tmp_path):
    with pytest.raises(StoppedError):
        run(SCENARIO, tmp_path, tensorboard=True, progress=stop_after(7))
    old = min(path.stat().st_mtime_ns for path in (tmp_path / EVENTS).iterdir())
    run(SCENARIO, tmp_path)
    os.utime(tmp_path / "rounds.arrows", ns=(old + 10**9, old + 10**9))
    assert not events_are_current(tmp_path)
    run(SCENARIO, tmp_path, tensorboard=True)
    assert_events_are_those_of_the_log(tmp_path)
    current = sorted((tmp_path / EVENTS).iterdir())
    for file in current:
        os.utime(file, ns=(old + 2 * 10**9, old + 2 * 10**9))
    run(SCENARIO, tmp_path, tensorboard=True)
    assert sorted((tmp_path / EVENTS).iterdir()) == current  # nothing was written anew


def test_events_can_be_written_of_a_finished_folder(tmp_path):
    run(SCENARIO, tmp_path)
    for _ in range(4):
        write_events(tmp_path)
    assert_events_are_those_of_the_log(tmp_path)
    assert len(list((tmp_path / EVENTS).iterdir())) == 2  # the one before is left behind empty


@pytest.mark.slow
def test_a_sweep_writes_the_events_of_each_of_its_runs(tmp_path):
    job = Job(name="one", scenario=SCENARIO, folder=tmp_path, tensorboard=True)
    assert [outcome.failure for outcome in run_jobs([job])] == [None]
    assert_events_are_those_of_the_log(tmp_path)


def test_without_tensorboard_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"'tensorboard'.*fedsched\[tensorboard\]"):
        EventFollower(tmp_path, computation_s=0.0)
