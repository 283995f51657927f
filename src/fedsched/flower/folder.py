"""The run folder of a federation: fedsched's own log, and a checkpoint every so many rounds."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from flwr.app import ConfigRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.flower.model import Arrays
from fedsched.policies import PolicyState
from fedsched.runs import folder as runs
from fedsched.runs.checkpoint import Checkpoint
from fedsched.runs.manifest import MANIFEST, read_manifest
from fedsched.values import TrainedRound

__all__ = ["NoFolder", "Origin", "RunFolder", "Saved", "origin_of", "saved_seed"]

_WAIT_S = 10.0  # for a server that was killed a moment ago


@dataclass(frozen=True, kw_only=True, eq=False)
class Saved:
    """A federation between two rounds."""

    round: int
    model: Arrays
    policy: PolicyState
    memory: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a start was given: its configuration, its first model, and Flower's names for it."""

    config: Mapping[str, Mapping[str, Any]]  # "train", "evaluate" and "run"
    arrays: str  # SHA-256 of the initial arrays, their names, shapes and types
    run_id: str | None  # Flower's
    app: str | None  # Flower's hash of the bundle


def origin_of(
    grid: Grid, model: Arrays, configs: Mapping[str, Mapping[str, Any] | ConfigRecord | None]
) -> Origin:
    """The origin of a run that is about to begin."""
    digest = hashlib.sha256()
    for name, x in model.items():
        digest.update(json.dumps([name, str(x.dtype), list(x.shape)]).encode())
        digest.update(np.ascontiguousarray(x).tobytes())
    run = getattr(grid, "run", None)  # a grid of another make may not know its run
    config = {part: _plain(given or {}) for part, given in configs.items()}
    config["run"] = _plain(getattr(run, "override_config", None) or {}) | config.get("run", {})
    run_id, app = getattr(run, "run_id", None), getattr(run, "fab_hash", None)
    return Origin(
        config=config,
        arrays=digest.hexdigest(),
        run_id=None if run_id is None else str(run_id),
        app=app or None,
    )


def _plain(config: Mapping[str, Any] | ConfigRecord) -> dict[str, Any]:
    """A configuration as a manifest can hold it."""
    return {
        name: hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value
        for name, value in config.items()
    }


def saved_seed(folder: Path | None) -> int | None:
    """The seed of the run in a folder; None if there is no run."""
    if folder is None or not (folder / MANIFEST).is_file():
        return None
    seed = read_manifest(folder)["scenario"].get("run", {}).get("seed")
    return seed if isinstance(seed, int) else None


@final
class NoFolder:
    """In the place of a run folder, for a run that leaves nothing behind."""

    path = Path()
    finished = False
    warnings: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def restored(self, model: Arrays) -> Saved | None:
        """Nothing was saved."""
        del model
        return None

    def add(self, done: TrainedRound, memory: Callable[[], Saved], *, last: bool) -> None:
        """Nothing is written."""

    def finish(self, model: Arrays) -> None:
        """Nothing is left."""


@final
class RunFolder:
    """Holds a folder for one server, and writes its rounds.

    Args:
        folder: made if need be.
        scenario: what the run depends on; a folder with another one is refused, the number of
            rounds aside.
        about: what follows from it.
        origin: what this start was given; another configuration is refused too.
        every: rounds from checkpoint to checkpoint.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Mapping[str, Any],
        about: Mapping[str, Any],
        origin: Origin,
        every: int = 1,
    ) -> None:
        self.path, self._scenario, self._about = folder, scenario, about
        self._origin, self._every = origin, every
        self.finished = False  # all rounds that are asked for were done before
        self.warnings: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = stack.enter_context(runs.RunFolder.held("folder", self.path, _WAIT_S))
            there: dict[str, Any] = {}
            if (self._folder.path / MANIFEST).is_file():
                there = read_manifest(self._folder.path)
                self._check_same(there)
            ended = self._folder.finished
            self._checkpoint = self._folder.open(self._scenario, self._about)
            done = 0 if self._checkpoint is None else self._checkpoint.round
            rounds = int(self._scenario.get("run", {}).get("rounds", 1))
            self.finished = ended and done >= rounds
            self._check_origin(there, done)
            if there and not self.finished:
                self._folder.reopen(self._scenario)  # it is not finished until it says so
            self._folder.describe(self._scenario, self._described(there))
            self._stack = stack.pop_all()  # a folder that is refused is let go at once
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # --- whose folder it is ---------------------------------------------------------------------

    def _check_same(self, there: Mapping[str, Any]) -> None:
        """Refuse a folder whose run is another one, with all that differs."""
        words = [
            f"{name} = {old!r}, this one has {new!r}"
            for name, old, new in self._compared(there)
            if old != new
        ]
        if words:
            raise InputError(
                f"folder: {str(self.path)!r} holds a run with {'; '.join(words)}; choose "
                "another folder or delete this one"
            )

    def _compared(self, there: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
        for section, values in self._scenario.items():
            old = dict(there["scenario"].get(section, {}))
            for name in sorted(old.keys() | values.keys()):
                if (section, name) != ("run", "rounds"):
                    yield f"{section}.{name}", old.get(name), values.get(name)
        for name, value in self._about.items():
            yield name, there.get(name), value
        rounds = [each.get("run", {}).get("rounds") for each in (there["scenario"], self._scenario)]
        for part, given in self._origin.config.items():
            old = dict(there.get("config", {}).get(part, {}))
            for name in sorted(old.keys() | given.keys()):
                values = [old.get(name), json.loads(json.dumps(given.get(name)))]
                # A setting that is the number of rounds, or names this place, may change.
                same_place = {str(each) for each in values} <= {str(self.path)}
                if values != rounds and not same_place:
                    yield f"{part}_config.{name}", *values

    def _check_origin(self, there: Mapping[str, Any], done: int) -> None:
        """A finished run of another origin is refused; one that goes on says what it ignores."""
        changed = []
        if there.get("initial_arrays", self._origin.arrays) != self._origin.arrays:
            changed.append("its initial arrays were others")
        if there.get("app") and self._origin.app and there["app"] != self._origin.app:
            changed.append("its app has changed since")
        if not changed:
            return
        what = " and ".join(changed)
        if self.finished:
            raise InputError(
                f"folder: {str(self.path)!r} holds a finished run of {done} rounds, and {what}; "
                "nothing would be trained. Choose another folder, delete this one, or ask for more "
                "rounds"
            )
        if done:
            self.warnings += (
                f"the run in {str(self.path)!r} goes on after round {done} with its own model, "
                f"although {what}; choose another folder to begin anew",
            )

    def _described(self, there: Mapping[str, Any]) -> dict[str, Any]:
        """What the manifest says besides the scenario."""
        mine = self._origin
        numbers = [*there.get("flower_runs", []), *([] if mine.run_id is None else [mine.run_id])]
        return {
            **self._about,
            "config": mine.config,
            "initial_arrays": there.get("initial_arrays", mine.arrays),
            "app": mine.app,
            "flower_runs": list(dict.fromkeys(numbers)),
        }

    # --- its rounds -----------------------------------------------------------------------------

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

    def add(self, done: TrainedRound, memory: Callable[[], Saved], *, last: bool) -> None:
        """Write one round, and in its turn everything that the next one depends on.

        Args:
            done: the round.
            memory: gives the state after it, if it is wanted.
            last: whether no round follows.
        """
        self._folder.add(done, done.scheduled.airtime_s)
        if (done.scheduled.round + 1) % self._every and not last:
            return
        now = memory()
        arrays = {f"model.{n:06d}": each for n, each in enumerate(now.model.values())}
        self._folder.save(
            Checkpoint(
                round=now.round,
                parameters=np.empty(0, dtype=np.float32),
                policy=now.policy,
                channel={},
                memory={**now.memory, **arrays},
            )
        )

    def finish(self, model: Arrays) -> None:
        """Leave the model, by the names of its arrays."""
        self._folder.finish(model)
