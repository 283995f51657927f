"""Ctrl-C keeps the rounds that are done, and says so."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from fedsched.cli import schedule as schedule_command
from fedsched.cli.interrupts import gentle_interrupt
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.runlog import read_run


@pytest.fixture(autouse=True)
def heard():
    """Ctrl-C is heard, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def pressed_in_round(monkeypatch):
    """Press Ctrl-C while a round is scheduled."""

    def set_up(wanted, times=1):
        genuine = schedule_command.scheduled_rounds

        def rounds(air):
            for done, state in genuine(air):
                if state.round == wanted:
                    for _ in range(times):
                        press()
                yield done, state

        monkeypatch.setattr(schedule_command, "scheduled_rounds", rounds)

    return set_up


def test_a_schedule_keeps_the_rounds_that_are_done(fedsched, pressed_in_round, tmp_path):
    pressed_in_round(7)
    file = tmp_path / "s.csv"
    asked = ["schedule", "--devices", "5", "--rounds", "50", "--json", "--out", file]
    code, out, err = fedsched(*asked)
    assert code == 1
    assert json.loads(out)["rounds"] == 7
    assert "stopping after this round; Ctrl-C again stops at once" in err
    assert "stopped: auto after 7 of 50 rounds; what is printed and written is of" in err
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert len(rows) == 7 * 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_comparison_stops_at_the_policy_it_is_at(fedsched, pressed_in_round):
    pressed_in_round(7)
    asked = ["--devices", "5", "--rounds", "50", "--compare", "uniform,full", "--json"]
    code, out, _ = fedsched("schedule", *asked)
    assert code == 1
    assert [each["policy"] for each in json.loads(out)["compared"]] == ["uniform"]


def test_the_second_press_stops_at_once(fedsched, pressed_in_round, tmp_path):
    pressed_in_round(7, times=2)
    file = tmp_path / "s.csv"
    code, out, err = fedsched("schedule", "--devices", "5", "--rounds", "50", "--out", file)
    assert (code, out) == (1, "")
    assert "Aborted!" in err
    assert not file.exists()


def test_before_the_first_round_there_is_nothing_to_wait_for():
    with pytest.raises(KeyboardInterrupt), gentle_interrupt():
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
@pytest.mark.parametrize("seeds", ["[1]", "[1, 2]"])
def test_what_ends_a_batch_job_is_heard_as_ctrl_c(seeds, tmp_path):
    scenario, out = tmp_path / "scenario.toml", tmp_path / "runs"
    scenario.write_text(
        "[run]\nrounds = 100000\ncheckpoint_every = 5\n[channel]\ndevices = 4\n"
        f'[data]\nsamples = 20\n[training]\nmodel = "softmax"\n[sweep]\nseeds = {seeds}\n'
    )
    command = [sys.executable, "-m", "fedsched", "run", scenario, "--out", out, "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not list(out.glob("**/checkpoint-*")) and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "rounds are kept: give the same command to go on" in err
    assert "Traceback" not in err


def test_in_a_thread_it_leaves_signals_alone():
    handlers = []

    def look():
        with gentle_interrupt():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


@pytest.mark.slow
def test_a_run_keeps_the_rounds_since_its_last_checkpoint(fedsched, monkeypatch, tmp_path):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        "[run]\nrounds = 9\nseed = 1\neval_every = 2\ncheckpoint_every = 5\n"
        '[policy]\nkind = "lyapunov"\ndraws = 2\n[channel]\ndevices = 4\n'
        '[data]\nsamples = 20\n[training]\nmodel = "softmax"\nsteps = 2\n'
    )
    assert fedsched("run", scenario, "--out", tmp_path / "whole")[0] == 0

    from fedsched.runs import experiment

    genuine = experiment.train

    def rounds(*arguments):
        for done, state in genuine(*arguments):
            if state.round == 7:
                press()
            yield done, state

    folder = tmp_path / "stopped"
    with monkeypatch.context() as patched:
        patched.setattr(experiment, "train", rounds)
        code, _, err = fedsched("run", scenario, "--out", folder)
    assert code == 1
    assert "stopped; 7 rounds are kept: give the same command to go on" in err
    assert rounds_done(folder) == 7
    assert fedsched("run", scenario, "--out", folder)[0] == 0
    whole, stopped = read_run(tmp_path / "whole"), read_run(folder)
    assert stopped.finished
    assert stopped.rounds == 9
    assert repr(stopped.table.to_pydict()) == repr(whole.table.to_pydict())  # a NaN is no equal
    assert (folder / "model.npz").read_bytes() == (tmp_path / "whole" / "model.npz").read_bytes()
