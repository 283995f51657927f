"""Updates in fewer bits: encoders that pack bytes, and decoders that give what the server adds.

    every entry   Dithered(width, bucket), Ternary(bucket), Natural(), Identity(): unbiased
    few entries   TopK(share, values): biased; ErrorFeedback(inner) keeps what was left out
    on the way    Sending(compressors): what the server receives of a device's update
    by name       make_compressor("4"), make_compressors("auto"), as scenarios have them
    how many bits RunningOmega, best_width: the variance that is added, against the price

A payload says itself what it is: :func:`decode` needs its bytes and the length of the model alone.
"""

from collections.abc import Mapping

from fedsched.learning.compression.base import AbstractCompressor, Vector, maker_of
from fedsched.learning.compression.grid import Dithered, Ternary
from fedsched.learning.compression.identity import Identity
from fedsched.learning.compression.names import (
    AUTO,
    compressor_name,
    make_compressor,
    make_compressors,
)
from fedsched.learning.compression.natural import Natural
from fedsched.learning.compression.omega import RunningOmega, best_width, some_of
from fedsched.learning.compression.payload import PayloadError, Readable
from fedsched.learning.compression.sending import Sending
from fedsched.learning.compression.sparse import QUANTISERS, ErrorFeedback, Sent, TopK

__all__ = [
    "AUTO",
    "KINDS",
    "AbstractCompressor",
    "Dithered",
    "ErrorFeedback",
    "Identity",
    "Natural",
    "PayloadError",
    "RunningOmega",
    "Sending",
    "Sent",
    "Ternary",
    "TopK",
    "best_width",
    "compressor_in",
    "compressor_name",
    "decode",
    "make_compressor",
    "make_compressors",
    "some_of",
]

KINDS: Mapping[int, type[AbstractCompressor]] = {**QUANTISERS, TopK.kind: TopK}


def compressor_in(payload: Readable) -> AbstractCompressor:
    """The compressor that made a payload, as its header tells."""
    return maker_of(payload, KINDS)


def decode(payload: Readable, length: int) -> Vector:
    """The vector in a payload of any compressor.

    A payload that is damaged, cut, too long, foreign or not of the expected length raises
    :class:`PayloadError`, before memory is taken for the vector.

    Example:
        >>> import numpy as np
        >>> x = np.array([0.0, 2.0, -2.0], np.float32)
        >>> decode(Ternary().encode(x, np.random.default_rng(1)), 3)
        array([ 0.,  2., -2.], dtype=float32)
    """
    return compressor_in(payload).decode(payload, length)
