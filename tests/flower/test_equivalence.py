"""Flower's simulation and the simulator are the same federation."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.experiment import run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario_file import load_scenario

pytestmark = pytest.mark.slow

SCENARIO = """
[run]
rounds = 10
seed = 3
eval_every = 1
[policy]
kind = "lyapunov"
draws = 3
[channel]
kind = "correlated"
devices = 12
[data]
samples = 40
[training]
model = "softmax"
steps = 2
batch_size = 8
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One scenario, run by the simulator and in Flower's simulation on Ray."""
    place = tmp_path_factory.mktemp("equivalence")
    (place / "scenario.toml").write_text(SCENARIO)
    env = os.environ | {
        "FEDSCHED_PLACE": str(place),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        ).strip(os.pathsep),
        "FLWR_HOME": str(place / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": "/tmp",  # the socket names of Ray are short of room
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", "from simulated import run; run()"],
        env=env, cwd=place, timeout=600, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    run(load_scenario(place / "scenario.toml"), place / "simulator")
    return place / "simulator", place / "flower"


def test_cohorts_powers_and_weights_are_the_same_to_the_bit(both):
    ours, theirs = map(read_run, both)
    assert theirs.rounds == 10
    assert sum(map(len, theirs.lists("device"))) > 10
    for column in ("device", "weight", "power_w", "upload_s"):
        assert ours.lists(column) == theirs.lists(column)


def test_queues_are_the_same_to_the_bit(both):
    ours, theirs = map(read_checkpoint, both)
    assert ours.round == theirs.round == 10
    assert ours.policy["queue.power"].max() > 1.0
    assert np.array_equal(ours.policy["queue.power"], theirs.policy["queue.power"])


def test_the_models_agree(both):
    with np.load(both[0] / "model.npz") as ours, np.load(both[1] / "model.npz") as theirs:
        start = np.abs(ours["parameters"]).max()
        assert start > 1e-3
        assert np.abs(ours["parameters"] - theirs["x"]).max() <= 1e-6


def test_the_logs_tell_the_same_story(both):
    ours, theirs = map(read_run, both)
    assert theirs.finished
    for column in ("airtime_s", "mean_inverse_probability", "worst_power_w", "test_accuracy"):
        assert np.array_equal(ours.column(column), theirs.column(column))
    assert np.allclose(ours.column("train_loss"), theirs.column("train_loss"), atol=1e-6)
