"""The three file formats of a trace: what each looks like, and what can be wrong with it."""

import csv
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.archives import check_unpacked, check_zip
from fedsched.errors import InputError, require
from fedsched.values import PerDevice

__all__ = ["READERS", "WRITERS"]

_LONG_COLUMNS = ("round", "device", "gain")
# Names under which tables carry their row numbers: a column that is not a device.
_ROW_NUMBER_COLUMNS = frozenset({"", "round", "index", "__index_level_0__"})
_LARGEST_CELLS = 10**9


def _read_csv(path: Path) -> PerDevice:
    lines = _csv_lines(path)
    if not lines:
        return np.empty((0, 1))
    first = [cell.strip() for cell in lines[0][1]]
    header = any(first) and not any(_is_number(cell) for cell in first if cell)
    if not header:
        _refuse_numbered_header(path, first)
    rows = lines[1:] if header else lines
    table = np.empty((len(rows), len(first)))
    for index, (number, cells) in enumerate(rows):
        if len(cells) != len(first):
            raise InputError(
                f"trace {path}, line {number}: it has {len(cells)} values, but {len(first)} were "
                f"expected as on line {lines[0][0]}; every line needs one value per device "
                "(leave a cell empty if the device is unreachable)"
            )
        table[index] = [
            _csv_number(path, number, column, cell) for column, cell in enumerate(cells, start=1)
        ]
    return _table_to_gain(path, first, table) if header else table


def _csv_lines(path: Path) -> list[tuple[int, list[str]]]:
    """Line numbers and cells; an empty line is one empty cell, and empty lines at the end go."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, cells or [""]) for cells in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"trace {path} is not a CSV file in UTF-8: {error}") from error
    while lines and lines[-1][1] == [""]:
        lines.pop()
    return lines


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _csv_number(path: Path, line: int, column: int, cell: str) -> float:
    text = cell.strip()
    try:
        return float(text) if text else np.nan
    except ValueError as error:
        raise InputError(
            f"trace {path}, line {line}, column {column}: {text!r} is not a number; cells are "
            "separated by commas, with a point in the number, and empty or nan if unreachable"
        ) from error


def _refuse_numbered_header(path: Path, first: Sequence[str]) -> None:
    """0,1,2,... is a header of device numbers, not a round: reading it as gains would be silent."""
    names = first[1:] if first[0] == "" else first
    if len(names) > 1 and list(names) == [str(number) for number in range(len(names))]:
        raise InputError(
            f"trace {path}, line 1: {','.join(first[:4])},... looks like a header of device "
            "numbers; use names that are not numbers (device_0, device_1, ...) or remove the line"
            + ("; remove the column of row numbers too" if first[0] == "" else "")
        )


def _read_parquet(path: Path) -> PerDevice:
    arrow = require("pyarrow", extra="report", purpose="reading Parquet traces")
    parquet = require("pyarrow.parquet", extra="report", purpose="reading Parquet traces")
    try:
        with path.open("rb") as file:
            claimed = parquet.read_metadata(file)
            check_unpacked("trace", path, 8 * claimed.num_rows * claimed.num_columns)
            table = parquet.read_table(file)
    except arrow.ArrowException as error:
        raise InputError(f"trace {path} is not a Parquet file: {error}") from error
    names = list(table.column_names)
    wanted = _LONG_COLUMNS if set(_LONG_COLUMNS) <= set(names) else names
    columns = [_parquet_column(arrow, path, name, table.column(name)) for name in wanted]
    stacked = np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))
    return _table_to_gain(path, wanted, stacked)


def _parquet_column(arrow: Any, path: Path, name: str, column: Any) -> NDArray[np.float64]:
    kind = column.type
    types = arrow.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        raise InputError(
            f"trace {path}: column {name!r} holds {kind}, not numbers; a trace has one numeric "
            f"column per device, or the columns {', '.join(_LONG_COLUMNS)}"
        )
    return np.asarray(column.cast(arrow.float64(), safe=False).to_numpy(), dtype=np.float64)


def _read_npz(path: Path) -> PerDevice:
    try:
        check_zip("trace", path)
        with path.open("rb") as file:
            with zipfile.ZipFile(file) as archive:
                damaged = archive.testzip()  # a flipped bit must not become a gain
            if damaged is not None:
                raise zipfile.BadZipFile(f"the checksum of {damaged!r} is wrong")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                name = _npz_name(path, list(arrays))
                gain = arrays[name]
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError) as error:
        raise InputError(
            f"trace {path} is not an NPZ file, or a damaged one: {error}; "
            "write it with numpy.savez(path, gain=array)"
        ) from error
    if not isinstance(gain, np.ndarray) or gain.dtype.kind not in "fiu":
        kind = getattr(gain, "dtype", type(gain).__name__)
        raise InputError(f"trace {path}: the array {name!r} holds {kind}, not real numbers")
    return gain.astype(np.float64)


def _npz_name(path: Path, names: Sequence[str]) -> str:
    if "gain" not in names and len(names) != 1:
        raise InputError(
            f"trace {path} holds the arrays {names}; it needs one named 'gain', or one array alone"
        )
    return "gain" if "gain" in names else names[0]


def _table_to_gain(path: Path, names: Sequence[str], table: NDArray[np.float64]) -> PerDevice:
    """A wide table is the gains; a long one is spread out."""
    if set(_LONG_COLUMNS) <= set(names):
        return _long_to_gain(path, *(table[:, names.index(name)] for name in _LONG_COLUMNS))
    for name in names:
        if name.lower() in _ROW_NUMBER_COLUMNS:
            raise InputError(
                f"trace {path}: column {name!r} does not name a device; leave row numbers out, "
                f"or write a long table with the columns {', '.join(_LONG_COLUMNS)}"
            )
    return table


def _long_to_gain(path: Path, rounds: PerDevice, devices: PerDevice, gain: PerDevice) -> PerDevice:
    if len(gain) == 0:
        return np.empty((0, 1))
    for name, values in (("round", rounds), ("device", devices)):
        good = (values >= 0) & (values < 2**53) & (values == np.floor(values))
        if not good.all():
            row = int(np.argmin(good))
            raise InputError(
                f"trace {path}, row {row}: {name} is {values[row]}; "
                "rounds and devices are whole numbers from 0"
            )
    if devices.min() > 0:
        raise InputError(
            f"trace {path}: the smallest device number is {int(devices.min())}; devices are "
            "numbered from 0 (if device 0 is never reachable, give it a row with an empty gain)"
        )
    row_of, device_of = (rounds - rounds.min()).astype(np.int64), devices.astype(np.int64)
    shape = int(row_of.max()) + 1, int(device_of.max()) + 1
    if shape[0] * shape[1] > _LARGEST_CELLS:
        raise InputError(
            f"trace {path}: its numbers span {shape[0]} rounds and {shape[1]} devices, which is "
            "too many; are these time stamps or identifiers? number both from 0 without gaps"
        )
    cell = row_of * shape[1] + device_of
    order = np.argsort(cell, kind="stable")
    if (again := np.flatnonzero(np.diff(cell[order]) == 0)).size:
        row = int(order[again[0] + 1])
        raise InputError(
            f"trace {path}, row {row}: round {int(rounds[row])}, device {int(devices[row])} "
            "is given twice; a trace holds one run, so keep the rows of one seed and policy"
        )
    spread = np.full(shape, np.nan)
    spread.flat[cell] = gain
    return spread


def _device_names(devices: int) -> list[str]:
    return [f"device_{device}" for device in range(devices)]


def _write_csv(path: Path, gain: PerDevice) -> None:
    # repr of a float is the shortest text that reads back as the same bits.
    lines = [",".join(map(repr, row)) for row in gain.tolist()]
    text = "\n".join([",".join(_device_names(gain.shape[1])), *lines, ""])
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_parquet(path: Path, gain: PerDevice) -> None:
    arrow = require("pyarrow", extra="report", purpose="writing Parquet traces")
    parquet = require("pyarrow.parquet", extra="report", purpose="writing Parquet traces")
    columns = [arrow.array(column, from_pandas=True) for column in gain.T.copy()]  # NaN: null
    with path.open("wb") as file:
        parquet.write_table(arrow.table(columns, names=_device_names(gain.shape[1])), file)


def _write_npz(path: Path, gain: PerDevice) -> None:
    with path.open("wb") as file:  # given a path, numpy would add a suffix to "TRACE.NPZ"
        np.savez_compressed(file, gain=gain)


READERS: Mapping[str, Callable[[Path], PerDevice]] = MappingProxyType(
    {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
)
WRITERS: Mapping[str, Callable[[Path, PerDevice], None]] = MappingProxyType(
    {".csv": _write_csv, ".parquet": _write_parquet, ".npz": _write_npz}
)
