"""What travels: a header that says what the body is, the body, and a checksum over both.

    bytes 0-3    magic "fsup"           bytes 8-11   bucket (top-k: entries kept in a million)
    byte  4      version                bytes 12-19  length of the vector
    byte  5      kind of compressor     bytes 20-23  CRC-32 of all other bytes
    bytes 6-7    width in bits          bytes 24-    body

All numbers are little-endian.
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from fedsched.errors import InputError

__all__ = ["HEADER_BYTES", "Header", "PayloadError", "Readable", "opened", "read_header", "sealed"]

Readable = bytes | bytearray | memoryview

_MAGIC = b"fsup"
_VERSION = 1
_FIELDS = struct.Struct("<4sBBHIQ")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CHECKSUM.size


class PayloadError(InputError):
    """A payload is damaged, cut, too long, of another kind or of another length."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a payload says of itself."""

    kind: int
    width: int
    bucket: int
    length: int

    def packed(self) -> bytes:
        """Its bytes, without the checksum."""
        return _FIELDS.pack(
            _MAGIC, _VERSION, self.kind, self.width, self.bucket, self.length
        )  # fmt: skip


def sealed(header: Header, body: Iterable[Readable]) -> bytes:
    """The payload of a header and the parts of a body, which are copied once."""
    fields, parts = header.packed(), list(body)
    checksum = zlib.crc32(fields)
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join((fields, _CHECKSUM.pack(checksum), *parts))


def read_header(payload: Readable) -> Header:
    """The header of a payload, which is refused if it was not made here."""
    if not isinstance(payload, bytes | bytearray | memoryview) or not _is_row(memoryview(payload)):
        raise PayloadError(f"payload must be a row of bytes, got {type(payload).__name__}")
    if len(payload) < HEADER_BYTES:
        raise PayloadError(
            f"payload has {len(payload)} bytes and its header alone has {HEADER_BYTES}; it was cut"
        )
    magic, version, kind, width, bucket, length = _FIELDS.unpack_from(payload)
    if magic != _MAGIC:
        raise PayloadError(
            f"payload begins with {magic!r} and not with {_MAGIC!r}; no compressor of fedsched "
            "made it"
        )
    if version != _VERSION:
        raise PayloadError(
            f"payload has version {version} and only {_VERSION} is known here; run the same "
            "release of fedsched at both ends"
        )
    return Header(kind=kind, width=width, bucket=bucket, length=length)


def opened(payload: Readable, *, total_bytes: int) -> memoryview:
    """The body of a payload that must have this size and the right checksum."""
    if len(payload) != total_bytes:
        raise PayloadError(
            f"payload has {len(payload)} bytes and its header asks for {total_bytes}; it was cut "
            "or has something appended"
        )
    view = memoryview(payload).cast("B")
    body = view[HEADER_BYTES:]
    (stated,) = _CHECKSUM.unpack_from(view, _FIELDS.size)
    found = zlib.crc32(body, zlib.crc32(view[: _FIELDS.size]))
    if stated != found:
        raise PayloadError(f"payload has checksum {found:08x} and says {stated:08x}; it is damaged")
    return body


def _is_row(view: memoryview) -> bool:
    return view.ndim == 1 and view.itemsize == 1 and view.c_contiguous
