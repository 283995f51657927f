"""Fleet files: one row a device, and each column a field of the scenario with a number for each.

A fleet stands for fields as a preset does. It is read once, when the scenario is; the scenario, and
with it the manifest of a run, then has all the numbers and the checksum of the file.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.archives import read_parquet
from fedsched.checks import positive_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.quantities import dbm_to_w, parse_number

__all__ = [
    "COLUMNS",
    "FLEET_SUFFIXES",
    "Each",
    "FleetSection",
    "check_each",
    "read_fleet",
    "with_fleet",
]

Each: TypeAlias = float | tuple[float, ...]  # one number for all devices, or one for each

FLEET_SUFFIXES = (".csv", ".parquet")
Table: TypeAlias = Mapping[str, Any]
_NAME = "name"
_BUDGETS = (
    "energy_j", "energy_j_per_day", "battery_j", "airtime_s", "duty_cycle", "bytes",
    "bytes_per_day", "participation",
)  # fmt: skip
_MOST_OF_PEAK = 10.5  # as a mean power, which then binds no more: beyond, units are mixed up
_DBM = (-60.0, 60.0)  # a nanowatt and a kilowatt: beyond, it is no power in dBm


@dataclass(frozen=True, kw_only=True)
class FleetSection:
    """``[fleet]``: a file with a row for each device."""

    file: str | None = None  # .csv or .parquet; its columns are fields with a number for each
    sha256: str | None = None  # of the file, once it was read

    def __post_init__(self) -> None:
        if (self.file is None) != (self.sha256 is None):
            raise InputError(
                f"fleet.file is {self.file!r} and fleet.sha256 is {self.sha256!r}; name the file "
                "alone, its checksum is found when it is read"
            )


@dataclass(frozen=True)
class Column:
    """A column: the field it fills, and how."""

    field: str
    convert: Callable[[float, Table], float] = lambda number, _: number
    least: float = 0.0
    most: float = np.inf
    zero: bool = False  # whether the least itself is allowed
    whole: bool = False


def _seconds(steps_per_s: float, scenario: Table) -> float:
    return float(scenario.get("training", {}).get("steps", 10)) / steps_per_s


def _watts(dbm: float, scenario: Table) -> float:
    del scenario
    return dbm_to_w(dbm)


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "max_power_w": Column("uplink.max_power_w"),
        "max_power_dbm": Column("uplink.max_power_w", _watts, *_DBM, zero=True),
        "budget_w": Column("uplink.budget_w"),
        "budget_dbm": Column("uplink.budget_w", _watts, *_DBM, zero=True),
        "compute_s": Column("uplink.computation_s", zero=True),
        "steps_per_s": Column("uplink.computation_s", _seconds),
        "samples": Column("data.samples", whole=True),
        "circuit_w": Column("budgets.circuit_w", zero=True),
        "compute_j": Column("budgets.compute_j", zero=True),
        **{
            name: Column(
                f"budgets.{name}", most=1.0 if name in ("duty_cycle", "participation") else np.inf
            )
            for name in _BUDGETS
        },
    }
)


def check_each(name: str, value: Each, *, allow_zero: bool = False) -> None:
    """Refuse one number for all, or one of those for each, unless finite and positive."""
    for number in value if isinstance(value, tuple) else (value,):
        positive_number(name, number, allow_zero=allow_zero)


def read_fleet(path: str | Path) -> tuple[dict[str, NDArray[np.float64]], list[str], str]:
    """The columns of a fleet file, what its devices are called, and its checksum."""
    file = Path(path)
    if file.suffix.lower() not in FLEET_SUFFIXES:
        raise InputError(
            f"fleet.file: {str(file)!r} has the suffix {file.suffix!r}; a fleet ends in one of "
            f"{', '.join(FLEET_SUFFIXES)}"
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(
            f"fleet.file: {str(file)!r} cannot be read: {error.strerror}; check its name"
        ) from None
    read = _parquet if file.suffix.lower() == ".parquet" else _csv
    names, rows = read(file, content)
    _check_names(file, names)
    if not rows:
        raise InputError(f"fleet {file} has no devices; it needs a row for each")
    labels = _labels(file, names, rows)
    columns = {
        name: _numbers(file, name, [row[place] for row in rows], labels)
        for place, name in enumerate(names)
        if name != _NAME
    }
    return columns, labels, hashlib.sha256(content).hexdigest()


def _csv(file: Path, content: bytes) -> tuple[list[str], list[list[Any]]]:
    try:
        text = content.decode("utf-8-sig")
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"fleet {file} is not a CSV file in UTF-8: {error}") from None
    lines = [line for line in lines if not line[0].lstrip().startswith("#")]
    names = [cell.strip() for cell in lines[0]] if lines else []
    for number, line in enumerate(lines[1:], start=1):
        if len(line) != len(names):
            raise InputError(
                f"fleet {file}, row {number}: it has {len(line)} values and the header names "
                f"{len(names)} columns; cells are separated by commas"
            )
    return names, [[cell.strip() or None for cell in line] for line in lines[1:]]


def _parquet(file: Path, content: bytes) -> tuple[list[str], list[list[Any]]]:
    table = read_parquet("fleet", file, io.BytesIO(content))
    columns = [table.column(name).to_pylist() for name in table.column_names]
    return list(table.column_names), [list(row) for row in zip(*columns, strict=True)]


def _check_names(file: Path, names: Sequence[str]) -> None:
    """Refuse columns that nobody knows, that come twice, or that mean the same."""
    filled: dict[str, str] = {}
    if len(names) == 1 and any(each in names[0] for each in ";\t|"):
        raise InputError(
            f"fleet {file}: its only column is {names[0]!r}; separate cells by commas, with a "
            "point in the number"
        )
    for name in names:
        if name == _NAME and list(names).count(_NAME) == 1:
            continue
        if name not in COLUMNS and name != _NAME:
            raise UnknownNameError(f"fleet {file}, column", name, [_NAME, *COLUMNS])
        field = _NAME if name == _NAME else COLUMNS[name].field
        if field in filled:
            raise InputError(
                f"fleet {file}: columns {filled[field]!r} and {name!r} say the same; keep one"
            )
        filled[field] = name


def _labels(file: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """What messages call each device; names must differ."""
    if _NAME not in names:
        return [f"device {number}" for number in range(len(rows))]
    place, seen = list(names).index(_NAME), dict[str, int]()
    for number, row in enumerate(rows):
        label = "" if row[place] is None else str(row[place])
        if not label or label in seen:
            raise InputError(
                f"fleet {file}: device {number} "
                + (f"has the name {label!r} of device {seen[label]}" if label else "has no name")
                + "; names tell devices apart"
            )
        seen[label] = number
    return list(seen)


def _numbers(
    file: Path, name: str, cells: Sequence[Any], labels: Sequence[str]
) -> NDArray[np.float64]:
    column, found = COLUMNS[name], np.empty(len(cells))
    for place, (cell, label) in enumerate(zip(cells, labels, strict=True)):
        try:
            number = _number(name, cell)
        except InputError as error:
            raise InputError(f"fleet {file}, {label}: {error}") from None
        good = np.isfinite(number) and column.least <= number <= column.most
        good = good and (column.zero or number > column.least)
        if not good or (column.whole and number != int(number)):
            raise InputError(
                f"fleet {file}, {label}: {name} must be {_allowed(column)}, got "
                f"{'nothing' if cell is None else cell}"
            )
        found[place] = number
    return found


def _number(name: str, cell: Any) -> float:
    """The number of a cell, which may carry a unit; NaN if there is none."""
    if isinstance(cell, str):
        return parse_number(name, cell)
    return float(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else np.nan


def _allowed(column: Column) -> str:
    if column.whole:
        return "a whole number of at least 1"
    if np.isfinite(column.most):
        return f"a number {'from' if column.zero else 'above'} {column.least:g} to {column.most:g}"
    return "a finite number, zero or more" if column.zero else "a positive finite number"


def with_fleet(table: Table) -> Table:
    """The table with the fields that the columns of its ``fleet.file`` stand for.

    A column with one number for all devices becomes that number. A table that has the checksum of
    its fleet has the fields already, and the file is not read again.
    """
    fleet = table.get("fleet", {})
    if (
        not isinstance(fleet, Mapping)
        or "sha256" in fleet
        or not isinstance(fleet.get("file"), str)
    ):
        return table
    columns, labels, sha256 = read_fleet(fleet["file"])
    devices = len(labels)
    filled = {
        name: dict(section) if isinstance(section, Mapping) else section
        for name, section in table.items()
    }
    for name, numbers in columns.items():
        section, _, field = COLUMNS[name].field.partition(".")
        given = filled.setdefault(section, {})
        if not isinstance(given, dict):
            continue  # whoever builds the scenario says what is wrong
        if field in given:
            raise InputError(
                f"{section}.{field} is set, and so is the column {name!r} of the fleet "
                f"{fleet['file']}; leave out one"
            )
        given[field] = _field_value(COLUMNS[name], numbers, filled)
    channel = filled.setdefault("channel", {})
    if isinstance(channel, dict) and channel.setdefault("devices", devices) != devices:
        raise InputError(
            f"channel.devices is {channel['devices']} and the fleet {fleet['file']} has {devices} "
            "devices; give a row for each device, or leave channel.devices out"
        )
    _check_budgets(fleet["file"], columns, labels)
    return {**filled, "fleet": {"file": fleet["file"], "sha256": sha256}}


def _check_budgets(
    file: str, columns: Mapping[str, NDArray[np.float64]], labels: list[str]
) -> None:
    """Refuse mean powers far above the peak: one of the two is not in the unit of its column."""
    watts: dict[str, NDArray[np.float64]] = {}
    for name, numbers in columns.items():
        watts[COLUMNS[name].field] = np.array([COLUMNS[name].convert(each, {}) for each in numbers])
    mean_w, peak_w = watts.get("uplink.budget_w"), watts.get("uplink.max_power_w")
    if mean_w is None or peak_w is None:
        return
    above = np.flatnonzero(mean_w > _MOST_OF_PEAK * peak_w)
    if above.size:
        device = above[0]
        raise InputError(
            f"fleet {file}, {labels[device]}: the budget is {mean_w[device]:g} W and the peak "
            f"{peak_w[device]:g} W; columns in _w hold watts (a cell may say 200 mW), those in "
            "_dbm decibels; a device without a budget has its peak as one"
        )


def _field_value(column: Column, numbers: NDArray[np.float64], scenario: Table) -> Any:
    values = [column.convert(float(number), scenario) for number in numbers]
    values = [int(value) for value in values] if column.whole else values
    return values[0] if len(set(values)) == 1 else values
