"""A schedule as a table: one row a round and device, in Parquet or CSV."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import require
from fedsched.files import atomic_path, output_path
from fedsched.values import ScheduledRound

__all__ = ["SUFFIXES", "write_schedule"]

SUFFIXES = (".parquet", ".csv")
_ROUNDS_A_GROUP = 256

Columns = dict[str, NDArray[Any]]


def columns(done: ScheduledRound) -> Columns:
    """The rows of one round. The airtime of a device that does not take part is 0."""
    devices = len(done.gain)
    selected = np.zeros(devices, dtype=bool)
    selected[done.cohort.device] = True
    airtime = np.zeros(devices)
    airtime[done.cohort.device] = done.upload_s
    weight = np.zeros(devices)
    weight[done.cohort.device] = done.cohort.weight
    return {
        "round": np.full(devices, done.round, dtype=np.int64),
        "device": np.arange(devices, dtype=np.int64),
        "gain": done.gain,
        "queue": done.queues.get("power", np.zeros(devices)),
        "probability": done.decision.probability,
        "power_w": done.decision.power_w,
        "selected": selected,
        "weight": weight,
        "airtime_s": airtime,
    }


def write_schedule(path: str | Path, rounds: Iterable[ScheduledRound]) -> Iterator[ScheduledRound]:
    """Pass rounds through, and have them all in the file once the last has gone by.

    A generator, so that nothing is held but one group of rounds: ``for r in write_schedule(...)``.
    """
    target = output_path("out", path, SUFFIXES)
    write = _write_parquet if target.suffix.lower() == ".parquet" else _write_csv
    with atomic_path(target) as aside:
        yield from write(aside, rounds)


def _groups(
    rounds: Iterable[ScheduledRound], pending: list[Columns]
) -> Iterator[tuple[ScheduledRound, Columns | None]]:
    """Each round, with the columns of a whole group after every so many."""
    for done in rounds:
        pending.append(columns(done))
        whole = _joined(pending) if len(pending) == _ROUNDS_A_GROUP else None
        yield done, whole


def _joined(pending: list[Columns]) -> Columns:
    joined = {name: np.concatenate([part[name] for part in pending]) for name in pending[0]}
    pending.clear()
    return joined


def _write_parquet(path: Path, rounds: Iterable[ScheduledRound]) -> Iterator[ScheduledRound]:
    arrow = require("pyarrow", extra="report", purpose="writing Parquet")
    parquet = require("pyarrow.parquet", extra="report", purpose="writing Parquet")
    kinds = {"round": arrow.int64(), "device": arrow.int64(), "selected": arrow.bool_()}
    names = ("round", "device", "gain", "queue", "probability", "power_w", "selected", "weight")
    schema = arrow.schema(
        [(name, kinds.get(name, arrow.float64())) for name in (*names, "airtime_s")]
    )
    pending: list[Columns] = []
    with parquet.ParquetWriter(path, schema) as writer:
        for done, group in _groups(rounds, pending):
            if group is not None:
                writer.write_table(arrow.table(group, schema=schema))
            yield done
        if pending:
            writer.write_table(arrow.table(_joined(pending), schema=schema))


def _write_csv(path: Path, rounds: Iterable[ScheduledRound]) -> Iterator[ScheduledRound]:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        first = True
        for done in rounds:
            table = columns(done)
            # Numbers alone, so that the file can be read back as a trace.
            table["selected"] = table["selected"].astype(np.int64)
            if first:
                writer.writerow(table)
                first = False
            writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
            yield done
