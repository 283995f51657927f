import dataclasses
import json
import subprocess
import sys
import time

import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.files import locked
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.engines import Job, run_jobs
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from

pytestmark = pytest.mark.slow


def job(folder, name, *, rounds=4):
    scenario = scenario_from(
        {
            "run": {"rounds": rounds, "seed": 1, "checkpoint_every": 10},
            "policy": {"kind": "uniform", "draws": 2},
            "channel": {"kind": "homogeneous", "devices": 6},
            "data": {"samples": 30},
            "training": {"model": "softmax", "steps": 1, "batch_size": 4},
        }
    )
    return Job(name=name, scenario=scenario, folder=folder / name)


@pytest.fixture
def three(tmp_path):
    """Three jobs, of which the second cannot be done: a file stands where its folder would be."""
    (tmp_path / "second").touch()
    return [job(tmp_path, name) for name in ("first", "second", "third")]


def test_what_no_engine_can_do_is_refused(three):
    with pytest.raises(InputError, match="workers must be a whole number of at least 1, got 0"):
        run_jobs(three, workers=0)
    with pytest.raises(UnknownNameError, match="engine: 'rey' is not known; did you mean 'ray'"):
        run_jobs(three, engine="rey")


def test_a_failing_run_is_told_of_in_a_sentence_and_stops_nothing_else(three):
    outcomes = {outcome.job.name: outcome.failure for outcome in run_jobs(three, workers=1)}
    assert outcomes.keys() == {"first", "second", "third"}
    assert outcomes["first"] is outcomes["third"] is None
    assert outcomes["second"].startswith("out: the folder")
    for each in (three[0], three[2]):
        assert read_run(each.folder).finished
    # The same scenario in another folder of another process is the same run.
    one, other = ((each.folder / "rounds.arrows").read_bytes() for each in (three[0], three[2]))
    assert one == other


def test_whoever_stops_listening_does_not_wait_for_runs_not_yet_begun(tmp_path):
    jobs = [job(tmp_path, f"run-{number}", rounds=60) for number in range(12)]
    running = run_jobs(jobs, workers=1)
    assert next(running).failure is None
    running.close()
    begun = [each for each in jobs if each.folder.exists()]
    assert 1 <= len(begun) < len(jobs)
    assert all(read_run(each.folder).finished for each in begun)


def test_a_process_that_dies_takes_no_other_run_with_it(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text("import os\n\ndef model():\n    os._exit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    good = job(tmp_path, "good")
    training = dataclasses.replace(good.scenario.training, model="deadly:model")
    deadly = Job(
        name="bad",
        scenario=dataclasses.replace(good.scenario, training=training),
        folder=tmp_path / "bad",
    )
    outcomes = {each.job.name: each.failure for each in run_jobs([deadly, good], workers=1)}
    assert outcomes["good"] is None
    assert "its process was lost 3 times with no checkpoint in between" in outcomes["bad"]


SWEEP = """
import json
from pathlib import Path
from fedsched.runs.scenario import scenario_from
from fedsched.runs.engines import Job, run_jobs
from fedsched.errors import InputError, UnknownNameError

if __name__ == "__main__":
    endless = scenario_from(json.loads(Path("endless.json").read_text()))
    list(run_jobs([Job(name="endless", scenario=endless, folder=Path("endless"))]))
"""


def test_runs_end_with_the_sweep_that_is_killed_and_leave_their_folder_free(tmp_path):
    endless = job(tmp_path, "endless", rounds=100_000_000)
    (tmp_path / "endless.json").write_text(json.dumps(endless.scenario.as_dict()))
    (tmp_path / "sweep.py").write_text(SWEEP)
    with subprocess.Popen([sys.executable, "sweep.py"], cwd=tmp_path) as sweep:
        while not rounds_done(endless.folder):
            assert sweep.poll() is None
            time.sleep(0.1)
        sweep.kill()
    with locked(endless.folder, wait_s=60.0):  # raises where the folder is still being run
        assert rounds_done(endless.folder)
