import numpy as np
import pytest

import fedsched.solve.blocks
from fedsched.solve.blocks import blocks


@pytest.mark.parametrize("devices", [1, 7, 16_384, 16_385, 50_000])
def test_the_blocks_cover_every_device_once_and_in_order(devices):
    covered = np.concatenate([np.arange(devices)[block] for block in blocks(devices)])
    assert np.array_equal(covered, np.arange(devices))


def test_a_problem_of_usual_size_is_one_block_and_no_device_is_none():
    assert list(blocks(1_000)) == [slice(0, 1_000)]
    assert list(blocks(0)) == []


def test_no_block_is_longer_than_the_length(monkeypatch):
    monkeypatch.setattr(fedsched.solve.blocks, "_LENGTH", 4)
    assert [b.stop - b.start for b in blocks(10)] == [4, 4, 2]
