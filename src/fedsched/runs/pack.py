"""Packed runs: small copies to keep or to send."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsched.errors import require
from fedsched.files import atomic_path, remove_leftovers
from fedsched.runs.checkpoint import read_checkpoint, remove_checkpoints, write_checkpoint
from fedsched.runs.columns import COLUMNS
from fedsched.runs.manifest import (
    PACKED,
    PACKED_DIGEST,
    PACKED_ROUNDS,
    ROUNDS,
    read_manifest,
    run_id,
    save_manifest,
)
from fedsched.runs.runlog import read_run

__all__ = ["PACKED_BITS", "pack_run"]

# What is only looked at, more than half of a log, keeps so many bits in a packed copy.
PACKED_BITS = 16
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream


def pack_run(folder: str | Path, target: Path, *, resumable: bool = False) -> Path:
    """A small copy of a run, to be kept or sent: manifest and compressed log, no model.

    Every tool that reads runs reads it; it cannot be resumed, unless it is ``resumable`` and
    the run not finished: then the last checkpoint comes along, and the rounds up to there. All
    columns are kept to the bit but powers, residuals and the airtimes of single devices, more than
    half of a log and only looked at: they keep :data:`PACKED_BITS` significant bits. Where devices
    compute for times of their own, airtimes are kept to the bit, for ``slowed`` reads them.

    The manifest of the copy has the checksum of its log. A copy that was interrupted is made anew.
    """
    # In this order: the run may be going on, and its log grows before its checkpoint does.
    place = Path(folder)
    saved = read_checkpoint(place, run=run_id(read_manifest(place))) if resumable else None
    log = read_run(place)
    marks = (PACKED, PACKED_ROUNDS, PACKED_DIGEST)
    about = {k: v for k, v in log.manifest.items() if k not in marks}
    if saved is None or log.finished:
        saved, content = None, _compressed(log.table)
        about |= {PACKED: log.finished, PACKED_DIGEST: hashlib.sha256(content).hexdigest()}
    else:
        # Without the mark of its end, so that batches can follow.
        content = _compressed(log.table.slice(0, saved.round)).removesuffix(_END)
        about[PACKED_ROUNDS] = saved.round
    target.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    remove_checkpoints(target)  # of an earlier copy, whose log was another
    with atomic_path(target / ROUNDS) as aside:
        aside.write_bytes(content)
    save_manifest(target, about)
    if saved is not None:
        digest = hashlib.sha256(content).hexdigest()
        held = replace(saved, log_length=len(content), log_sha256=digest)
        write_checkpoint(target, held, compressed=True)
    return target


def _compressed(table: Any) -> bytes:
    """A log as one compressed batch, what is only looked at rounded."""
    arrow = require("pyarrow", extra="report", purpose="packing run logs")
    table = table.combine_chunks()
    names = set(table.column_names) - (set() if _all_at_once(table) else {"upload_s"})
    for column in COLUMNS:
        if column.looked_at and column.name in names:
            table = _with_rounded(table, column.name)
    options = arrow.ipc.IpcWriteOptions(compression=arrow.Codec("zstd", compression_level=19))
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _all_at_once(table: Any) -> bool:
    """Whether no device computed for a time of its own; else uploads tell how rounds overlap."""
    return "ready_s" not in table.column_names or not len(
        table["ready_s"].combine_chunks().flatten()
    )


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
