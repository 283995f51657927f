import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsched.errors import InputError, MissingExtraError
from fedsched.radio.trace import read_trace, write_trace

NAN = np.nan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("device a,device b\n1,2\n", [[1, 2]]),
        ("a,b\r\n1, 2 \r\n,nan\r\n", [[1, 2], [NAN, NAN]]),
        ("1,NaN\n0,4e-3", [[1, NAN], [NAN, 0.004]]),
        (",\n1,2\n", [[NAN, NAN], [1, 2]]),
        ("a,b\n1,2\n\n\n", [[1, 2]]),
        ("\ufeff1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("only\n1\n\n2\n", [[1], [NAN], [2]]),
        ("0,1\n", None),
        ("round,device,gain\n4,1,2.5\n4,0,1.5\n6,1,\n", [[1.5, 2.5], [NAN, NAN], [NAN, NAN]]),
        ("gain,seed,device,round\n7,1,0,0\n", [[7]]),
    ],
)
def test_csv_files_are_read_as_described(text, expected, tmp_path):
    (tmp_path / "gains.csv").write_bytes(text.encode())
    if expected is None:
        with pytest.raises(InputError, match=r"line 1: 0,1,... looks like a header of device num"):
            read_trace(tmp_path / "gains.csv", unit="gain")
    else:
        np.testing.assert_array_equal(read_trace(tmp_path / "gains.csv", unit="gain"), expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b,c\n1,2,3\n1,2\n", "line 3: it has 2 values, but 3 were expected as on line 1"),
        (b"1,2\n1,2,3\n", "line 2: it has 3 values, but 2 were expected as on line 1"),
        (b"1,2\n\n3,4\n", "line 2: it has 1 values, but 2 were expected"),
        (b"1,2\n3,x y\n", "line 2, column 2: 'x y' is not a number; cells are separated by commas"),
        (b"1,b\n3,4\n", "line 1, column 2: 'b' is not a number"),
        (b"a;b\n1;2\n", "line 2: its cells seem to be separated by semicolons; save the file"),
        (b"", "has zero rounds"),
        (b"\n\n", "has zero rounds"),
        (b"a,b\n", "has zero rounds"),
        (b"round,device,gain\n", "has zero rounds"),
        (b"a\n\xff\xfe\n", "is not a CSV file in UTF-8"),
        (b'a\n"1\n', "is not a CSV file in UTF-8: unexpected end of data"),
        (b"1,inf\n", "the gain in round 0 of device 1 is inf"),
        (b",0,1,2\n0,5,6,7\n", "line 1: .* header of device numbers; .* column of row numbers too"),
        (b"Round,a,b\n0,5,6\n", "column 'Round' does not name a device; leave row numbers out"),
        (b",a,b\n0,5,6\n", "column '' does not name a device"),
    ],
)
def test_a_bad_csv_file_is_answered_with_the_place_and_the_reason(content, message, tmp_path):
    (tmp_path / "gains.csv").write_bytes(content)
    with pytest.raises(InputError, match=rf"trace .*gains\.csv.*{message}"):
        read_trace(tmp_path / "gains.csv", unit="gain")


def parquet_file(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "gains.parquet")
    return tmp_path / "gains.parquet"


def test_wide_parquet_takes_nulls_integers_and_empty_columns(tmp_path):
    path = parquet_file(
        tmp_path,
        {
            "a": pa.array([1.5, None, NAN]),
            "b": pa.array([1, 0, 2**53 + 1]),
            "c": pa.nulls(3),
            "d": pa.array([1.0, 2.0, 3.0], pa.float32()),
        },
    )
    expected = [[1.5, 1, NAN, 1], [NAN, NAN, NAN, 2], [NAN, 2.0**53, NAN, 3]]
    np.testing.assert_array_equal(read_trace(path, unit="gain"), expected)


def test_long_parquet_counts_rounds_from_the_first_and_ignores_other_columns(tmp_path):
    columns = {
        "policy": ["x"] * 4,
        "round": [11, 10, 10, 13],
        "device": [1, 0, 2, 0],
        "gain": [4.0, 1.0, 3.0, None],
    }
    expected = np.full((4, 3), NAN)
    expected[0, 0], expected[0, 2], expected[1, 1] = 1.0, 3.0, 4.0
    np.testing.assert_array_equal(
        read_trace(parquet_file(tmp_path, columns), unit="gain"), expected
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x"]}, "column 'a' holds string, not numbers; .* columns round, device, gain"),
        ({"a": [True]}, "column 'a' holds bool, not numbers"),
        ({"round": [0], "a": [1.0]}, "column 'round' does not name a device"),
        ({"a": [1.0], "__index_level_0__": [0]}, "column '__index_level_0__' does not name"),
        ({"a": pa.array([], pa.float64())}, "has zero rounds"),
        ({"round": [0, -1], "device": [0, 0], "gain": [1.0, 1.0]}, "row 1: round is -1.0; rounds"),
        ({"round": [0], "device": [0.5], "gain": [1.0]}, "row 0: device is 0.5; .* whole numbers"),
        ({"round": [None], "device": [0], "gain": [1.0]}, "row 0: round is nan"),
        ({"round": [0], "device": [1], "gain": [1.0]}, "smallest device number is 1; devices are"),
        (
            {"round": [3, 4, 3], "device": [0, 0, 0], "gain": [1.0, 2.0, 3.0]},
            "row 2: round 3, device 0 is given twice; a trace holds one run",
        ),
        (
            {"round": [0, 10**12], "device": [0, 0], "gain": [1.0, 2.0]},
            "span 1000000000001 rounds and 1 devices, which is too many; are these time stamps",
        ),
        ({"a": [1.0, -2.0]}, "the gain in round 1 of device 0 is -2.0"),
    ],
)
def test_a_bad_parquet_file_is_answered_with_the_reason(columns, message, tmp_path):
    with pytest.raises(InputError, match=rf"trace .*gains\.parquet.*{message}"):
        read_trace(parquet_file(tmp_path, columns), unit="gain")


def test_what_is_not_parquet_is_a_sentence(tmp_path):
    (tmp_path / "gains.parquet").write_bytes(b"1,2\n3,4\n")
    with pytest.raises(InputError, match="is not a Parquet file"):
        read_trace(tmp_path / "gains.parquet", unit="gain")


def test_parquet_without_columns_has_zero_devices(tmp_path):
    with pytest.raises(InputError, match="has zero"):
        read_trace(parquet_file(tmp_path, {}))


def test_without_pyarrow_the_message_names_the_extra(tmp_path, monkeypatch):
    path = parquet_file(tmp_path, {"a": [1.0]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading Parquet traces .* 'fedsched\[report\]'"):
        read_trace(path, unit="gain")
    with pytest.raises(MissingExtraError, match="writing Parquet traces"):
        write_trace(path, np.ones((1, 1)))


@pytest.mark.parametrize("arrays", [{"gain": [[1, 2]], "noise": [[9, 9]]}, {"h2": [[1, 2]]}])
def test_npz_gives_the_array_named_gain_or_the_only_one(arrays, tmp_path):
    np.savez(tmp_path / "gains.npz", **{name: np.array(a) for name, a in arrays.items()})
    assert read_trace(tmp_path / "gains.npz", unit="gain").tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.ones((1, 1)), "b": np.ones((1, 1))}, r"arrays \['a', 'b'\]; it needs one named"),
        ({}, r"holds the arrays \[\]"),
        ({"gain": np.ones(3)}, r"must have the shape \(rounds, devices\), got \(3,\)"),
        ({"gain": np.array([["x"]])}, "the array 'gain' holds <U1, not real numbers"),
        ({"gain": np.ones((1, 1), complex)}, "'gain' holds complex128, not real numbers"),
        ({"gain": np.array([[None]])}, "not an NPZ file, or a damaged one: Object arrays cannot"),
    ],
)
def test_a_bad_npz_file_is_answered_with_the_reason(arrays, message, tmp_path):
    np.savez(tmp_path / "gains.npz", **arrays)
    with pytest.raises(InputError, match=rf"trace .*gains\.npz.*{message}"):
        read_trace(tmp_path / "gains.npz", unit="gain")


def test_what_is_not_npz_is_a_sentence(tmp_path):
    with (tmp_path / "gains.npz").open("wb") as file:
        np.save(file, np.ones((2, 2)))
    with pytest.raises(InputError, match=r"is not an NPZ file, .* write it with numpy\.savez"):
        read_trace(tmp_path / "gains.npz", unit="gain")


def test_a_damaged_npz_file_is_a_sentence(tmp_path):
    path = tmp_path / "gains.npz"
    write_trace(path, np.random.default_rng(1).random((50, 20)))
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    # Place 200 garbles the header of the array, which numpy parses before any checksum.
    for place, length in [
        (200, 200),
        *((place, 40) for place in rng.integers(0, len(whole) - 50, 40)),
    ]:
        damaged = bytearray(whole)
        damaged[place : place + length] = bytes(length)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"or a damaged one|holds the arrays"):
            read_trace(path, unit="gain")
    path.write_bytes(whole[:-200])
    with pytest.raises(InputError, match="or a damaged one"):
        read_trace(path, unit="gain")
