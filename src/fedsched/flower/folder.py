"""The run folder of a federation: fedsched's own log, and a checkpoint after every round."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.flower.model import Arrays
from fedsched.policies import PolicyState
from fedsched.runs import folder as runs
from fedsched.runs.checkpoint import Checkpoint
from fedsched.runs.manifest import MANIFEST, read_manifest
from fedsched.values import TrainedRound

__all__ = ["RunFolder", "Saved"]

_WAIT_S = 10.0  # for a server that was killed a moment ago


@dataclass(frozen=True, kw_only=True, eq=False)
class Saved:
    """A federation between two rounds."""

    round: int
    model: Arrays
    policy: PolicyState
    memory: Mapping[str, NDArray[Any]]


@final
class RunFolder:
    """Holds a folder for one server, and writes its rounds.

    Args:
        folder: made if need be.
        scenario: what the run depends on; a folder with another one is refused, the number of
            rounds aside.
        about: what follows from it.
    """

    def __init__(self, folder: Path, scenario: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        self._path, self._scenario, self._about = folder, scenario, about

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = stack.enter_context(runs.RunFolder.held("folder", self._path, _WAIT_S))
            if (self._folder.path / MANIFEST).is_file():
                self._check_same()
                self._folder.reopen(self._scenario)  # it is not finished until it says so
            self._checkpoint = self._folder.open(self._scenario, self._about)
            if self._checkpoint is None:
                self._folder.describe(self._scenario, self._about)
            self._stack = stack.pop_all()  # a folder that is refused is let go at once
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _check_same(self) -> None:
        there = read_manifest(self._folder.path)
        different = []
        for section, values in self._scenario.items():
            old = dict(there["scenario"].get(section, {}))
            different += [
                (f"{section}.{name}", old.get(name), values.get(name))
                for name in sorted(old.keys() | values.keys())
                if (section, name) != ("run", "rounds")
            ]
        different += [(name, there.get(name), value) for name, value in self._about.items()]
        words = [f"{name} = {old!r}, this one has {new!r}" for name, old, new in different
                 if old != new]  # fmt: skip
        if words:
            raise InputError(
                f"folder: {str(self._path)!r} holds a run with {'; '.join(words)}; choose "
                "another folder or delete this one"
            )

    def restored(self, model: Arrays) -> Saved | None:
        """Where the run stood; None if it is new. ``model`` has the names and shapes to expect."""
        saved = self._checkpoint
        if saved is None:
            return None
        arrays = [saved.memory[f"model.{n:06d}"] for n in range(len(model))]
        return Saved(
            round=saved.round,
            model=dict(zip(model, arrays, strict=True)),
            policy=saved.policy,
            memory=saved.memory,
        )

    def add(
        self,
        done: TrainedRound,
        memory: Mapping[str, NDArray[Any]],
        policy: PolicyState,
        model: Arrays,
    ) -> None:
        """Write one round, and everything that the next one depends on."""
        self._folder.add(done, done.scheduled.airtime_s)
        arrays = {f"model.{n:06d}": each for n, each in enumerate(model.values())}
        self._folder.save(
            Checkpoint(
                round=done.scheduled.round + 1,
                parameters=np.empty(0, dtype=np.float32),
                policy=policy,
                channel={},
                memory={**memory, **arrays},
            )
        )

    def finish(self, model: Arrays) -> None:
        """Leave the model, by the names of its arrays."""
        self._folder.finish(model)
