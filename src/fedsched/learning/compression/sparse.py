"""Sending few entries: biased, and therefore with error feedback."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.learning.compression.base import AbstractCompressor, Vector, maker_of
from fedsched.learning.compression.grid import Dithered, Ternary
from fedsched.learning.compression.identity import Identity
from fedsched.learning.compression.natural import Natural
from fedsched.learning.compression.payload import HEADER_BYTES, Header, PayloadError, Readable

__all__ = ["QUANTISERS", "ErrorFeedback", "Sent", "TopK"]

_MILLION = 1_000_000

# What sends every entry, by its number in the header.
QUANTISERS: Mapping[int, type[AbstractCompressor]] = {
    each.kind: each for each in (Identity, Dithered, Ternary, Natural)
}


@final
@dataclass(frozen=True)
class TopK(AbstractCompressor):
    """The entries of largest magnitude; zero for all others. Biased: see :class:`ErrorFeedback`.

    Among entries of equal magnitude the first ones are kept.

    Args:
        share: of the entries that are kept, rounded up to whole entries; in millionths.
        values: compresses the entries that are kept.

    Example:
        >>> import numpy as np
        >>> x = np.array([0.1, -0.7, 0.3], np.float32)
        >>> rng = np.random.default_rng(1)
        >>> TopK(0.5).decode(TopK(0.5).encode(x, rng), 3)
        array([ 0. , -0.7,  0.3], dtype=float32)
    """

    share: float = 0.01
    values: AbstractCompressor = field(default_factory=Identity)

    name: ClassVar[str] = "top-k"
    kind: ClassVar[int] = 5
    unbiased: ClassVar[bool] = False  # small entries are never sent

    def __post_init__(self) -> None:
        millionths = self.share * _MILLION
        if not 1 <= millionths <= _MILLION or abs(millionths - round(millionths)) > 1e-6:
            raise InputError(
                f"share must be a whole number of millionths in (0, 1], got {self.share!r}; "
                "0.01 keeps one entry in a hundred"
            )
        if isinstance(self.values, TopK):
            raise InputError("values must be a compressor that sends every entry, got another TopK")

    def kept(self, length: int) -> int:
        """How many entries are sent."""
        return -(-length * self._setting()[1] // _MILLION)

    def expected_omega(self, vector: Vector) -> float:
        """The share of the squared norm that is lost, and what the values lose of the rest."""
        whole = float(np.square(vector, dtype=np.float64).sum())
        sent = vector[self._places(vector)]
        left = float(np.square(sent, dtype=np.float64).sum())
        if whole == 0.0:
            return 0.0
        return (whole - left + left * self.values.expected_omega(sent)) / whole

    def gaussian_omega(self) -> None:
        """Not known, and of no use where there is a bias."""

    @classmethod
    def read(cls, header: Header, payload: Readable) -> Self:
        """The one with the header's share, and the values of the payload inside."""
        inside = memoryview(payload)[HEADER_BYTES:]
        outer = cls(header.bucket / _MILLION)
        values = inside[_place_bytes(header.length, outer.kept(header.length)) :]
        return cls(outer.share, maker_of(values, QUANTISERS))

    def _setting(self) -> tuple[int, int]:
        return 0, round(self.share * _MILLION)

    def _body_bytes(self, length: int) -> int:
        kept = self.kept(length)
        return _place_bytes(length, kept) + self.values.bits(kept) // 8

    def _encode_body(self, vector: Vector, rng: np.random.Generator) -> Iterable[Readable]:
        places = self._places(vector)
        return _pack_places(places, len(vector)), self.values.encode(vector[places], rng)

    def _decode_body(self, body: memoryview, length: int) -> Vector:
        kept = self.kept(length)
        size = _place_bytes(length, kept)
        sent = self.values.decode(body[size:], kept)
        vector = np.zeros(length, np.float32)
        vector[_unpack_places(body[:size], length, kept)] = sent
        return vector

    def _places(self, vector: Vector) -> NDArray[np.int64]:
        kept = self.kept(len(vector))
        if kept == 0:
            return np.empty(0, np.int64)
        # Which of equal entries a partition puts first is up to the processor; its value is not.
        magnitude = np.abs(vector)
        least = np.partition(magnitude, len(vector) - kept)[len(vector) - kept]
        above = magnitude > least
        equal = np.flatnonzero(magnitude == least)[: kept - int(above.sum())]
        above[equal] = True
        return np.flatnonzero(above)


def _index_bytes(length: int) -> int:
    return max(1, ((length - 1).bit_length() + 7) // 8)


def _place_bytes(length: int, kept: int) -> int:
    """Of a list of indices in whole bytes, or of one bit an entry if that is less."""
    return min(kept * _index_bytes(length), (length + 7) // 8)


def _pack_places(places: NDArray[np.int64], length: int) -> bytes:
    each = _index_bytes(length)
    if len(places) * each <= (length + 7) // 8:
        return places.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :each].tobytes()
    mask = np.zeros(length, np.uint8)
    mask[places] = 1
    return np.packbits(mask, bitorder="little").tobytes()


def _unpack_places(packed: memoryview, length: int, kept: int) -> NDArray[np.int64]:
    each, given = _index_bytes(length), np.frombuffer(packed, np.uint8)
    if kept * each <= (length + 7) // 8:
        wide = np.zeros((kept, 8), np.uint8)
        wide[:, :each] = given.reshape(kept, each)
        places = wide.reshape(-1).view("<u8").astype(np.int64)
    else:
        places = np.flatnonzero(np.unpackbits(given, bitorder="little"))
    rising = len(places) == kept and (np.diff(places) > 0).all()
    if not rising or (kept and not places[-1] < length):
        raise PayloadError(
            f"payload must name {kept} different entries below {length} in rising order and does "
            "not; it was not made by this encoder"
        )
    return places


class Sent(NamedTuple):
    """A payload, and what it leaves for the next one."""

    payload: bytes
    residual: Vector


@final
@dataclass(frozen=True)
class ErrorFeedback:
    r"""What a biased compressor left out is added to the next vector. State in, state out.

    .. math:: v = x + e, \quad \text{send } C(v), \quad e \leftarrow v - C(v)

    The residual e stays on the device until it takes part again. With probability q of taking part
    it waits 1/q rounds, and it is then multiplied by the weight of that round.

    Example:
        >>> import numpy as np
        >>> feedback, rng = ErrorFeedback(TopK(0.5)), np.random.default_rng(1)
        >>> residual = feedback.init(2)
        >>> sent = feedback.encode(np.array([3, 2], np.float32), residual, rng)
        >>> feedback.inner.decode(sent.payload, 2), sent.residual
        (array([3., 0.], dtype=float32), array([0., 2.], dtype=float32))
        >>> sent = feedback.encode(np.array([3, 2], np.float32), sent.residual, rng)
        >>> feedback.inner.decode(sent.payload, 2), sent.residual
        (array([0., 4.], dtype=float32), array([3., 0.], dtype=float32))
    """

    inner: AbstractCompressor

    def __post_init__(self) -> None:
        if self.inner.unbiased:
            raise InputError(
                f"inner must be a biased compressor such as TopK, got {self.inner}; an unbiased "
                "one needs no error feedback, and with it residuals may grow without end"
            )

    def init(self, length: int) -> Vector:
        """The residual of a device that has sent nothing yet."""
        return np.zeros(length, np.float32)

    def encode(self, vector: Vector, residual: Vector, rng: np.random.Generator) -> Sent:
        """The payload of the vector and the residual together, and the new residual."""
        if residual.shape != vector.shape:
            raise InputError(
                f"residual must have the vector's shape {vector.shape}, got {residual.shape}; "
                "begin with init(len(vector))"
            )
        whole = vector + residual
        payload = self.inner.encode(whole, rng)
        return Sent(payload, whole - self.inner.decode(payload, len(whole)))
