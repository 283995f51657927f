"""Checkpoints: everything the next round depends on, under a checksum.

A checkpoint is a NumPy archive whose ZIP comment, its last bytes, is the SHA-256 of all bytes
before it. It names its run, and the checksum of the log up to its round. Two are kept, so that one
which was cut or altered costs the rounds since the one before it and nothing more. Those of earlier
versions, with the checksum in a line before the archive, are read as well.
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

from fedsched.errors import RunLogError
from fedsched.files import atomic_path, read_file

__all__ = [
    "Checkpoint",
    "keep_last",
    "read_checkpoint",
    "remove_checkpoints",
    "rounds_done",
    "write_checkpoint",
]

_log = logging.getLogger(__name__)
_KEPT = 2
_DIGEST = 64  # letters of a SHA-256
_COMMENT = _DIGEST.to_bytes(2, "little")  # how a ZIP archive says that a comment of it follows


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """The state of a run between two rounds."""

    round: int  # the next round
    parameters: NDArray[np.float32]
    policy: Mapping[str, NDArray[Any]]
    channel: Mapping[str, NDArray[Any]]
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of training, by name
    # What follows is the run folder's to say.
    airtime_s: float = 0.0  # of the rounds before it
    log_length: int = 0  # bytes of the log that belong to them
    log_sha256: str = ""  # of those bytes; "" in one of an earlier version
    run: str = ""  # whose state it is; likewise


def write_checkpoint(folder: Path, checkpoint: Checkpoint, *, compressed: bool = False) -> Path:
    """Write a checkpoint and remove all but it and the one before it.

    Compressing takes some 8 % off a trained model and is slow: for copies that are kept.
    """
    about = {
        "round": checkpoint.round,
        "log_length": checkpoint.log_length,
        "airtime_s": checkpoint.airtime_s.hex(),
        "log_sha256": checkpoint.log_sha256,
        "run": checkpoint.run,
    }
    arrays: dict[str, NDArray[Any]] = {"parameters": checkpoint.parameters}
    arrays |= {f"policy.{name}": value for name, value in checkpoint.policy.items()}
    arrays |= {f"channel.{name}": value for name, value in checkpoint.channel.items()}
    arrays |= {f"memory.{name}": value for name, value in checkpoint.memory.items()}
    packed = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(packed, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]
    path = _path(folder, checkpoint.round)
    with atomic_path(path) as aside:
        aside.write_bytes(_sealed(packed.getvalue()))
    keep_last(folder, checkpoint.round)
    return path


def keep_last(folder: Path, round: int) -> None:  # noqa: A002 - the project's word for t
    """Remove all checkpoints but that of a round and the last before it.

    One of a later round was passed over as damaged; counted, it would push out a sound one.
    """
    path = _path(folder, round)
    earlier = [other for other in _all(folder) if other < path]
    for other in _all(folder):
        if other != path and other not in earlier[1 - _KEPT :]:
            other.unlink(missing_ok=True)


def read_checkpoint(
    folder: Path, *, before: int | None = None, run: str | None = None
) -> Checkpoint | None:
    """The newest checkpoint whose checksum holds; None if there is none.

    Args:
        folder: where they are.
        before: only those of a round below it.
        run: whose they must be: one that names another run is refused.
    """
    found, damaged = None, []
    for path in reversed(_all(folder)):
        if before is not None and path.name >= f"checkpoint-{before:09d}.npz":
            continue
        try:
            content = _unsealed(read_file(path))
        except FileNotFoundError:  # a run that goes on has newer ones
            return read_checkpoint(folder, before=before, run=run)
        if content is not None:
            found = _unpack(content)
            _check_own(path, found, run)
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


def _check_own(path: Path, found: Checkpoint, run: str | None) -> None:
    if path.name != f"checkpoint-{found.round:09d}.npz":
        raise RunLogError(
            f"{str(path)!r} holds round {found.round}, so it was renamed; give it back its name, "
            "or delete it"
        )
    if run is not None and found.run not in ("", run):
        raise RunLogError(
            f"{str(path)!r} belongs to the run {found.run}, and this folder, by its manifest.json "
            f"or by the scenario given, is that of {run}: files of two runs are mixed; bring the "
            "right ones back, or delete the folder and run again"
        )


def _sealed(archive: bytes) -> bytes:
    """A ZIP archive without a comment, with the checksum of its bytes as one."""
    body = archive[: -len(_COMMENT)] + _COMMENT
    return body + hashlib.sha256(body).hexdigest().encode()


def _unsealed(content: bytes) -> bytes | None:
    """The archive, if it matches its checksum, wherever that is."""
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if not content.startswith(b"PK"):  # of an earlier version, or of none
        digest, _, content = content.partition(b"\n")
        body = content
    return content if hashlib.sha256(body).hexdigest().encode() == digest else None


def remove_checkpoints(folder: Path) -> None:
    """Leave none in a folder."""
    for path in _all(folder):
        path.unlink(missing_ok=True)


def rounds_done(folder: Path) -> int:
    """How far a run has come, told from the names of its checkpoints alone."""
    names = [path.stem.removeprefix("checkpoint-") for path in _all(folder)]
    return max((int(name) for name in names if name.isdigit()), default=0)


def _path(folder: Path, round: int) -> Path:  # noqa: A002 - the project's word for t
    return folder / f"checkpoint-{round:09d}.npz"


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
            log_sha256=about.get("log_sha256", ""),
            run=about.get("run", ""),
        )
