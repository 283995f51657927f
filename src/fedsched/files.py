"""Files that are either whole or absent: written aside, then moved into place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsched.errors import InputError

__all__ = [
    "atomic_path",
    "locked",
    "output_folder",
    "output_path",
    "read_file",
    "refuse_link",
    "remove_leftovers",
]

_LOCK_POLL_S = 0.2


def output_path(field: str, path: str | Path, suffixes: tuple[str, ...] = ()) -> Path:
    """A path that can be written to, or a sentence saying why not."""
    _check_named(field, path)
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
    _check_named(field, path)
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


def _check_named(field: str, path: str | Path) -> None:
    if not str(path):  # an unset variable of a shell; as a path it is the present folder
        raise InputError(f"{field} must name a place to write to, got ''; . is the present folder")


def read_file(path: Path) -> bytes:
    """The bytes of a file of a run; what may never end, as a pipe or a device, is refused."""
    if path.exists() and not path.is_file():
        raise InputError(
            f"{str(path)!r} is no file but a folder, a pipe or a device; remove it, and bring the "
            "file back from a copy"
        )
    return path.read_bytes()


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary neighbour of ``target`` that replaces it when the block ends without error.

    The data reach the disk before the name does, so a crash leaves the old file or the new one. A
    process that was killed while it wrote leaves the neighbour, which the next one removes.
    """
    remove_leftovers(target.parent, target.name)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    aside.unlink(missing_ok=True)  # it may be a link
    try:
        yield aside
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(target)
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) == aside:
            error.filename, error.filename2 = str(target), None  # the name that was given
        raise
    finally:
        aside.unlink(missing_ok=True)


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove what killed processes had begun to write in a folder, of all files or of one."""
    for path in folder.glob(f".{name or '*'}.*.part"):
        process = path.name.split(".")[-2]
        if process.isdigit() and not _lives(int(process)):
            path.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    if os.name != "posix":  # elsewhere the question would end the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def refuse_link(path: Path) -> Path:
    """The path, unless it is a link: what it points to is not ours to write."""
    if path.is_symlink():
        raise InputError(
            f"{str(path)!r} is a link to {str(path.readlink())!r}, and only files in the folder "
            "itself are written; remove the link"
        )
    return path


@contextmanager
def locked(folder: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the folder against a second process that would run it at the same time.

    The lock goes with its process, however that ends. A link in place of the lock is not followed.
    """
    from filelock import FileLock, Timeout  # late: a schedule writes files and locks none

    lock = FileLock(refuse_link(folder / ".lock"), timeout=wait_s, poll_interval=_LOCK_POLL_S)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"out: {str(folder)!r} is being run by another process; wait for it or choose "
            "another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()
