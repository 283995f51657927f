"""Long arrays in pieces whose temporaries stay in a core's cache: several times faster.

The pieces are also too short for a BLAS to split a dot product between threads, which would make
its last digits depend on their number.
"""

from collections.abc import Iterator

__all__ = ["blocks"]

_LENGTH = 1 << 13


def blocks(devices: int) -> Iterator[slice]:
    """Slices that cover ``range(devices)``; one slice for all but very large problems.

    Example:
        >>> [(s.start, s.stop) for s in blocks(20_000)]
        [(0, 8192), (8192, 16384), (16384, 20000)]
    """
    for start in range(0, devices, _LENGTH):
        yield slice(start, min(start + _LENGTH, devices))
