"""What all compressors share: a vector in, a payload out, and back."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.learning.compression.payload import (
    HEADER_BYTES,
    Header,
    PayloadError,
    Readable,
    opened,
    read_header,
    sealed,
)

__all__ = ["CHUNK", "LARGEST", "AbstractCompressor", "Vector", "maker_of", "random_words"]

Vector: TypeAlias = NDArray[np.float32]  # shape (length,)

CHUNK = 1 << 15  # entries that are worked on at a time: they stay in the processor's cache
LARGEST = 2.0**127  # above it, rounding up could leave the range of float32


class AbstractCompressor(ABC):
    r"""A random map C of vectors, by way of the bytes that are sent.

    ``decode(encode(x))`` is C(x), and ``bits(len(x))`` is what was sent, header included. If it is
    ``unbiased``,

    .. math:: E\, C(x) = x, \qquad E\, |C(x) - x|^2 = \omega(x) \, |x|^2 .

    The same vector and the same state of the generator give the same bytes, on any processor:
    only operations are used whose result IEEE 754 fixes to the bit.
    """

    name: ClassVar[str]
    kind: ClassVar[int]  # in the header
    unbiased: ClassVar[bool] = True  # whether E C(x) = x for every x, but for rounding to float32

    # --- what is the same for all ----------------------------------------------------------------

    @final
    def encode(self, vector: Vector, rng: np.random.Generator) -> bytes:
        """The payload of a vector.

        Args:
            vector: finite numbers; it is not changed.
            rng: the device's own stream, such as ``stream(seed, "compression", round, device)``.
        """
        _check(vector)
        return sealed(self._header(len(vector)), self._encode_body(vector, rng))

    @final
    def decode(self, payload: Readable, length: int) -> Vector:
        """The vector in a payload that this compressor made.

        A payload that is damaged, cut, too long, of another compressor or not of the expected
        length raises :class:`PayloadError`, before memory is taken for the vector.
        """
        header = read_header(payload)
        if header.length != length:
            raise PayloadError(
                f"payload holds a vector of {header.length} entries and {length} are expected; it "
                "belongs to another model"
            )
        if header != self._header(length):
            raise PayloadError(
                f"payload is of kind {header.kind}, width {header.width} and bucket "
                f"{header.bucket}, and not of {self}; use the same compressor at both ends"
            )
        return self._decode_body(opened(payload, total_bytes=self.bits(length) // 8), length)

    @final
    def bits(self, length: int) -> int:
        """Exact size of a payload: header, checksum, scales, codes, indices and padding."""
        return 8 * (HEADER_BYTES + self._body_bytes(length))

    @final
    def _header(self, length: int) -> Header:
        width, bucket = self._setting()
        return Header(kind=self.kind, width=width, bucket=bucket, length=length)

    # --- what a kind is --------------------------------------------------------------------------

    @abstractmethod
    def expected_omega(self, vector: Vector) -> float:
        r"""The mean of :math:`|C(x) - x|^2 / |x|^2` over the chance, exactly; 0 for x = 0.

        No random number is drawn, so that one update tells of all widths.
        """

    @abstractmethod
    def gaussian_omega(self) -> float | None:
        """The same for long vectors of independent Gaussian entries; None where it is not known."""

    @classmethod
    def read(cls, header: Header, payload: Readable) -> Self:
        """The compressor that made a payload; it raises InputError if there can be none."""
        del header, payload  # a kind without settings has one compressor
        return cls()

    @abstractmethod
    def _setting(self) -> tuple[int, int]:
        """Width and bucket, as the header has them."""

    @abstractmethod
    def _body_bytes(self, length: int) -> int: ...

    @abstractmethod
    def _encode_body(self, vector: Vector, rng: np.random.Generator) -> Iterable[Readable]:
        """The parts of the body, in their order."""

    @abstractmethod
    def _decode_body(self, body: memoryview, length: int) -> Vector: ...


def maker_of(
    payload: Readable, kinds: Mapping[int, type[AbstractCompressor]]
) -> AbstractCompressor:
    """The compressor of one of these kinds that made a payload, as its header tells."""
    header = read_header(payload)
    if header.kind not in kinds:
        known = ", ".join(f"{code} ({each.name})" for code, each in sorted(kinds.items()))
        raise PayloadError(f"payload is of kind {header.kind}, which is not known here: {known}")
    try:
        return kinds[header.kind].read(header, payload)
    except PayloadError:
        raise
    except InputError as error:
        raise PayloadError(f"payload has a header that cannot be right: {error}") from error


def random_words(rng: np.random.Generator, count: int) -> NDArray[np.uint32]:
    """Independent words of 32 random bits."""
    return rng.integers(0, 1 << 32, count, dtype=np.uint32)


def _check(vector: Vector) -> None:
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32 or vector.ndim != 1:
        array = f"{vector.dtype} of shape {vector.shape}" if isinstance(vector, np.ndarray) else ""
        raise InputError(
            "vector must be a float32 array of one dimension, got "
            f"{array or type(vector).__name__}; flatten it and convert it first"
        )
    # Both extremes are NaN if any entry is; and neither takes memory, as absolute values would.
    if len(vector) and not (vector.min() >= -LARGEST and vector.max() <= LARGEST):
        bad = int(np.flatnonzero(~(np.abs(vector) <= LARGEST))[0])
        raise InputError(
            f"vector must be finite and within {LARGEST:.2g}, got {vector[bad]} at entry {bad}; "
            "leave this update out, or train with a smaller learning rate"
        )
