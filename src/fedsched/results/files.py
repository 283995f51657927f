"""Files that are either whole or absent: written aside, then moved into place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsched.errors import InputError

__all__ = ["atomic_path", "output_folder", "output_path"]


def output_path(field: str, path: str | Path, suffixes: tuple[str, ...] = ()) -> Path:
    """A path that can be written to, or a sentence saying why not."""
    target = Path(path)
    if suffixes and target.suffix.lower() not in suffixes:
        raise InputError(
            f"{field} must end in one of {', '.join(suffixes)}, got {target.name!r}; "
            "the ending chooses the format"
        )
    if target.is_dir():
        raise InputError(f"{field}: {str(target)!r} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise InputError(
            f"{field}: the folder {str(target.parent)!r} does not exist; create it first"
        )
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{field}: the folder {str(target.parent)!r} cannot be written to")
    return target


def output_folder(field: str, path: str | Path) -> Path:
    """A folder that is there, made if need be, or a sentence saying why not."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{field}: the folder {str(folder)!r} cannot be made: {error.strerror}; name another"
        ) from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{field}: the folder {str(folder)!r} cannot be written to")
    return folder


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary neighbour of ``target`` that replaces it when the block ends without error.

    The data reach the disk before the name does, so a crash leaves the old file or the new one.
    """
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield aside
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
