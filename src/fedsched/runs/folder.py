"""One run folder for all that fill one: training, replay, federations.

A folder is held by one process, opened at its last checkpoint, filled round by round, saved at
checkpoints and finished. The files it writes name their run and carry checksums, as ``runlog``
says.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, final
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError, RunLogError
from fedsched.files import atomic_path, locked, output_folder, remove_leftovers
from fedsched.runs.checkpoint import (
    Checkpoint,
    keep_last,
    read_checkpoint,
    rounds_done,
    write_checkpoint,
)
from fedsched.runs.manifest import (
    LENGTH_FIELDS,
    MANIFEST,
    MODEL,
    PACKED,
    ROUNDS,
    package_versions,
    read_manifest,
    run_id,
    save_json,
    save_manifest,
    write_manifest,
)
from fedsched.runs.runlog import FINISHED, file_digest, read_run
from fedsched.runs.writer import LogWriter
from fedsched.values import TrainedRound

__all__ = ["RunFolder"]


@final
class RunFolder:
    """The folder of one run, held by this process; see :meth:`held`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.airtime_s = 0.0  # of the rounds so far
        self._run = ""

    @classmethod
    @contextmanager
    def held(cls, field: str, path: str | Path, wait_s: float = 0.0) -> Iterator[Self]:
        """Hold a folder against other processes, made if need be.

        Args:
            field: what it is called where its user named it, for sentences about it.
            path: the folder.
            wait_s: how long to wait for another process that holds it.
        """
        folder = output_folder(field, path)
        with locked(folder, wait_s):
            remove_leftovers(folder)
            yield cls(folder)

    @property
    def begun(self) -> bool:
        """Whether it holds any round; one whose run failed before the first is free again."""
        if not (self.path / MANIFEST).is_file():
            return False
        if rounds_done(self.path) or (self.path / MODEL).is_file():
            return True
        if PACKED in read_manifest(self.path):
            return True
        try:
            return (self.path / ROUNDS).is_file() and read_run(self.path).rounds > 0
        except RunLogError:  # torn while its first bytes were written
            return False

    @property
    def finished(self) -> bool:
        """Whether its run has come to its end, and the model is the one it ended with."""
        if not (self.path / MANIFEST).is_file():
            return False
        return read_run(self.path).finished if (self.path / MODEL).is_file() else False

    def open(self, scenario: Mapping[str, Any], about: Mapping[str, Any]) -> Checkpoint | None:
        """Open the log at the last checkpoint, which is returned, None if there is none.

        Without one it is the scenario's run that begins, whatever the manifest says: it is to be
        described anew.
        """
        described = (self.path / MANIFEST).is_file()
        given = {"scenario": scenario, **about}
        self._run = run_id(read_manifest(self.path) if described else given)
        saved = read_checkpoint(self.path, run=self._run)
        if saved is None:
            self._run = run_id(given)
            self._log = LogWriter(self.path, run=self._run)
            return None
        if not (described or saved.run):
            raise InputError(
                f"{str(self.path)!r} has checkpoints that do not say what run they are of, and no "
                f"{MANIFEST}; bring it back, or delete the folder and run again"
            )
        # Whoever was killed between two checkpoints may have left one too many.
        keep_last(self.path, saved.round)
        self._log = LogWriter(self.path, length=saved.log_length, sha256=saved.log_sha256)
        self.airtime_s = saved.airtime_s
        return saved

    def describe(self, scenario: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Write the manifest."""
        write_manifest(self.path, scenario, about)

    def add(self, done: TrainedRound, airtime_s: float) -> None:
        """Log one round; it is on disk at the next :meth:`save`."""
        self._log.add(done, airtime_s)
        self.airtime_s += airtime_s

    def flush(self) -> None:
        """End a batch of the log."""
        self._log.flush()

    def save(self, state: Checkpoint) -> None:
        """Write what was logged, then the checkpoint that counts it."""
        self._log.flush()
        write_checkpoint(
            self.path,
            replace(
                state,
                run=self._run,
                airtime_s=self.airtime_s,
                log_length=self._log.length,
                log_sha256=self._log.sha256,
            ),
        )

    def finish(self, models: Mapping[str, NDArray[Any]]) -> None:
        """Leave the models by their names, then say that the run has ended with them."""
        # What savez writes, but savez itself has no room for an array called "file".
        with atomic_path(self.path / MODEL) as aside, ZipFile(aside, "w") as archive:
            for name, value in models.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
        end = {
            "run": self._run,
            "log_sha256": self._log.sha256,
            "model_sha256": file_digest(self.path / MODEL),
        }
        save_json(self.path / FINISHED, end)

    def reopen(self, scenario: Mapping[str, Any]) -> None:
        """Give the run the length of a scenario: it has not come to its end yet."""
        for name in (FINISHED, MODEL):
            (self.path / name).unlink(missing_ok=True)
        manifest = read_manifest(self.path)
        old = {part: dict(table) for part, table in manifest["scenario"].items()}
        for part, name in LENGTH_FIELDS:
            old.setdefault(part, {}).pop(name, None)
            if name in scenario.get(part, {}):
                old[part][name] = scenario[part][name]
        save_manifest(self.path, {**manifest, "scenario": old, "versions": package_versions()})

    def discard_log(self) -> None:
        """Remove a log that is not the beginning of any run."""
        (self.path / ROUNDS).unlink(missing_ok=True)
