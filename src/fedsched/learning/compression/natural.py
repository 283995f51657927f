"""Random rounding to powers of two."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.learning.compression.base import CHUNK, AbstractCompressor, Vector, random_words
from fedsched.learning.compression.gaussian import omega_of_powers
from fedsched.learning.compression.packing import pack_bits, packed_bits, unpack_bits
from fedsched.learning.compression.payload import PayloadError, Readable

__all__ = ["Natural"]


@final
@dataclass(frozen=True)
class Natural(AbstractCompressor):
    r"""Random rounding of magnitudes to powers of two: a sign and 8 bits of exponent.

    An entry :math:`\pm 2^e (1 + f)` becomes :math:`\pm 2^{e+1}` with probability f, or else
    :math:`\pm 2^e`. The probability is exact, as it has the bits of f. No scale is needed. Its
    :math:`\omega` is 1/8 at most, whatever the vector.
    """

    name: ClassVar[str] = "natural"
    kind: ClassVar[int] = 4

    def expected_omega(self, vector: Vector) -> float:
        """The mean over the chance for this vector; it takes no random numbers."""
        x = np.abs(vector).astype(np.float64)
        low = (vector.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32).astype(np.float64)
        high = np.where(low > 0.0, 2.0 * low, 2.0**-126)
        square = float(np.square(x).sum())
        return float(((x - low) * (high - x)).sum()) / square if square > 0.0 else 0.0

    def gaussian_omega(self) -> float:
        """By integration over the intervals between powers of two."""
        return omega_of_powers()

    def _setting(self) -> tuple[int, int]:
        return 9, 0

    def _body_bytes(self, length: int) -> int:
        return length + packed_bits(length, 1)

    def _encode_body(self, vector: Vector, rng: np.random.Generator) -> Iterable[Readable]:
        exponent, sign = np.empty((2, len(vector)), np.uint8)
        for start in range(0, len(vector), CHUNK):
            part = vector[start : start + CHUNK].copy()
            # A mantissa and 23 random bits carry into the exponent with probability f.
            bits = part.view(np.uint32)
            bits += random_words(rng, len(part)) >> np.uint32(9)
            bits >>= np.uint32(23)
            np.copyto(exponent[start : start + CHUNK], bits & np.uint32(0xFF), casting="unsafe")
            np.copyto(sign[start : start + CHUNK], bits >> np.uint32(8), casting="unsafe")
        return exponent.data, pack_bits(sign, 1)

    def _decode_body(self, body: memoryview, length: int) -> Vector:
        exponent = np.frombuffer(body[:length], np.uint8)
        if exponent.max(initial=0) == 0xFF:
            raise PayloadError("payload holds an infinite number; the update is not used")
        bits = unpack_bits(body[length:], length, 1).astype(np.uint32)
        bits <<= np.uint32(8)
        bits |= exponent
        bits <<= np.uint32(23)
        return bits.view(np.float32)
