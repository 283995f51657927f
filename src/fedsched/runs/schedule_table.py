"""A schedule as a table: one row a round and device, in Parquet or CSV."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import require
from fedsched.files import atomic_path, output_path
from fedsched.radio.units import Quantity
from fedsched.values import ScheduledRound

__all__ = ["SUFFIXES", "write_schedule"]

SUFFIXES = (".parquet", ".csv")
# Rows are written in groups of this many, whatever the devices: memory is flat in the rounds.
GROUP_ROWS = 1 << 20
_LISTED_ROWS = 1 << 16  # as Python numbers for CSV, which take ten times the memory of an array

Columns = dict[str, NDArray[Any]]


# What the column of the channel is called: a trace that is made of it says its unit.
_CHANNEL: Mapping[Quantity, str] = {"gain": "gain", "rate": "rate_bit/s"}


def _names(quantity: Quantity, watts: bool) -> tuple[str, ...]:
    """The columns; there are none of powers where nobody knows them."""
    queue, power = (("queue",), ("power_w",)) if watts else ((), ())
    return (
        "round", "device", _CHANNEL[quantity], *queue, "probability", *power, "selected", "weight",
        "airtime_s",
    )  # fmt: skip


def columns(done: ScheduledRound, names: Sequence[str]) -> Columns:
    """The rows of one round. The airtime of a device that does not take part is 0."""
    devices = len(done.gain)
    selected = np.zeros(devices, dtype=bool)
    selected[done.cohort.device] = True
    airtime = np.zeros(devices)
    airtime[done.cohort.device] = done.upload_s
    weight = np.zeros(devices)
    weight[done.cohort.device] = done.cohort.weight
    found: Columns = {
        "round": np.full(devices, done.round, dtype=np.int64),
        "device": np.arange(devices, dtype=np.int64),
        **dict.fromkeys(_CHANNEL.values(), done.gain),
        "queue": done.queues.get("power", np.zeros(devices)),
        "probability": done.decision.probability,
        "power_w": done.decision.power_w,
        "selected": selected,
        "weight": weight,
        "airtime_s": airtime,
    }
    return {name: found[name] for name in names}


def write_schedule(
    path: str | Path,
    rounds: Iterable[ScheduledRound],
    quantity: Quantity = "gain",
    *,
    watts: bool = True,
) -> Iterator[ScheduledRound]:
    """Pass rounds through, and have them all in the file once the last has gone by.

    A generator, so that nothing is held but one group of rows: ``for r in write_schedule(...)``.
    """
    target = output_path("out", path, SUFFIXES)
    write = _write_parquet if target.suffix.lower() == ".parquet" else _write_csv
    with atomic_path(target) as aside:
        yield from write(aside, rounds, _names(quantity, watts))


class _Group:
    """Rows in arrays of one length that are filled again and again."""

    def __init__(self) -> None:
        self._arrays: Columns = {}
        self._rows = 0

    def add(self, table: Columns) -> Iterator[Columns]:
        """Take a table's rows, and give each group that becomes full, to be used at once."""
        if not self._arrays:
            self._arrays = {name: np.empty(GROUP_ROWS, new.dtype) for name, new in table.items()}
        rows = len(next(iter(table.values())))
        taken = 0
        while taken < rows:
            part = min(rows - taken, GROUP_ROWS - self._rows)
            for name, array in self._arrays.items():
                array[self._rows : self._rows + part] = table[name][taken : taken + part]
            taken += part
            self._rows += part
            if self._rows == GROUP_ROWS:
                yield from self.rest()

    def rest(self) -> Iterator[Columns]:
        """Give what has been taken since the last full group, if anything."""
        if self._rows:
            yield {name: array[: self._rows] for name, array in self._arrays.items()}
        self._rows = 0


def _write_parquet(
    path: Path, rounds: Iterable[ScheduledRound], names: Sequence[str]
) -> Iterator[ScheduledRound]:
    arrow = require("pyarrow", extra="report", purpose="writing Parquet")
    parquet = require("pyarrow.parquet", extra="report", purpose="writing Parquet")
    kinds = {"round": arrow.int64(), "device": arrow.int64(), "selected": arrow.bool_()}
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in names])
    group = _Group()
    with parquet.ParquetWriter(path, schema) as writer:
        for done in rounds:
            for full in group.add(columns(done, names)):
                writer.write_table(arrow.table(full, schema=schema))
            yield done
        for last in group.rest():
            writer.write_table(arrow.table(last, schema=schema))


def _write_csv(
    path: Path, rounds: Iterable[ScheduledRound], names: Sequence[str]
) -> Iterator[ScheduledRound]:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        first = True
        for done in rounds:
            table = columns(done, names)
            # Numbers alone, so that the file can be read back as a trace.
            table["selected"] = table["selected"].astype(np.int64)
            if first:
                writer.writerow(table)
                first = False
            for begin in range(0, len(done.gain), _LISTED_ROWS):
                part = [each[begin : begin + _LISTED_ROWS].tolist() for each in table.values()]
                writer.writerows(zip(*part, strict=True))
            yield done
