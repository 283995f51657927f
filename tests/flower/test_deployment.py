"""A real federation on loopback, with TLS: processes are killed and the run goes on."""

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.runlog import read_run

pytestmark = pytest.mark.deployment

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower" / "federation.py"
PATIENCE_S = 240  # for anything: beyond it something hangs


@pytest.fixture(scope="module")
def example():
    """The module that starts the example's processes."""
    spec = importlib.util.spec_from_file_location("federation", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def until(happens, what, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not happens():
        assert time.monotonic() < end, f"waited {patience_s} s for {what}"
        time.sleep(0.1)


def words(federation):
    return "\n".join(
        f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}"
        for log in sorted(federation.folder.glob("*.log"))
    )


def ends(federation, run):
    """Wait for a run that was begun, and show what the processes said if it failed."""
    code = run.wait(timeout=PATIENCE_S)
    assert code == 0, words(federation)


def test_a_node_is_killed_in_mid_round_and_another_joins(example, tmp_path):
    timeout_s, folder = 30, tmp_path / "run"
    with example.Federation(tmp_path / "processes") as federation:
        federation.start_superlink()
        for part in range(3):
            federation.start_supernode(part, 4)
        run = federation.begin(
            folder=folder, num_rounds=5, min_nodes=3, policy="full", timeout_s=timeout_s,
            max_age_rounds=100, pause_s=2.0,
        )  # fmt: skip
        until(lambda: rounds_done(folder) >= 1, "the first round")
        victim = federation.processes["supernode-1"].pid
        until(lambda: example.descendants(victim, "flwr-clientapp"), "node 1 to train")
        in_round = rounds_done(folder)
        federation.stop("supernode-1", signal.SIGKILL)
        killed = time.monotonic()
        federation.start_supernode(3, 4)
        until(lambda: rounds_done(folder) > in_round, "the round to end", 2 * timeout_s)
        # The round with the dead node ends by its timeout, not by the heartbeat a minute later.
        assert time.monotonic() - killed < timeout_s + 10
        ends(federation, run)
        everybody = list(federation.processes)
    assert federation.processes == {}
    assert "supernode-3" in everybody
    log = read_run(folder)
    assert log.finished
    assert log.rounds == 5
    assert log.column("rejected")[in_round] >= 1  # device 1 was asked and lost
    assert 1 in log.lists("device")[in_round]
    assert any(3 in devices for devices in log.lists("device")[in_round + 1 :])  # the new one
    assert 1 not in log.lists("device")[-1]  # the dead one is left alone
    with np.load(folder / "model.npz") as model:
        assert all(np.isfinite(model[name]).all() for name in model.files)
        assert np.abs(model["weight"]).max() > 0.0
    assert log.column("test_accuracy")[-1] > 0.5


def test_a_server_that_is_killed_goes_on_where_it_was(example, tmp_path):
    """SuperLink and server app are killed; the nodes live on and find the new ones."""
    settings = {
        "num_rounds": 3, "min_nodes": 3, "draws": 3, "max_age_rounds": 100, "timeout_s": 150,
    }  # fmt: skip
    with example.Federation(tmp_path / "processes") as federation:
        federation.start_superlink()
        for part in range(3):
            federation.start_supernode(part, 3)
        ends(federation, federation.begin(folder=tmp_path / "whole", **settings))
        federation.begin(folder=tmp_path / "cut", **settings)
        until(lambda: rounds_done(tmp_path / "cut") == 1, "the first round")
        federation.stop("superlink", signal.SIGKILL)
        federation.stop("run")
        assert not read_run(tmp_path / "cut").finished
        federation.start_superlink()
        ends(federation, federation.begin(folder=tmp_path / "cut", **settings))
        said = (federation.folder / "run.log").read_text()
    assert "going on after round" in said
    whole, cut = read_run(tmp_path / "whole"), read_run(tmp_path / "cut")
    assert whole.finished
    assert cut.finished
    assert whole.rounds == cut.rounds == 3
    for column in ("device", "weight", "power_w"):
        assert whole.lists(column) == cut.lists(column)
    with (
        np.load(tmp_path / "whole" / "model.npz") as one,
        np.load(tmp_path / "cut" / "model.npz") as other,
    ):
        assert all(np.array_equal(one[name], other[name]) for name in one.files)


def test_the_same_app_runs_in_simulation_and_its_run_is_drawn(tmp_path):
    """The commands of the example's README, as they stand there."""
    out = tmp_path / "runs" / "simulated"
    out.parent.mkdir()
    done = subprocess.run(
        [sys.executable, EXAMPLE, "simulate", "--out", out, "--rounds", "3", "--nodes", "4"],
        timeout=PATIENCE_S, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    log = read_run(out)
    assert log.finished
    assert log.rounds == 3
    assert log.column("test_accuracy")[-1] > 0.5
    page = tmp_path / "report.html"
    subprocess.run(
        [sys.executable, "-m", "fedsched", "report", out.parent, "--out", page],
        check=True, timeout=PATIENCE_S, capture_output=True,
    )  # fmt: skip
    assert "lyapunov" in page.read_text()
