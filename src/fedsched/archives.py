"""Compressed files of strangers: never more is unpacked than is allowed.

A few megabytes can unpack to terabytes, so sizes are looked at before memory is taken.
"""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, cast

from fedsched.errors import FedschedError, InputError, require

__all__ = [
    "Counted",
    "Progress",
    "Readable",
    "check_unpacked",
    "check_zip",
    "members",
    "read_parquet",
]

Progress: TypeAlias = Callable[[str, int, int | None], None]  # what, bytes done, bytes in all

_CHUNK_BYTES = 1 << 20
# What may be unpacked in any case, and otherwise how many times the size of the file: real numbers
# and images never shrink as much.
_FREE_BYTES = 1 << 30
_MOST_TIMES = 100


class Readable(Protocol):
    """What bytes can be read from, in order."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most ``size``; none at the end."""


class Counted:
    """A stream that reports how much of it has been read."""

    def __init__(self, source: Readable, what: str, total: int | None, report: Progress) -> None:
        self._source, self._what, self._total, self._report = source, what, total, report
        self._done = 0

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        block = self._source.read(size)
        self._done += len(block)
        self._report(self._what, self._done, self._total)
        return block


class _Bounded:
    """A stream that ends in an error once too much of it has been read."""

    def __init__(self, source: Readable, origin: str, most_bytes: int) -> None:
        self._source, self._origin, self._most_bytes = source, origin, most_bytes
        self._done = 0

    def read(self, size: int = -1, /) -> bytes:
        block = self._source.read(size)
        self._done += len(block)
        if self._done > self._most_bytes:
            raise FedschedError(
                f"{self._origin} unpacks to more than the {self._most_bytes:,} bytes it may have; "
                "it is not what it should be"
            )
        return block


def members(
    stream: Readable, origin: str, *, wanted: Mapping[str, int], most_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """Base name and content of the wanted files of a gzipped tar, in one pass.

    Nothing is extracted and no path of the archive is followed.

    Args:
        stream: the archive.
        origin: what errors call it.
        wanted: base names of files, each with the most bytes it may have.
        most_bytes: that the archive may have unpacked, headers included.
    """
    unpacked = gzip.GzipFile(fileobj=cast(IO[bytes], stream))
    whole = cast(IO[bytes], _Bounded(unpacked, origin, most_bytes))
    try:
        with tarfile.open(fileobj=whole, mode="r|", bufsize=_CHUNK_BYTES) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or name not in wanted:
                    continue
                if member.size > wanted[name]:
                    raise FedschedError(
                        f"{name} of {origin} has {member.size:,} bytes, more than the "
                        f"{wanted[name]:,} it may have; it is not what it should be"
                    )
                yield name, content.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FedschedError(
            f"{origin} is no whole .tar.gz archive ({error}); get it again"
        ) from error


def check_unpacked(what: str, path: Path, unpacked_bytes: int) -> None:
    """Refuse a file that would unpack to far more than what it holds can have shrunk from."""
    packed_bytes = path.stat().st_size
    if unpacked_bytes > max(_FREE_BYTES, _MOST_TIMES * packed_bytes):
        raise InputError(
            f"{what} {str(path)!r} has {packed_bytes:,} bytes and would unpack to "
            f"{unpacked_bytes:,}; above {_FREE_BYTES:,} at most {_MOST_TIMES} times as much is "
            "unpacked, so write it without compression if it is yours"
        )


def check_zip(what: str, path: Path) -> None:
    """The same of a ZIP or NPZ file, by what it says of its members; none is read further."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(what, path, sum(each.file_size for each in archive.infolist()))


def read_parquet(what: str, path: Path, file: IO[bytes]) -> Any:
    """The table in an open Parquet file; ``what`` is in it, and errors call it that."""
    arrow = require("pyarrow", extra="report", purpose=f"reading Parquet {what}s")
    parquet = require("pyarrow.parquet", extra="report", purpose=f"reading Parquet {what}s")
    try:
        claimed = parquet.read_metadata(file)
        check_unpacked(what, path, 8 * claimed.num_rows * claimed.num_columns)
        return parquet.read_table(file)
    except arrow.ArrowException as error:
        raise InputError(f"{what} {path} is not a Parquet file: {error}") from error
