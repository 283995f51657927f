import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedsched.errors import FedschedError, InputError
from fedsched.learning.dataset import load_dataset
from fedsched.learning.pool import InProcessPool, ProcessPool, training_pool
from fedsched.learning.spec import TrainerSpec

pytestmark = pytest.mark.slow

DIGITS = load_dataset("digits")


def spec(**changes):
    # The data themselves and not their name: a worker then need not load scikit-learn.
    given = {
        "dataset": DIGITS,
        "model": "small-cnn",
        "alpha": 0.5,
        "devices": 40,
        "size": 30,
        "steps": 3,
        "batch_size": 8,
        "learning_rate": 0.1,
        "seed": 9,
    }
    return TrainerSpec(**(given | changes))


@pytest.fixture(scope="module")
def two():
    with training_pool(spec(), workers=2) as pool:
        yield pool


@pytest.fixture(scope="module")
def alone():
    with training_pool(spec(), workers=1) as pool:
        yield pool


def test_there_are_no_more_workers_than_devices():
    """A million of them would take the machine."""
    with training_pool(spec(devices=2), workers=10**6) as pool:
        assert isinstance(pool, ProcessPool)
        assert len(pool._workers) == 2


def some_rounds(pool):
    """Everything a short run depends on, as bytes."""
    x = pool.initial_parameters
    seen = [x.tobytes()]
    for number in range(3):
        cohort = np.arange(number, number + 13)
        updates = list(pool.train_cohort(x, cohort, number))
        seen += [update.delta.tobytes() for update in updates]
        seen += [
            repr((update.loss, update.square_loss, update.steps)).encode() for update in updates
        ]
        x = x + sum(update.delta for update in updates) / np.float32(len(updates))
    return [*seen, repr(pool.evaluate(x)).encode()]


def test_one_two_and_three_workers_give_the_same_bytes(alone, two):
    assert isinstance(alone, InProcessPool) and isinstance(two, ProcessPool)
    expected = some_rounds(alone)
    assert some_rounds(two) == expected
    with training_pool(spec(), workers=3) as three:
        assert some_rounds(three) == expected


def test_a_cohort_may_be_empty_or_much_larger_than_the_slots(alone, two):
    x = two.initial_parameters
    assert list(two.train_cohort(x, [], 0)) == []
    assert len(two._slots) < 40
    cohort = list(reversed(range(40)))
    for one, other in zip(
        alone.train_cohort(x, cohort, 5), two.train_cohort(x, cohort, 5), strict=True
    ):
        assert one.delta.tobytes() == other.delta.tobytes()


def test_memory_does_not_grow_with_the_cohort(two):
    assert two._rows.nbytes < 10 * 4 * len(two.initial_parameters)


def test_updates_stay_as_they_were_when_later_ones_arrive(two):
    x = two.initial_parameters
    updates = list(two.train_cohort(x, range(20), 0))
    again = next(iter(two.train_cohort(x, [0], 0)))
    assert updates[0].delta.tobytes() == again.delta.tobytes()


def test_a_cohort_left_early_does_not_disturb_the_next(alone, two):
    x = two.initial_parameters
    expected = [update.delta.tobytes() for update in alone.train_cohort(x, [1, 2], 3)]
    leaving = two.train_cohort(x, range(30), 0)
    next(leaving)
    with pytest.raises(FedschedError, match="at work; finish the cohort under way first"):
        next(two.train_cohort(x, [1], 0))
    leaving.close()
    assert [update.delta.tobytes() for update in two.train_cohort(x, [1, 2], 3)] == expected


def test_a_worker_that_dies_is_an_error_and_not_a_wait():
    pool = ProcessPool(spec(), 2)
    updates = pool.train_cohort(pool.initial_parameters, range(40), 0)
    next(updates)
    os.kill(pool._workers[1]._process.pid, signal.SIGKILL)
    with pytest.raises(FedschedError, match=r"fedsched-worker-1 ended unexpectedly \(signal 9\)"):
        list(updates)
    assert not any(worker._process.is_alive() for worker in pool._workers)
    assert pool._memory.rows.size == 0
    with pytest.raises(FedschedError, match="the training pool is closed"):
        pool.evaluate(np.zeros(6090, np.float32))
    pool.close()


def test_a_mistake_found_by_a_worker_is_told_in_its_own_words():
    with pytest.raises(InputError, match="alpha must lie in"):
        ProcessPool(spec(alpha=-1.0), 2)


def test_a_failure_inside_a_worker_is_told_with_its_place(tmp_path, monkeypatch):
    (tmp_path / "failing_model_module.py").write_text(
        "from torch import nn\n"
        "class Failing(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(64, 10))\n"
        "    def forward(self, x):\n"
        "        if self.training:\n"
        "            raise KeyError('deliberate')\n"
        "        return super().forward(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with (
        training_pool(spec(model="failing_model_module:Failing"), workers=2) as pool,
        pytest.raises(FedschedError, match=r"(?s)worker failed:.*KeyError: 'deliberate'"),
    ):
        list(pool.train_cohort(pool.initial_parameters, range(10), 0))


def test_no_workers_are_refused():
    with pytest.raises(InputError, match="workers must be >= 1, got 0"):
        training_pool(spec(), workers=0)


SCRIPT = """
import multiprocessing, sys, time
from fedsched.learning.pool import ProcessPool
from fedsched.learning.spec import TrainerSpec

if __name__ == "__main__":
    spec = TrainerSpec(dataset="digits", model="softmax", alpha=1.0, devices=5, steps=1,
                       batch_size=1, learning_rate=0.1, seed=1)
    pool = ProcessPool(spec, 2)
    print(pool._memory.name, *(child.pid for child in multiprocessing.active_children()))
    sys.stdout.flush()
    time.sleep(60)
"""


def running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def files_mapped(pid):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/" in line}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_workers_go_with_their_parent_and_their_memory_has_no_name(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    _, *workers = parent.stdout.readline().split()
    assert len(workers) == 2 and all(running(pid) for pid in workers)
    for pid in (parent.pid, *workers):  # memory without a name cannot be left behind
        assert any("fedsched (deleted)" in name for name in files_mapped(pid))
        assert not any(name.startswith("/dev/shm/") for name in files_mapped(pid))
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 30
    while any(running(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)


@pytest.mark.parametrize("whole", [True, False])
def test_losses_are_the_same_with_any_number_of_workers(two, whole):
    with training_pool(spec(), workers=1) as one:
        x = one.initial_parameters
        losses = list(one.losses(x, [3, 7, 3], 2, whole=whole))
        assert list(two.losses(x, [3, 7, 3], 2, whole=whole)) == losses
        assert losses[0] == losses[2] != losses[1]
        later = next(one.losses(x, [3], 5, whole=whole))
    assert (later == losses[0]) is whole  # a minibatch is drawn anew in each round
    assert losses[0] == pytest.approx(np.log(10), rel=0.3)
