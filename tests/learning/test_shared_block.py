import sys
from pathlib import Path

import numpy as np
import pytest

from fedsched.errors import FedschedError
from fedsched.learning import shared_block
from fedsched.learning.shared_block import SharedBlock


@pytest.fixture(params=["linux", "elsewhere"])
def system(request, monkeypatch):
    if request.param == "linux" and sys.platform != "linux":
        pytest.skip("memory without a name is Linux's")
    monkeypatch.setattr(shared_block.sys, "platform", request.param)
    return request.param


def test_what_one_writes_the_other_reads(system):
    ours = SharedBlock.create(3, 1000)
    theirs = SharedBlock.attach(ours.name, 1000)
    ours.forget_name()
    assert ours.rows.shape[1] == theirs.rows.shape[1] == 1000 and len(theirs.rows) >= 3
    assert not ours.rows.any()
    ours.rows[2] = np.arange(1000)
    assert theirs.rows[2].tolist() == list(range(1000))
    theirs.close()
    ours.close()
    ours.close()
    if system == "elsewhere":
        assert not Path("/dev/shm", ours.name).exists()


def test_memory_that_cannot_be_had_is_a_sentence(system):
    del system
    with pytest.raises(FedschedError, match=r"MB of shared memory cannot be had .*fewer workers"):
        SharedBlock.create(2**20, 2**40)
