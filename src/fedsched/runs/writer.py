"""The log of a run as it is written: whole batches of rounds, and their checksum."""

import hashlib
import os
from pathlib import Path
from typing import Any

from fedsched.errors import RunLogError, require
from fedsched.files import refuse_link
from fedsched.runs.columns import arrow_schema, row_of
from fedsched.runs.manifest import ROUNDS, SCHEMA
from fedsched.runs.runlog import RUN_KEY
from fedsched.values import TrainedRound

__all__ = ["LogWriter"]


class LogWriter:
    """Appends rounds to a log in whole batches; one batch, one disk write."""

    def __init__(self, folder: Path, *, run: str = "", length: int = 0, sha256: str = "") -> None:
        """Open the log of a folder and cut it to ``length`` bytes; 0 starts it anew.

        Args:
            folder: of the run.
            run: the run that a new log names.
            length: bytes of a log that goes on.
            sha256: of these bytes; "" where nobody knows.
        """
        self._arrow = require("pyarrow", extra="torch", purpose="writing run logs")
        self._path = refuse_link(folder / ROUNDS)
        self._rows: list[dict[str, Any]] = []
        if length == 0:
            about = {"fedsched.schema": str(SCHEMA)} | ({RUN_KEY: run} if run else {})
            self._schema = arrow_schema(self._arrow, about)
            content = bytes(self._schema.serialize())
            with self._path.open("wb") as file:
                file.write(content)
                _sync(file)
        else:
            content = self._cut(length, sha256)
            # A log keeps the columns it was begun with, also by an earlier version.
            self._schema = self._arrow.ipc.open_stream(content).schema
        self._hash = hashlib.sha256(content)
        self.length = len(content)

    def _cut(self, length: int, sha256: str) -> bytes:
        """Leave the first ``length`` bytes, if they are those that were counted."""
        content = self._path.read_bytes() if self._path.is_file() else b""
        if len(content) < length:
            raise RunLogError(
                f"{str(self._path)!r} has {len(content)} bytes and the checkpoint counts {length}; "
                "the log was cut, so delete the folder and run again"
            )
        if sha256 and hashlib.sha256(content[:length]).hexdigest() != sha256:
            raise RunLogError(
                f"{str(self._path)!r} is damaged or of another run: its first {length} bytes do "
                "not match their checksum in the last checkpoint; bring it back from a copy, or "
                "delete the folder and run again"
            )
        with self._path.open("rb+") as file:
            file.truncate(length)
        return content[:length]

    @property
    def sha256(self) -> str:
        """The checksum of all that was flushed."""
        return self._hash.hexdigest()

    def add(self, done: TrainedRound, airtime_s: float) -> None:
        """Hold one round for the next batch."""
        self._rows.append(row_of(done, airtime_s))

    def flush(self) -> int:
        """Append what is held as one batch; returns the log's length in bytes."""
        if self._rows:
            batch = self._arrow.RecordBatch.from_pylist(self._rows, schema=self._schema)
            content = bytes(batch.serialize())
            with self._path.open("ab") as file:
                file.write(content)
                _sync(file)
            self._rows.clear()
            self._hash.update(content)
            self.length += len(content)
        return self.length


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
