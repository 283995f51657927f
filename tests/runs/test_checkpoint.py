import logging
import os

import numpy as np
import pytest

from fedsched.runs.checkpoint import Checkpoint, read_checkpoint, rounds_done, write_checkpoint


def checkpoint(number):
    rng = np.random.default_rng(number)
    return Checkpoint(
        round=number,
        log_length=100 * number,
        airtime_s=0.1 * number,
        parameters=rng.normal(size=7).astype(np.float32),
        policy={"queue": rng.normal(size=3)},
        channel={"field": rng.normal(size=(2, 3)), "round": np.array(number, dtype=np.int64)},
    )


def assert_same(one, other):
    assert (one.round, one.log_length, one.airtime_s) == (
        other.round,
        other.log_length,
        other.airtime_s,
    )
    assert one.parameters.tobytes() == other.parameters.tobytes()
    assert one.parameters.dtype == np.float32
    for left, right in ((one.policy, other.policy), (one.channel, other.channel)):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert value.dtype == right[name].dtype
            assert value.shape == right[name].shape
            assert value.tobytes() == right[name].tobytes()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_comes_back_to_the_bit(tmp_path):
    write_checkpoint(tmp_path, checkpoint(3))
    assert_same(read_checkpoint(tmp_path), checkpoint(3))


def test_a_policy_and_channel_without_state_come_back_empty(tmp_path):
    empty = Checkpoint(
        round=1, log_length=0, airtime_s=0.0, parameters=np.ones(2, np.float32), policy={},
        channel={},
    )  # fmt: skip
    write_checkpoint(tmp_path, empty)
    assert_same(read_checkpoint(tmp_path), empty)


def test_without_a_checkpoint_there_is_none(tmp_path):
    assert read_checkpoint(tmp_path) is None
    assert rounds_done(tmp_path) == 0


def test_the_last_two_are_kept(tmp_path):
    for number in (5, 10, 15, 20):
        write_checkpoint(tmp_path, checkpoint(number))
    assert names(tmp_path) == ["checkpoint-000000015.npz", "checkpoint-000000020.npz"]
    assert rounds_done(tmp_path) == 20
    assert_same(read_checkpoint(tmp_path), checkpoint(20))


def cut_anywhere(content):
    return [content[:length] for length in (0, 1, 64, 65, 66, 200, len(content) - 1)]


def flipped_anywhere(content):
    places = (0, 63, 64, 65, 100, len(content) // 2, len(content) - 1)
    return [
        content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in places
    ]


@pytest.mark.parametrize("damage", [cut_anywhere, flipped_anywhere])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(tmp_path, caplog, damage):
    write_checkpoint(tmp_path, checkpoint(5))
    newest = write_checkpoint(tmp_path, checkpoint(10))
    for content in damage(newest.read_bytes()):
        newest.write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert_same(read_checkpoint(tmp_path), checkpoint(5))
        (record,) = caplog.records
        assert "checkpoint-000000010.npz does not match its checksum" in record.getMessage()
        assert "the one of round 5 takes its place" in record.getMessage()


def test_if_all_are_damaged_there_is_none_and_each_is_named(tmp_path, caplog):
    for number in (5, 10):
        write_checkpoint(tmp_path, checkpoint(number)).write_bytes(b"nothing")
    assert read_checkpoint(tmp_path) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    for record, number in zip(caplog.records, (10, 5), strict=True):
        assert f"checkpoint-{number:09d}.npz does not match" in record.getMessage()
        assert "no earlier one is sound, and without one a run starts anew" in record.getMessage()


def test_a_damaged_checkpoint_of_a_later_round_never_pushes_out_a_sound_one(tmp_path):
    for number in (50, 60):
        write_checkpoint(tmp_path, checkpoint(number)).write_bytes(b"nothing")
    write_checkpoint(tmp_path, checkpoint(5))  # the run began anew
    assert_same(read_checkpoint(tmp_path), checkpoint(5))
    write_checkpoint(tmp_path, checkpoint(10))
    assert names(tmp_path) == ["checkpoint-000000005.npz", "checkpoint-000000010.npz"]


def test_a_write_that_fails_leaves_the_checkpoints_that_were_there(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, checkpoint(5))
    write_checkpoint(tmp_path, checkpoint(10))
    before = names(tmp_path)

    def fail(_number):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_checkpoint(tmp_path, checkpoint(15))
    assert names(tmp_path) == before
    assert_same(read_checkpoint(tmp_path), checkpoint(10))
