"""The three file formats of a trace: what each looks like, and what can be wrong with it.

A reader gives the numbers as they stand in the file, and the unit that the file names, if any.
"""

import csv
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.archives import check_zip, read_parquet
from fedsched.errors import InputError, require
from fedsched.radio.units import GAIN, Unit, agreed_unit, named_unit, parse_unit
from fedsched.values import PerDevice

__all__ = ["READERS", "WRITERS"]

# Numbers of shape (rounds, devices), and the unit that the file names, if it does.
Said: TypeAlias = tuple[PerDevice, Unit | None]

_LONG_COLUMNS = ("round", "device", "gain")
# Names under which tables carry their row numbers: a column that is not a device.
_ROW_NUMBER_COLUMNS = frozenset({"", "round", "index", "__index_level_0__"})
_LARGEST_CELLS = 10**9


def _read_csv(path: Path) -> Said:
    lines, unit = _without_comments(path, _csv_lines(path))
    if not lines:
        return np.empty((0, 1)), unit
    first = [cell.strip() for cell in lines[0][1]]
    header = any(first) and not any(_is_number(cell) for cell in first if cell)
    if not header:
        _refuse_numbered_header(path, first)
    rows = lines[1:] if header else lines
    table = np.empty((len(rows), len(first)))
    for index, (number, cells) in enumerate(rows):
        if len(cells) != len(first):
            _refuse_other_marks(path, number, cells)
            raise InputError(
                f"trace {path}, line {number}: it has {len(cells)} values, but {len(first)} were "
                f"expected as on line {lines[0][0]}; every line needs one value per device "
                "(leave a cell empty if the device is unreachable)"
            )
        table[index] = [
            _csv_number(path, number, column, cell) for column, cell in enumerate(cells, start=1)
        ]
    if not header:
        return table, unit
    spread, named = _table_to_values(path, first, table)
    return spread, agreed_unit(f"trace {path}", unit, named)


def _without_comments(
    path: Path, lines: list[tuple[int, list[str]]]
) -> tuple[list[tuple[int, list[str]]], Unit | None]:
    """The lines after those that begin with #, and the unit that one of these names."""
    unit = None
    for position, (number, cells) in enumerate(lines):
        if not cells[0].lstrip().startswith("#"):
            return lines[position:], unit
        field, colon, said = ",".join(cells).lstrip(" #").partition(":")
        if colon and field.strip().lower() == "unit":
            unit = parse_unit(said, f"trace {path}, line {number}, unit")
    return [], unit


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
        _refuse_other_marks(path, line, [text])
        raise InputError(
            f"trace {path}, line {line}, column {column}: {text!r} is not a number; cells are "
            "separated by commas, with a point in the number, and empty or nan if unreachable"
        ) from error


def _refuse_other_marks(path: Path, line: int, cells: Sequence[str]) -> None:
    """A table of a country that writes 1,5 has semicolons, and one from a clipboard has tabs."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if any(mark in cell for cell in cells):
            raise InputError(
                f"trace {path}, line {line}: its cells seem to be separated by {name}; save the "
                "file with commas between cells and a point in the number"
            )


def _refuse_numbered_header(path: Path, first: Sequence[str]) -> None:
    """0,1,2,... is a header of device numbers, not a round: reading it as gains would be silent."""
    names = first[1:] if first[0] == "" else first
    if len(names) > 1 and list(names) == [str(number) for number in range(len(names))]:
        raise InputError(
            f"trace {path}, line 1: {','.join(first[:4])},... looks like a header of device "
            "numbers; use names that are not numbers (device_0, device_1, ...) or remove the line"
            + ("; remove the column of row numbers too" if first[0] == "" else "")
        )


def _read_parquet(path: Path) -> Said:
    with path.open("rb") as file:
        table = read_parquet("trace", path, file)
    names = list(table.column_names)
    wanted = _long_columns(path, names) or names
    columns = [_parquet_column(path, name, table.column(name)) for name in wanted]
    stacked = np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))
    spread, named = _table_to_values(path, wanted, stacked)
    said = (table.schema.metadata or {}).get(b"unit")
    unit = parse_unit(said.decode(errors="replace"), f"trace {path}, unit") if said else None
    return spread, agreed_unit(f"trace {path}", unit, named)


def _parquet_column(path: Path, name: str, column: Any) -> NDArray[np.float64]:
    arrow = require("pyarrow", extra="report", purpose="reading Parquet traces")
    kind, types = column.type, arrow.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        raise InputError(
            f"trace {path}: column {name!r} holds {kind}, not numbers; a trace has one numeric "
            f"column per device, or the columns {', '.join(_LONG_COLUMNS)}"
        )
    return np.asarray(column.cast(arrow.float64(), safe=False).to_numpy(), dtype=np.float64)


def _read_npz(path: Path) -> Said:
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
                said = str(arrays["unit"]) if "unit" in arrays else None
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
    unit = parse_unit(said, f"trace {path}, unit") if said is not None else None
    return gain.astype(np.float64), agreed_unit(f"trace {path}", unit, named_unit(name))


def _npz_name(path: Path, names: Sequence[str]) -> str:
    tables = [name for name in names if name != "unit"]
    if "gain" not in tables and len(tables) != 1:
        raise InputError(
            f"trace {path} holds the arrays {names}; it needs one named 'gain', or one array alone"
            " (and a text 'unit')"
        )
    return "gain" if "gain" in tables else tables[0]


def _long_columns(path: Path, names: Sequence[str]) -> tuple[str, str, str] | None:
    """The columns of a long table: round, device, and the numbers; None if it is a wide one."""
    if not {"round", "device"} <= set(names):
        return None
    if "gain" in names:
        return _LONG_COLUMNS
    others = [name for name in names if name not in ("round", "device")]
    with_unit = [name for name in others if named_unit(name) is not None]
    if len(chosen := with_unit or others) != 1:
        raise InputError(
            f"trace {path}: which of the columns {', '.join(others) or '(none)'} holds the channel "
            "is not clear; call one gain, gain_db, snr_db or mbit/s"
        )
    return "round", "device", chosen[0]


def _table_to_values(path: Path, names: Sequence[str], table: NDArray[np.float64]) -> Said:
    """The numbers, a long table spread out, and the unit that its columns name."""
    if (long := _long_columns(path, names)) is not None:
        spread = _long_to_values(path, *(table[:, names.index(name)] for name in long))
        return spread, named_unit(long[2])
    for name in names:
        if name.lower() in _ROW_NUMBER_COLUMNS:
            raise InputError(
                f"trace {path}: column {name!r} does not name a device; leave row numbers out, "
                f"or write a long table with the columns {', '.join(_LONG_COLUMNS)}"
            )
    units = [named_unit(name) for name in names]
    if any(units) and not all(units):
        name = names[units.index(None)]
        raise InputError(
            f"trace {path}: some columns name a unit and column {name!r} does not; name it in all, "
            "or in none and once for the file"
        )
    return table, agreed_unit(f"trace {path}", *units)


def _long_to_values(
    path: Path, rounds: PerDevice, devices: PerDevice, values: PerDevice
) -> PerDevice:
    if len(values) == 0:
        return np.empty((0, 1))
    for name, numbers in (("round", rounds), ("device", devices)):
        good = (numbers >= 0) & (numbers < 2**53) & (numbers == np.floor(numbers))
        if not good.all():
            row = int(np.argmin(good))
            raise InputError(
                f"trace {path}, row {row}: {name} is {numbers[row]}; "
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
    spread.flat[cell] = values
    return spread


def _device_names(devices: int, unit: Unit) -> list[str]:
    """Names that say what is in the columns; the file itself says it where they cannot."""
    ending = f"_{unit}" if named_unit(f"device_0_{unit}") == unit else ""
    return [f"device_{device}{ending}" for device in range(devices)]


def _write_csv(path: Path, values: PerDevice, unit: Unit) -> None:
    names = _device_names(values.shape[1], unit)
    comment = [] if named_unit(names[0]) else [f"# unit: {unit}"]
    # repr of a float is the shortest text that reads back as the same bits.
    lines = [",".join(map(repr, row)) for row in values.tolist()]
    text = "\n".join([*comment, ",".join(names), *lines, ""])
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_parquet(path: Path, values: PerDevice, unit: Unit) -> None:
    arrow = require("pyarrow", extra="report", purpose="writing Parquet traces")
    parquet = require("pyarrow.parquet", extra="report", purpose="writing Parquet traces")
    columns = [arrow.array(column, from_pandas=True) for column in values.T.copy()]  # NaN: null
    table = arrow.table(columns, names=_device_names(values.shape[1], unit))
    with path.open("wb") as file:
        parquet.write_table(table.replace_schema_metadata({"unit": str(unit)}), file)


def _write_npz(path: Path, values: PerDevice, unit: Unit) -> None:
    named = {"gain": values} if unit == GAIN else {"values": values, "unit": np.array(str(unit))}
    with path.open("wb") as file:  # given a path, numpy would add a suffix to "TRACE.NPZ"
        np.savez_compressed(file, allow_pickle=False, **named)


READERS: Mapping[str, Callable[[Path], Said]] = MappingProxyType(
    {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
)
WRITERS: Mapping[str, Callable[[Path, PerDevice, Unit], None]] = MappingProxyType(
    {".csv": _write_csv, ".parquet": _write_parquet, ".npz": _write_npz}
)
