"""The clock of a run: seconds on air, and seconds of computation in every round."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import positive_each, positive_number
from fedsched.errors import InputError

__all__ = ["Computation", "elapsed_s"]

Time = TypeVar("Time", float, NDArray[np.float64])


def elapsed_s(airtime_s: Time, rounds: Time, computation_s: float) -> Time:
    r"""Seconds after some rounds: :math:`A + c R`.

    A is the time of the rounds until then without what all devices compute alike: uploads, reports,
    and the waiting for devices that compute longer. R are the rounds and c the computation that
    all devices have in common. It only shifts the clock, by the same amount in every round, so one
    run answers for every c.

    Example:
        >>> elapsed_s(10.0, 4.0, 0.5)
        12.0
    """
    return airtime_s + computation_s * rounds


@dataclass(frozen=True, eq=False)
class Computation:
    r"""How long each device computes in a round before it can upload.

    A device takes :math:`c_n e^{s z - s^2 / 2}` seconds, with z drawn from a standard normal
    distribution in every round: log-normal times with mean :math:`c_n`.

    Attributes:
        mean_s: c, one number for all devices or one each.
        spread: s, the standard deviation of the logarithm; 0: the same in every round.

    Example:
        >>> Computation(2.0).common_s
        2.0
        >>> times = Computation(np.array([1.0, 3.0]))
        >>> times.common_s, times.ready_s(np.array([1]), 2, np.random.default_rng(0))
        (0.0, array([3.]))
    """

    mean_s: float | NDArray[np.float64] = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        positive_each("computation_s", self.mean_s, allow_zero=True)
        positive_number("computation_spread", self.spread, allow_zero=True)

    @property
    def common_s(self) -> float:
        """What all devices take in every round; 0 where they differ or it is drawn."""
        each = isinstance(self.mean_s, np.ndarray) or self.spread > 0.0
        return 0.0 if each else float(self.mean_s)

    def ready_s(
        self,
        device: NDArray[np.int64],
        devices: int,
        rng: np.random.Generator,
        pace: float | NDArray[np.float64] = 1.0,
    ) -> NDArray[np.float64] | None:
        """When these of all devices are ready to upload; None where all are at once.

        What all devices have in common is left to the clock.

        Args:
            device: the members of a round.
            devices: how many there are in all.
            rng: where times are drawn.
            pace: how many times as long each of all devices computes in this round.

        Example:
            >>> later = Computation(2.0).ready_s(np.array([0, 1]), 2, None, np.array([1.0, 1.5]))
            >>> later.tolist()  # than the 2 s that all have in common
            [0.0, 1.0]
        """
        if isinstance(self.mean_s, np.ndarray) and self.mean_s.shape != (devices,):
            raise InputError(
                f"computation_s has {self.mean_s.size} numbers and there are {devices} devices; "
                "give one for each, or a single number for all"
            )
        if not isinstance(self.mean_s, np.ndarray) and self.spread == 0.0:
            if not isinstance(pace, np.ndarray):
                return None
            return (self.mean_s * (pace - 1.0))[device]
        every: NDArray[np.float64] = np.broadcast_to(self.mean_s * pace, devices)
        if self.spread == 0.0:
            return every[device]
        # Drawn for all, so that policies compared under one seed meet the same times.
        factor = np.exp(self.spread * rng.standard_normal(devices) - 0.5 * self.spread**2)
        return (every * factor)[device]
