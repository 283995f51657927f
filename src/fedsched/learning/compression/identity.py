"""No compression, as a compressor."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.learning.compression.base import AbstractCompressor, Vector
from fedsched.learning.compression.payload import PayloadError, Readable

__all__ = ["Identity"]


@final
@dataclass(frozen=True)
class Identity(AbstractCompressor):
    """All 32 bits of every entry: C(x) = x."""

    name: ClassVar[str] = "identity"
    kind: ClassVar[int] = 1

    def expected_omega(self, vector: Vector) -> float:
        """0: it is exact."""
        del vector
        return 0.0

    def gaussian_omega(self) -> float:
        """0: it is exact."""
        return 0.0

    def _setting(self) -> tuple[int, int]:
        return 32, 0

    def _body_bytes(self, length: int) -> int:
        return 4 * length

    def _encode_body(self, vector: Vector, rng: np.random.Generator) -> Iterable[Readable]:
        del rng
        return (np.ascontiguousarray(vector, "<f4").data,)

    def _decode_body(self, body: memoryview, length: int) -> Vector:
        del length
        vector = np.frombuffer(body, "<f4").astype(np.float32)
        if not np.isfinite(vector).all():
            raise PayloadError("payload holds a number that is not finite; the update is not used")
        return vector
