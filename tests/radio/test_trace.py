import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsched.errors import InputError
from fedsched.radio.fading import GaussMarkov
from fedsched.radio.trace import TRACE_SUFFIXES, Trace, read_trace, record, write_trace
from fedsched.randomness import stream

GAIN = np.array([[1.0, 0.1 + 0.2, np.nan], [np.nan, np.nan, np.nan], [5e-324, 1e300, 2.0 / 3.0]])


@pytest.mark.parametrize("suffix", [*TRACE_SUFFIXES, ".NPZ", ".Csv"])
def test_a_trace_is_read_back_to_the_last_bit(suffix, tmp_path):
    path = tmp_path / f"gains{suffix}"
    write_trace(path, GAIN)
    np.testing.assert_array_equal(read_trace(path), GAIN)
    np.testing.assert_array_equal(read_trace(str(path)), GAIN)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", TRACE_SUFFIXES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    gain=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 4)),
        elements=st.one_of(st.just(np.nan), st.floats(0.0, exclude_min=True, allow_infinity=False)),
    )
)
def test_any_trace_is_read_back_to_the_last_bit(suffix, tmp_path_factory, gain):
    path = tmp_path_factory.mktemp("trace") / f"gains{suffix}"
    write_trace(path, gain)
    np.testing.assert_array_equal(read_trace(path), gain)


@pytest.mark.parametrize("suffix", TRACE_SUFFIXES)
def test_a_gain_of_zero_is_unreachable(suffix, tmp_path):
    write_trace(tmp_path / f"gains{suffix}", [[0.0, 1.0]])
    np.testing.assert_array_equal(read_trace(tmp_path / f"gains{suffix}"), [[np.nan, 1.0]])


def test_a_recorded_channel_replays_as_the_channel(tmp_path):
    channel = GaussMarkov(sigma=np.ones(4), memory=0.5)
    gain = record(channel, rounds=10, seed=3)
    write_trace(tmp_path / "gains.parquet", gain)
    replay = Trace(read_trace(tmp_path / "gains.parquet"))
    np.testing.assert_array_equal(record(replay, rounds=10, seed=99), gain)


def test_recording_uses_the_streams_of_a_run():
    channel = GaussMarkov(sigma=np.ones(4), memory=0.5)
    state = channel.init(stream(3, "channel"))
    _, state = channel.step(state, stream(3, "channel", 0))
    gain, _ = channel.step(state, stream(3, "channel", 1))
    np.testing.assert_array_equal(record(channel, rounds=2, seed=3)[1], gain)


def test_recording_no_rounds_is_refused():
    with pytest.raises(InputError, match="rounds must be a whole number of at least 1, got 0"):
        record(Trace(np.ones((1, 1))), rounds=0, seed=1)


def test_a_trace_starts_again_when_the_run_is_longer():
    trace = Trace(np.array([[1.0], [2.0], [3.0]]))
    assert trace.rounds == 3
    assert record(trace, rounds=7, seed=1)[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]


def test_a_trace_that_may_not_repeat_names_the_round_and_its_length():
    trace = Trace(np.array([[1.0], [2.0], [3.0]]), repeat=False)
    assert record(trace, rounds=3, seed=1)[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(
        InputError,
        match=r"round 3 is beyond the trace, which has 3 rounds \(0 to 2\); .*repeat=True",
    ):
        record(trace, rounds=4, seed=1)


def test_a_trace_does_not_follow_later_changes_of_its_array():
    gain = np.ones((2, 2))
    trace = Trace(gain)
    gain[:] = 7.0
    assert trace.gain.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(ValueError, match="read-only"):
        trace.gain[0, 0] = 2.0


@pytest.mark.parametrize(
    ("gain", "message"),
    [
        ([1.0, 2.0], r"must have the shape \(rounds, devices\), got \(2,\)"),
        (np.empty((0, 3)), "has zero rounds; it needs at least one round and one device"),
        (np.empty((3, 0)), "has zero devices; it needs at least one round and one device"),
        ([[1.0, 2.0], [3.0, -4.0]], "the gain in round 1 of device 1 is -4.0; gains are linear"),
        ([[np.inf, 2.0]], "the gain in round 0 of device 0 is inf; .* finite and not negative"),
        ([[1.0, 2.0], [3.0]], "must be a table of numbers, one row per round, got"),
    ],
)
def test_an_impossible_table_is_refused_when_made_and_when_written(gain, message, tmp_path):
    with pytest.raises(InputError, match=f"trace.*{message}"):
        Trace(gain)
    with pytest.raises(InputError, match=f"gain.*{message}"):
        write_trace(tmp_path / "gains.csv", gain)
    assert not (tmp_path / "gains.csv").exists()


@pytest.mark.parametrize("suffix", [".txt", "", ".npy"])
def test_an_unknown_suffix_is_named_with_the_allowed_ones(suffix, tmp_path):
    message = rf"gains{suffix} has the suffix '{suffix}'; .* one of .csv, .parquet, .npz"
    with pytest.raises(InputError, match=message):
        read_trace(tmp_path / f"gains{suffix}")
    with pytest.raises(InputError, match=message):
        write_trace(tmp_path / f"gains{suffix}", GAIN)


@pytest.mark.parametrize("suffix", TRACE_SUFFIXES)
def test_a_missing_file_or_folder_is_a_sentence(suffix, tmp_path):
    with pytest.raises(InputError, match=r"missing\.\w+: there is no such file in "):
        read_trace(tmp_path / f"missing{suffix}")
    with pytest.raises(InputError, match=r"cannot be written: No such file .* the folder exists"):
        write_trace(tmp_path / "nowhere" / f"gains{suffix}", GAIN)
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_trace(tmp_path / f"folder{suffix}")


def test_an_impossible_gain_in_a_file_is_named_with_file_round_and_device(tmp_path):
    (tmp_path / "gains.csv").write_text("a,b\n1,2\n3,-0.5\n")
    with pytest.raises(
        InputError, match=r"trace .*gains.csv: the gain in round 1 of device 1 is -0.5"
    ):
        read_trace(tmp_path / "gains.csv", unit="gain")


def test_the_digest_is_that_of_the_gains_and_their_shape(tmp_path):
    gain = np.array([[0.5, 2.0, 0.0], [1.0, np.nan, 3.0]])
    digest = Trace(gain).sha256
    for name in ("gains.csv", "gains.npz"):
        write_trace(tmp_path / name, gain)
        assert Trace(read_trace(tmp_path / name)).sha256 == digest
    other_nan = gain.copy()
    other_nan.view(np.uint64)[1, 1] = 0x7FF8_0000_0000_0001
    assert np.isnan(other_nan[1, 1])
    assert Trace(other_nan).sha256 == digest
    assert Trace(gain.reshape(3, 2)).sha256 != digest
    gain[0, 1] = np.nextafter(2.0, 3.0)
    assert Trace(gain).sha256 != digest
