"""Checkpoints: everything the next round depends on, under a checksum.

A checkpoint is a NumPy archive behind one line with its SHA-256. Two are kept, so that one which
was cut or altered costs the rounds since the one before it and nothing more.
"""

import hashlib
import io
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.files import atomic_path

__all__ = [
    "Checkpoint",
    "read_checkpoint",
    "remove_checkpoints",
    "rounds_done",
    "write_checkpoint",
]

_log = logging.getLogger(__name__)
_KEPT = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """The state of a run between two rounds."""

    round: int  # the next round
    log_length: int  # bytes of the log that belong to the rounds before it
    airtime_s: float  # of those rounds
    parameters: NDArray[np.float32]
    policy: Mapping[str, NDArray[Any]]
    channel: Mapping[str, NDArray[Any]]
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of training, by name


def write_checkpoint(folder: Path, checkpoint: Checkpoint, *, compressed: bool = False) -> Path:
    """Write a checkpoint and remove all but it and the one before it.

    Compressing takes some 8 % off a trained model and is slow: for copies that are kept.
    """
    about = {
        "round": checkpoint.round,
        "log_length": checkpoint.log_length,
        "airtime_s": checkpoint.airtime_s.hex(),
    }
    arrays: dict[str, NDArray[Any]] = {"parameters": checkpoint.parameters}
    arrays |= {f"policy.{name}": value for name, value in checkpoint.policy.items()}
    arrays |= {f"channel.{name}": value for name, value in checkpoint.channel.items()}
    arrays |= {f"memory.{name}": value for name, value in checkpoint.memory.items()}
    packed = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(packed, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]
    content = packed.getvalue()
    path = folder / f"checkpoint-{checkpoint.round:09d}.npz"
    with atomic_path(path) as aside:
        aside.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    # One of a later round was passed over as damaged; counted, it would push out a sound one.
    earlier = [other for other in _all(folder) if other < path]
    for other in _all(folder):
        if other != path and other not in earlier[1 - _KEPT :]:
            other.unlink(missing_ok=True)
    return path


def read_checkpoint(folder: Path, *, before: int | None = None) -> Checkpoint | None:
    """The newest checkpoint whose checksum holds, of a round below ``before``; None if none is."""
    found, damaged = None, []
    for path in reversed(_all(folder)):
        if before is not None and path.name >= f"checkpoint-{before:09d}.npz":
            continue
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() == digest:
            found = _unpack(content)
            break
        damaged.append(path)
    # Told at the end, for only now it is known what takes their place.
    instead = (
        "no earlier one is sound, and without one a run starts anew"
        if found is None
        else f"the one of round {found.round} takes its place"
    )
    for path in damaged:
        _log.warning("%s does not match its checksum and is passed over; %s", path, instead)
    return found


def remove_checkpoints(folder: Path) -> None:
    """Leave none in a folder."""
    for path in _all(folder):
        path.unlink(missing_ok=True)


def rounds_done(folder: Path) -> int:
    """How far a run has come, told from the names of its checkpoints alone."""
    names = [path.stem.removeprefix("checkpoint-") for path in _all(folder)]
    return max((int(name) for name in names if name.isdigit()), default=0)


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.npz"))


def _unpack(content: bytes) -> Checkpoint:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))

        def part(prefix: str) -> dict[str, NDArray[Any]]:
            names = (name for name in arrays.files if name.startswith(prefix))
            return {name.removeprefix(prefix): arrays[name] for name in names}

        return Checkpoint(
            round=about["round"],
            log_length=about["log_length"],
            airtime_s=float.fromhex(about["airtime_s"]),
            parameters=arrays["parameters"],
            policy=part("policy."),
            channel=part("channel."),
            memory=part("memory."),
        )
