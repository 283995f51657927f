"""Random rounding to equally spaced levels, with one scale for each bucket."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.learning.compression.base import CHUNK, AbstractCompressor, Vector, random_words
from fedsched.learning.compression.gaussian import omega_of_bucketed_grid
from fedsched.learning.compression.packing import (
    Codes,
    pack_bits,
    pack_trits,
    packed_bits,
    packed_trits,
    unpack_bits,
    unpack_trits,
)
from fedsched.learning.compression.payload import Header, PayloadError, Readable

__all__ = ["Dithered", "Ternary"]

_LEAST_WIDTH, _MOST_WIDTH = 2, 8
_MOST_BUCKET = (1 << 32) - 1
_SCALE_BYTES = 2


class _Grid(AbstractCompressor):
    r"""Random rounding to equally spaced levels, with one scale for each bucket.

    With M the largest magnitude in the bucket and L + 1 levels, the scale is :math:`h \ge M / L`
    and the levels are :math:`(2 c - L) h`, c = 0, ..., L. An entry goes to one of its two
    neighbours, to each with the probability that makes the mean right.

    The scale has 16 bits, those of a float32 that come first, rounded up. So it costs half as much
    as a float32, has the same range, and a level times it is exact in float32. It is rounded before
    it is used, so that the scale on the wire is the one of the rounding: there is no bias.
    """

    bucket: int

    @property
    @abstractmethod
    def _steps(self) -> int:
        """L, one less than the number of levels."""

    @abstractmethod
    def _packed(self, length: int) -> int: ...

    @abstractmethod
    def _pack(self, codes: Codes) -> Readable: ...

    @abstractmethod
    def _unpack(self, packed: memoryview, length: int) -> Codes: ...

    def expected_omega(self, vector: Vector) -> float:
        """The mean over the chance for this vector; it takes no random numbers."""
        error = square = 0.0
        for first, work in self._pieces(vector):
            square += float(np.square(work, dtype=np.float64).sum())
            scale = self._place(work)
            work -= np.floor(work)
            work -= np.square(work)  # f (1 - f)
            work.reshape(-1)[len(vector) - first * self.bucket :] = 0.0  # what is not sent
            variance = work.sum(axis=1, dtype=np.float64)
            error += float(variance @ np.square(2.0 * _widened(scale).astype(np.float64)))
        return error / square if square > 0.0 else 0.0

    def gaussian_omega(self) -> float:
        """By integration over the largest of a bucket; scales are taken as not rounded."""
        return omega_of_bucketed_grid(self._steps, self.bucket)

    def _setting(self) -> tuple[int, int]:
        return 0, self.bucket

    def _body_bytes(self, length: int) -> int:
        return _SCALE_BYTES * -(-length // self.bucket) + self._packed(length)

    def _encode_body(self, vector: Vector, rng: np.random.Generator) -> Iterable[Readable]:
        buckets = -(-len(vector) // self.bucket)
        scale = np.empty(buckets, "<u2")
        codes = np.empty(buckets * self.bucket, np.uint8)
        for first, work in self._pieces(vector):
            scale[first : first + len(work)] = self._place(work)
            low = np.floor(work)
            work -= low  # exact, and so is the product with 2^24
            work *= np.float32(1 << 24)
            chance = random_words(rng, work.size).reshape(work.shape) >> np.uint32(8)
            here = codes[first * self.bucket :][: work.size].reshape(work.shape)
            np.copyto(here, low, casting="unsafe")
            here += chance.astype(np.float32) < work
        return scale.data, self._pack(codes[: len(vector)])

    def _decode_body(self, body: memoryview, length: int) -> Vector:
        buckets = -(-length // self.bucket)
        stored = np.frombuffer(body[: _SCALE_BYTES * buckets], "<u2")
        scale = _widened(stored)
        with np.errstate(over="ignore", invalid="ignore"):
            within = scale * np.float32(self._steps) < np.inf
        if not (within & (stored < 1 << 15)).all():
            bad = scale[~(within & (stored < 1 << 15))][0]
            raise PayloadError(f"payload has a scale {bad}; it must be finite and not below zero")
        codes = self._unpack(body[_SCALE_BYTES * buckets :], length)
        vector = np.multiply(codes, np.float32(2.0))
        vector -= np.float32(self._steps)
        whole = length // self.bucket
        inside = vector[: whole * self.bucket].reshape(whole, self.bucket)
        inside *= scale[:whole, None]
        if whole < buckets:
            vector[whole * self.bucket :] *= scale[-1]
        return vector

    def _pieces(self, vector: Vector) -> Iterator[tuple[int, Vector]]:
        """Copies of many buckets at a time, shape (buckets, bucket), each with its first bucket.

        The last bucket is filled with zeros.
        """
        many = max(1, CHUNK // self.bucket)
        size = many * self.bucket
        for start in range(0, len(vector), size):
            part = vector[start : start + size]
            work = np.zeros((-(-len(part) // self.bucket), self.bucket), np.float32)
            work.reshape(-1)[: len(part)] = part
            yield start // self.bucket, work

    def _place(self, work: Vector) -> NDArray[np.uint16]:
        """Turn entries into places c between 0 and L, in place; the scales of the buckets.

        No place leaves its bounds: x / h is within L because x is within h L, which is exact.
        """
        steps = np.float32(self._steps)
        # Without abs, a bucket of zeros might have the scale -0.
        largest = np.abs(np.maximum(work.max(axis=1), -work.min(axis=1)))
        scale = _rounded_up(largest, steps)
        work /= np.where(scale == 0, np.float32(1.0), _widened(scale))[:, None]
        work += steps
        work *= np.float32(0.5)
        return scale


def _widened(scale: NDArray[np.uint16]) -> Vector:
    """The float32 whose upper half these bits are."""
    return (scale.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _rounded_up(largest: Vector, steps: np.float32) -> NDArray[np.uint16]:
    """The least scale of 16 bits whose product with the steps is not below the largest entry."""
    scale = ((largest / steps).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    scale += _widened(scale) * steps < largest  # this product is exact, and so is the comparison
    return scale


@final
@dataclass(frozen=True)
class Dithered(_Grid):
    """Random rounding to 2^width equally spaced levels from -M to M, M the largest of a bucket.

    Args:
        width: bits an entry, 2 to 8. Three or four are best where airtime is the price.
        bucket: entries with one scale. Fewer make the error smaller and cost more scales.

    Example:
        >>> import numpy as np
        >>> x = np.array([0.1, -0.7, 0.3], np.float32)
        >>> payload = Dithered(8).encode(x, np.random.default_rng(1))
        >>> len(payload) * 8 == Dithered(8).bits(3) == 8 * (24 + 2 + 3)
        True
        >>> bool(np.abs(Dithered(8).decode(payload, 3) - x).max() < 2 * 0.71 / 255)
        True
    """

    width: int = 4
    bucket: int = 512

    name: ClassVar[str] = "dithered"
    kind: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _whole("width", self.width, _LEAST_WIDTH, _MOST_WIDTH)
        _whole("bucket", self.bucket, 1, _MOST_BUCKET)

    @classmethod
    def read(cls, header: Header, payload: Readable) -> Self:
        """The one with the header's width and bucket."""
        del payload
        return cls(header.width, header.bucket)

    @property
    def _steps(self) -> int:
        return int((1 << self.width) - 1)

    def _setting(self) -> tuple[int, int]:
        return self.width, self.bucket

    def _packed(self, length: int) -> int:
        return packed_bits(length, self.width)

    def _pack(self, codes: Codes) -> Readable:
        return pack_bits(codes, self.width)

    def _unpack(self, packed: memoryview, length: int) -> Codes:
        return unpack_bits(packed, length, self.width)


@final
@dataclass(frozen=True)
class Ternary(_Grid):
    """Random rounding to -M, 0 and M, M the largest of a bucket: five entries in a byte.

    Args:
        bucket: entries with one scale.
    """

    bucket: int = 512

    name: ClassVar[str] = "ternary"
    kind: ClassVar[int] = 3

    def __post_init__(self) -> None:
        _whole("bucket", self.bucket, 1, _MOST_BUCKET)

    @classmethod
    def read(cls, header: Header, payload: Readable) -> Self:
        """The one with the header's bucket."""
        del payload
        return cls(header.bucket)

    @property
    def _steps(self) -> int:
        return 2

    def _packed(self, length: int) -> int:
        return packed_trits(length)

    def _pack(self, codes: Codes) -> Readable:
        return pack_trits(codes)

    def _unpack(self, packed: memoryview, length: int) -> Codes:
        return unpack_trits(packed, length)


def _whole(field: str, value: int, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{field} must be a whole number from {least} to {most}, got {value!r}")
