"""TensorBoard event files, written from the run log and from nothing else.

    tensorboard/events.out.tfevents.*     beside the log in the run folder

An event carries its round as the step and the simulated time as its clock, so the "relative" axis
of TensorBoard is the radio clock. As events are a function of the log, a run that goes on after
being stopped writes them anew, and none is there twice or missing.
"""

import itertools
import os
import time
from pathlib import Path
from typing import Any, Self, final

from fedsched.clock import elapsed_s
from fedsched.errors import require
from fedsched.files import refuse_link
from fedsched.runs.columns import COLUMNS
from fedsched.runs.manifest import ROUNDS, common_computation_s, read_manifest

__all__ = ["EVENTS", "EventFollower", "events_are_current", "write_events"]

EVENTS = "tensorboard"  # the folder within the run folder

_SCALARS = {column.name: column.scalar for column in COLUMNS if column.scalar is not None}


@final
class EventFollower:
    """Writes the events of a log that grows: each call of :meth:`follow` those of the new rounds.

    Rounds without a value, such as the accuracy between two evaluations, have no event.
    """

    def __init__(self, folder: Path, *, computation_s: float) -> None:
        """Begin the events of a run folder anew; what was there is dropped.

        Args:
            folder: the run folder; its log need not be there yet.
            computation_s: of a round, on top of its airtime.
        """
        self._arrow = require("pyarrow", extra="tensorboard", purpose="reading run logs")
        require("tensorboard", extra="tensorboard", purpose="logging to TensorBoard")
        refuse_link(folder / EVENTS)
        for old in _event_files(folder):
            # Emptied first and removed the next time: a TensorBoard that is open stays with a file
            # that is gone and looks no further.
            if old.stat().st_size > 0 and not old.is_symlink():
                os.truncate(old, 0)
            else:
                old.unlink()
        self._log = folder / ROUNDS
        self._read_bytes = 0
        self._schema: Any = None
        self._computation_s = computation_s
        self._airtime_s = 0.0
        self._events = _EventFile(folder / EVENTS)

    def follow(self) -> None:
        """Write what the log has gained since the last call; it is on disk when this returns."""
        with self._log.open("rb") as file:
            file.seek(self._read_bytes)
            while True:
                try:
                    message = self._arrow.ipc.read_message(file)
                except EOFError:
                    break
                if self._schema is None:
                    self._schema = self._arrow.ipc.read_schema(message)
                else:
                    self._write(self._arrow.ipc.read_record_batch(message, self._schema))
            self._read_bytes = file.tell()
        self._events.flush()

    def _write(self, batch: Any) -> None:
        scalars = {name: shown for name, shown in _SCALARS.items() if name in batch.schema.names}
        for row in batch.select(["round", "device", *scalars]).to_pylist():
            step = row["round"]
            self._airtime_s += row["airtime_s"]
            clock_s = elapsed_s(self._airtime_s, step + 1, self._computation_s)
            values = {name: row[column] for column, name in scalars.items()}
            values["uplink/simulated_time_s"] = clock_s
            values["schedule/devices"] = len(row["device"])
            for name, value in values.items():
                if value == value:  # not measured in this round
                    self._events.add(name, value, step, clock_s)

    def close(self) -> None:
        """End the event file."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
class _EventFile:
    """Events, one after the other. No thread writes them, so that whoever adds one hears of errors.

    The first two tell a TensorBoard that is open to drop what it has read from round 0 on.
    """

    _made = itertools.count()  # files of one second have different names

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.fedsched.{os.getpid()}.{next(self._made)}"
        self._records = RecordWriter((folder / name).open("wb"))
        begin = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(self._event(wall_time=now, file_version="brain.Event:2"))
        self._write(self._event(wall_time=now, step=0, session_log=begin))
        self.flush()

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())

    def add(self, name: str, value: float, step: int, clock_s: float) -> None:
        values = [self._summary.Value(tag=name, simple_value=value)]
        self._write(self._event(wall_time=clock_s, step=step, summary=self._summary(value=values)))

    def flush(self) -> None:
        self._records.flush()

    def close(self) -> None:
        self._records.close()


def write_events(folder: Path) -> None:
    """Write the events of a run folder as it is, in place of those that are there."""
    computation_s = common_computation_s(read_manifest(folder))
    with EventFollower(folder, computation_s=computation_s) as events:
        events.follow()


def events_are_current(folder: Path) -> bool:
    """Whether a run folder has events, written after the last rounds of its log were.

    They are not if the run was finished without being asked for events.
    """
    files = [path.stat() for path in _event_files(folder)]
    written_ns = max((file.st_mtime_ns for file in files if file.st_size > 0), default=-1)
    return written_ns >= (folder / ROUNDS).stat().st_mtime_ns


def _event_files(folder: Path) -> list[Path]:
    return sorted((folder / EVENTS).glob("events.out.tfevents.*"))
