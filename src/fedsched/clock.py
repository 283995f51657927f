"""The clock of a run: seconds on air, and seconds of computation in every round."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["elapsed_s"]

Time = TypeVar("Time", float, NDArray[np.float64])


def elapsed_s(airtime_s: Time, rounds: Time, computation_s: float) -> Time:
    r"""Seconds after some rounds: :math:`A + c R`.

    A is the time on air until then, reports included, R the rounds and c the computation time of
    one. Computation only shifts the clock, by the same amount in every round, so one run answers
    for every c.

    Example:
        >>> elapsed_s(10.0, 4.0, 0.5)
        12.0
    """
    return airtime_s + computation_s * rounds
