"""Running averages of quantities that may change by orders of magnitude."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["average", "averaged", "started"]

_MOST_RATIO = 10.0  # of one value to the average

Average = NDArray[np.float64]  # the mean logarithm, and the mean ratio to it


def started(value: float) -> Average:
    """The average of one value."""
    return np.array([np.log(value), 1.0])


def averaged(before: Average, value: float, rate: float) -> Average:
    """A running average after one more value.

    A world that changes a thousandfold moves the logarithm by seven, so that it is forgotten as
    soon as any other; the ratio makes the average that of the values, not of their logarithms.
    """
    ratio = min(value / float(np.exp(before[0])), _MOST_RATIO)
    now = np.array([np.log(value), ratio])
    return before + rate * (now - before)


def average(found: Average) -> float:
    """What the values are on average.

    Example:
        >>> average(started(2.0))
        2.0
    """
    return float(np.exp(found[0]) * found[1])
