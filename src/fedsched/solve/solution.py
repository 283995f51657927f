"""What a probability problem's solver returns: the answer, how it ended, and its certificate."""

from dataclasses import dataclass
from enum import Enum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import SolveError
from fedsched.values import PerDevice

__all__ = ["Solution", "Status"]


class Status(Enum):
    """How a solve ended. The value is the sentence shown to the user."""

    OPTIMAL = (
        "the optimality residual is below the tolerance, and every other stationary point "
        "was found and compared or excluded"
    )
    NOT_CERTIFIED = (
        "the best point found has a residual above the tolerance, or another stationary point "
        "could not be excluded; please report the prices, weights and draws"
    )


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Participation probabilities of one round, or of a batch of rounds, with their certificate.

    Attributes:
        probability: q, the probability of taking part, shape (..., devices).
        draw_probability: omega, of being the result of one draw; None where nothing is drawn.
        objective: sum of weight / q + price * q, shape (...).
        multiplier: nu, the price of one unit of the coupling constraint; 0 where there is none.
        residual: what could still be gained, to first order, relative to the objective; or by how
            much the coupling constraint is missed, if that is more; shape (...).
        minima: how many local minima were found and compared, shape (...).
        certified: whether every stationary point was found or excluded, shape (...).
        status: one sentence for the whole batch.
    """

    probability: PerDevice
    draw_probability: PerDevice | None
    objective: NDArray[np.float64]
    multiplier: NDArray[np.float64]
    residual: NDArray[np.float64]
    minima: NDArray[np.int64]
    certified: NDArray[np.bool_]
    status: Status

    def raise_for_status(self) -> Self:
        """Return self if solved; raise a :class:`~fedsched.errors.SolveError` otherwise."""
        if self.status is not Status.OPTIMAL:
            worst = float(np.max(self.residual))
            raise SolveError(
                f"{self.status.value} (largest residual {worst:.3g}; "
                f"{int(np.sum(~self.certified))} of {self.certified.size} problems not certified)"
            )
        return self
