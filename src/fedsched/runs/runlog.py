"""The run folder: a manifest, a columnar log of rounds that grows, and the final model.

    manifest.json        schema number, seed, the whole scenario, package versions
    rounds.arrows        one row a round (Arrow IPC stream), a batch at every checkpoint
    checkpoint-N.npz     what the next round depends on (see ``checkpoint``)
    model.npz            the final parameters, and the mean of models if that is what was measured;
                         its presence means that the run is finished

The log can be read at any time, by this module or any Arrow reader. A batch reaches the disk before
the checkpoint that counts it; what lies beyond the last checkpoint's count is cut off on resuming.
"""

import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import RunLogError, require
from fedsched.files import atomic_path
from fedsched.runs.checkpoint import read_checkpoint, remove_checkpoints, write_checkpoint
from fedsched.values import Decision, TrainedRound

__all__ = [
    "GROUPS",
    "SCHEMA",
    "LogWriter",
    "RunLog",
    "pack_run",
    "read_manifest",
    "read_run",
    "write_manifest",
]

SCHEMA = 1
GROUPS = 10  # devices are followed in this many groups of neighbours

MANIFEST, ROUNDS, MODEL = "manifest.json", "rounds.arrows", "model.npz"
PACKED = "packed_finished"  # in the manifest of a packed copy: whether its run had come to its end
PACKED_ROUNDS = "packed_rounds"  # in that of a copy that can go on: the rounds that were packed
# What is only looked at, more than half of a log, keeps so many bits in a packed copy.
PACKED_BITS = 16
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream
_ROUNDED = ("power_w", "upload_s", "group_power_w", "mean_power_w", "worst_power_w", "residual")

_PACKAGES = ("fedsched", "numpy", "torch", "pyarrow")
_NUMBERS = (
    "airtime_s", "train_loss", "test_accuracy", "test_loss", "mean_inverse_probability",
    "residual", "mean_power_w", "feedback_s", "worst_power_w",
)  # fmt: skip


def write_manifest(folder: Path, scenario: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write the manifest of a new run; ``about`` holds what is derived, such as the update size."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    content = {"schema": SCHEMA, "scenario": scenario, **about, "versions": versions}
    with atomic_path(folder / MANIFEST) as aside:
        aside.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder, refused if it is of another schema."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema = content["schema"]
    except OSError as error:
        raise RunLogError(
            f"{str(folder)!r} is not a run folder: {MANIFEST} cannot be read ({error.strerror}); "
            "name one that `fedsched run` made"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise RunLogError(f"{str(path)!r} is damaged: it is not a manifest in JSON") from None
    if schema != SCHEMA:
        raise RunLogError(
            f"{str(folder)!r} is of schema {schema} and this version reads schema {SCHEMA}; "
            "use the version of fedsched named in its manifest, or run it again"
        )
    if not isinstance(content.get("scenario"), dict):
        raise RunLogError(f"{str(path)!r} is damaged: it has no scenario")
    return dict(content)


def device_groups(values: NDArray[np.float64]) -> list[float]:
    """Means over groups of neighbouring devices, at most :data:`GROUPS` of them."""
    parts = np.array_split(values, min(GROUPS, len(values))) if len(values) else []
    return [float(part.mean()) for part in parts]


def _row(done: TrainedRound, airtime_s: float) -> dict[str, Any]:
    scheduled = done.scheduled
    q, power_w = scheduled.decision.probability, scheduled.decision.power_w
    spent_w = q * power_w
    cohort = scheduled.cohort
    return {
        "round": scheduled.round,
        "airtime_s": airtime_s,
        "train_loss": done.train_loss,
        "test_accuracy": done.accuracy,
        "test_loss": done.test_loss,
        "mean_inverse_probability": _mean_inverse(scheduled.decision),
        "residual": scheduled.decision.residual,
        "mean_power_w": float(spent_w.mean()) if spent_w.size else 0.0,
        "feedback_s": scheduled.feedback_s,
        "worst_power_w": done.worst_power_w,
        "rejected": done.rejected,
        "device": cohort.device.tolist(),
        "weight": cohort.weight.tolist(),
        "power_w": power_w[cohort.device].tolist(),
        "upload_s": scheduled.upload_s.tolist(),
        "group_power_w": device_groups(spent_w),
    }


def _mean_inverse(decision: Decision) -> float:
    """The mean of 1/q over the reachable devices; NaN for a choice that has no probabilities."""
    reachable = decision.probability[decision.probability > 0.0]
    if decision.deterministic or not len(reachable):
        return math.nan
    return float((1.0 / reachable).mean())


class LogWriter:
    """Appends rounds to a log in whole batches; one batch, one disk write."""

    def __init__(self, folder: Path, *, length: int) -> None:
        """Open the log of a folder and cut it to ``length`` bytes; 0 starts it anew."""
        self._arrow = require("pyarrow", extra="torch", purpose="writing run logs")
        self._path = folder / ROUNDS
        self._rows: list[dict[str, Any]] = []
        numbers = [(name, self._arrow.float64()) for name in _NUMBERS]
        floats = self._arrow.list_(self._arrow.float64())
        self._schema = self._arrow.schema(
            [
                ("round", self._arrow.int64()),
                *numbers,
                ("rejected", self._arrow.int64()),
                ("device", self._arrow.list_(self._arrow.int64())),
                ("weight", floats),
                ("power_w", floats),
                ("upload_s", floats),
                ("group_power_w", floats),
            ],
            metadata={"fedsched.schema": str(SCHEMA)},
        )
        if length == 0:
            with self._path.open("wb") as file:
                file.write(self._schema_bytes())
                _sync(file)
            length = self._path.stat().st_size
        elif (there := self._path.stat().st_size if self._path.is_file() else 0) < length:
            raise RunLogError(
                f"{str(self._path)!r} has {there} bytes and the checkpoint counts {length}; the "
                "log was cut, so delete the folder and run again"
            )
        else:
            with self._path.open("rb+") as file:
                file.truncate(length)
            # A log keeps the columns it was begun with, also by an earlier version.
            with self._path.open("rb") as file:
                self._schema = self._arrow.ipc.open_stream(file).schema
        self.length = length

    def add(self, done: TrainedRound, airtime_s: float) -> None:
        """Hold one round for the next batch."""
        self._rows.append(_row(done, airtime_s))

    def flush(self) -> int:
        """Append what is held as one batch; returns the log's length in bytes."""
        if self._rows:
            batch = self._arrow.RecordBatch.from_pylist(self._rows, schema=self._schema)
            with self._path.open("ab") as file:
                file.write(batch.serialize())
                _sync(file)
            self._rows.clear()
            self.length = self._path.stat().st_size
        return self.length

    def _schema_bytes(self) -> bytes:
        return bytes(self._schema.serialize())


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLog:
    """A run as it was logged."""

    folder: Path
    manifest: Mapping[str, Any]
    table: Any  # pyarrow.Table, one row a round
    finished: bool

    def column(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, one a round."""
        return np.asarray(self.table[name].to_numpy(), dtype=np.float64)

    def has(self, name: str) -> bool:
        """Whether the log has a column; those of earlier versions lack some."""
        return name in self.table.column_names

    def lists(self, name: str) -> list[list[float]]:
        """A column of lists, one a round."""
        values: list[list[float]] = self.table[name].to_pylist()
        return values

    def sums(self, name: str) -> NDArray[np.float64]:
        """The sums of a column of lists, one a round."""
        lists = self.table[name].combine_chunks()
        of_round = np.repeat(np.arange(self.rounds), lists.value_lengths().to_numpy())
        sums = np.bincount(of_round, lists.flatten().to_numpy(), minlength=self.rounds)
        return np.asarray(sums, dtype=np.float64)

    @property
    def rounds(self) -> int:
        """Rounds logged so far."""
        return int(self.table.num_rows)


def pack_run(folder: str | Path, target: Path, *, resumable: bool = False) -> Path:
    """A small copy of a run, to be kept or sent: manifest and compressed log, no model.

    Every tool that reads runs reads it; it cannot be gone on with, unless it is ``resumable`` and
    the run not finished: then the last checkpoint comes along, and the rounds up to there. All
    columns are kept to the bit but powers, residuals and the airtimes of single devices, more than
    half of a log and only looked at: they keep :data:`PACKED_BITS` significant bits.
    """
    # In this order: the run may be going on, and its log grows before its checkpoint does.
    stand = read_checkpoint(Path(folder)) if resumable else None
    log = read_run(folder)
    about = {k: v for k, v in log.manifest.items() if k not in (PACKED, PACKED_ROUNDS)}
    if stand is None or log.finished:
        stand, content = None, _compressed(log.table)
        about[PACKED] = log.finished
    else:
        # Without the mark of its end, so that batches can follow.
        content = _compressed(log.table.slice(0, stand.round)).removesuffix(_END)
        about[PACKED_ROUNDS] = stand.round
    target.mkdir(parents=True, exist_ok=True)
    remove_checkpoints(target)  # of an earlier copy, whose log was another
    with atomic_path(target / ROUNDS) as aside:
        aside.write_bytes(content)
    with atomic_path(target / MANIFEST) as aside:
        aside.write_text(json.dumps(about, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if stand is not None:
        write_checkpoint(target, replace(stand, log_length=len(content)), compressed=True)
    return target


def _compressed(table: Any) -> bytes:
    """A log as one compressed batch, what is only looked at rounded."""
    arrow = require("pyarrow", extra="report", purpose="packing run logs")
    table = table.combine_chunks()
    for name in set(_ROUNDED) & set(table.column_names):
        table = _with_rounded(table, name)
    options = arrow.ipc.IpcWriteOptions(compression=arrow.Codec("zstd", compression_level=19))
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _with_rounded(table: Any, name: str) -> Any:
    """The table, with the numbers in a column, or in its lists, cut to :data:`PACKED_BITS` bits."""
    arrow = require("pyarrow", extra="report", purpose="packing run logs")
    column = table[name].combine_chunks()
    listed = arrow.types.is_list(column.type)
    mantissa, exponent = np.frexp((column.flatten() if listed else column).to_numpy())
    scale = 2.0**PACKED_BITS
    rounded = arrow.array(np.ldexp(np.round(mantissa * scale) / scale, exponent))
    if listed:
        starts = np.concatenate(([0], np.cumsum(column.value_lengths().to_numpy())))
        rounded = arrow.ListArray.from_arrays(arrow.array(starts, arrow.int32()), rounded)
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), rounded)


def read_run(folder: str | Path) -> RunLog:
    """Read a run folder, finished or not; a batch still being written is left out."""
    arrow = require("pyarrow", extra="report", purpose="reading run logs")
    place = Path(folder)
    manifest = read_manifest(place)
    path = place / ROUNDS
    # Asked first: a run may end while its log is read.
    finished = (place / MODEL).is_file() or bool(manifest.get(PACKED))
    try:
        content = path.read_bytes()
        reader = arrow.ipc.open_stream(io.BytesIO(content))
    except OSError as error:
        raise RunLogError(f"{str(path)!r} cannot be read: {error}") from None
    except arrow.ArrowInvalid as error:
        raise RunLogError(f"{str(path)!r} is damaged: {error}") from None
    batches = []
    while True:
        try:
            batches.append(reader.read_next_batch())
        except StopIteration:
            break
        except (OSError, arrow.ArrowInvalid) as error:
            if finished:
                raise RunLogError(
                    f"{str(path)!r} is damaged after round {sum(map(len, batches))}: {error}"
                ) from None
            break  # the tail of a batch that is being written
    table = arrow.Table.from_batches(batches, schema=reader.schema)
    rounds = table["round"].to_numpy()
    if not np.array_equal(rounds, np.arange(len(rounds))):
        raise RunLogError(f"{str(path)!r} is damaged: its rounds are not 0, 1, 2, ...")
    return RunLog(folder=place, manifest=manifest, table=table, finished=finished)
