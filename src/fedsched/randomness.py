"""Named random streams: every draw is a function of the seed, the source of chance and an index.

A stream is addressed, never carried: ``stream(seed, "channel", 17)`` gives the generator of the
channel in round 17, whoever asks and however often. Nothing has to be saved to resume a run, no
worker can disturb another, and policies compared under one seed see the same channel.
"""

import zlib
from dataclasses import dataclass

import numpy as np

from fedsched.errors import InputError

__all__ = ["Luck", "stream"]


def stream(seed: int, source: str, *index: int) -> np.random.Generator:
    """The generator for one source of chance at one place.

    Args:
        seed: the run's seed, a non-negative integer.
        source: what the numbers are for: "channel", "sampling", "data", "training", ...
        index: where: a round, a device, or both; non-negative integers.

    Example:
        >>> bool(stream(1, "channel", 3).random() == stream(1, "channel", 3).random())
        True
        >>> bool(stream(1, "channel", 3).random() == stream(1, "sampling", 3).random())
        False
    """
    if not _natural(seed):
        raise InputError(f"seed must be a non-negative integer, got {seed!r}")
    if not all(_natural(place) for place in index):
        raise InputError(f"index of stream {source!r} must be non-negative integers, got {index}")
    # The length keeps ("a", 1) and ("a", 1, 0) apart: SeedSequence pads its key with zeros.
    key = (zlib.crc32(source.encode()), len(index), *index)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True)
class Luck:
    """The streams of one round: all the chance a policy may use.

    Example:
        >>> bool(Luck(1, 3).stream("sampling").random() == stream(1, "sampling", 3).random())
        True
    """

    seed: int
    round: int

    def stream(self, source: str) -> np.random.Generator:
        """The generator of that source in this round, from its beginning."""
        return stream(self.seed, source, self.round)


def _natural(value: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
