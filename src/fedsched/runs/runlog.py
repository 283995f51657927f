"""The run folder as it is read: a manifest, a columnar log of rounds, and how the run ended.

    manifest.json        what the run is (see ``manifest``)
    rounds.arrows        one row a round (Arrow IPC stream), a batch at every checkpoint
    checkpoint-N.npz     what the next round depends on (see ``checkpoint``)
    model.npz            the final parameters, and the mean of models if that is what was measured
    finished.json        the end of the run, with checksums of the log and of the model

The log can be read at any time, by this module or any Arrow reader. A batch reaches the disk before
the checkpoint that counts it; what lies beyond the last checkpoint's count is not yet part of the
run. Every file names its run and is covered by a checksum, and a run counts as finished when these
hold. Folders of earlier versions have none: for them a model is the sign of the end.
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import RunLogError, require
from fedsched.files import read_file
from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.manifest import (
    MANIFEST,
    MODEL,
    PACKED,
    PACKED_DIGEST,
    ROUNDS,
    checked,
    is_sealed,
    read_json,
    read_manifest,
    run_id,
)

__all__ = ["FINISHED", "RUN_KEY", "RunLog", "check_finished", "file_digest", "read_run"]

FINISHED = "finished.json"
RUN_KEY = "fedsched.run"  # names the run in the log's own description


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLog:
    """A run as it was logged."""

    folder: Path
    manifest: Mapping[str, Any]
    table: Any  # pyarrow.Table, one row a round
    finished: bool
    verified: bool = False  # whether a checksum covers the log; earlier versions wrote none

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


def read_run(folder: str | Path) -> RunLog:
    """Read a run folder, finished or not, and check it against its checksums.

    A batch still being written, or not yet counted by a checkpoint, is left out.
    """
    place = Path(folder)
    manifest = read_manifest(place)
    # Asked first, in this order: a run may go on or end while its log is read.
    end = check_finished(place, manifest)
    finished = end is not None or bool(manifest.get(PACKED))
    finished |= not is_sealed(manifest) and (place / MODEL).is_file()
    content, verified = _log_content(place, manifest, end, finished=finished)
    table = _table(place, content, manifest, whole=finished, verified=verified)
    return RunLog(
        folder=place, manifest=manifest, table=table, finished=finished, verified=verified
    )


def check_finished(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """How a run ended, if it did, once its model is seen to be the one it ended with."""
    path, model = folder / FINISHED, folder / MODEL
    remedy = "delete it and run the scenario again, which writes it anew from the last checkpoint"
    if not (path.is_file() and model.is_file()):
        return None
    end = checked(path, read_json(path, remedy), remedy)
    if end["run"] != run_id(manifest):
        raise _mixed(path, end["run"], manifest)
    if file_digest(model) != end["model_sha256"]:
        raise RunLogError(
            f"{str(model)!r} is damaged or of another run: it does not match its checksum in "
            f"{FINISHED}; {remedy}"
        )
    return end


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mixed(path: Path, run: str, manifest: Mapping[str, Any]) -> RunLogError:
    return RunLogError(
        f"{str(path)!r} belongs to the run {run or 'of an earlier version'}, and {MANIFEST} beside "
        f"it to {run_id(manifest)}: files of two runs are mixed; bring the right one back, or "
        "delete the folder and run again"
    )


def _log_content(
    folder: Path, manifest: Mapping[str, Any], end: Mapping[str, Any] | None, *, finished: bool
) -> tuple[bytes, bool]:
    """The bytes of the log that count, and whether a checksum says that they are sound."""
    path, length, digest, witness = folder / ROUNDS, None, "", ""
    if end is not None:
        digest, witness = end["log_sha256"], FINISHED
    elif PACKED in manifest:
        digest, witness = manifest.get(PACKED_DIGEST, ""), MANIFEST
    elif not finished and (saved := read_checkpoint(folder, run=run_id(manifest))) is not None:
        digest, witness = saved.log_sha256, "the last checkpoint"
        length = saved.log_length if digest else None
    try:
        content = read_file(path)
    except OSError as error:
        raise RunLogError(f"{str(path)!r} cannot be read: {error}") from None
    if digest and hashlib.sha256(content[:length]).hexdigest() != digest:
        raise RunLogError(
            f"{str(path)!r} is damaged or of another run: it does not match its checksum in "
            f"{witness}; bring it back from a copy, or delete the folder and run again"
        )
    return content[:length], bool(digest)


def _table(
    folder: Path, content: bytes, manifest: Mapping[str, Any], *, whole: bool, verified: bool
) -> Any:
    """The rounds in the bytes of a log; what is not ``whole`` may end within a batch."""
    arrow = require("pyarrow", extra="report", purpose="reading run logs")
    path = folder / ROUNDS
    bad = (arrow.ArrowException, OSError, EOFError, ValueError, KeyError, MemoryError)
    try:
        reader = arrow.ipc.open_stream(io.BytesIO(content))
    except bad as error:
        raise RunLogError(f"{str(path)!r} is damaged: {error}") from None
    named = (reader.schema.metadata or {}).get(RUN_KEY.encode(), b"").decode(errors="replace")
    if named != (run_id(manifest) if named or is_sealed(manifest) else ""):
        raise _mixed(path, named, manifest)
    batches = []
    while True:
        try:
            batches.append(reader.read_next_batch())
        except StopIteration:
            break
        except bad as error:
            if whole:
                raise RunLogError(
                    f"{str(path)!r} is damaged after round {sum(map(len, batches))}: {error}"
                ) from None
            break  # the tail of a batch that is being written
    try:
        table = arrow.Table.from_batches(batches, schema=reader.schema)
        if not verified:
            table.validate(full=True)  # of senseless lists a reader would die
        rounds = table["round"].to_numpy()
    except bad as error:
        raise RunLogError(f"{str(path)!r} is damaged: {error}") from None
    if not np.array_equal(rounds, np.arange(len(rounds))):
        raise RunLogError(f"{str(path)!r} is damaged: its rounds are not 0, 1, 2, ...")
    return table
