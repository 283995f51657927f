"""What a probability problem's solver returns: the answer, and what is proven of it."""

from dataclasses import dataclass
from enum import Enum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import SolveError
from fedsched.values import PerDevice

__all__ = ["TOLERANCE", "RoundSolution", "Solution", "Status"]

# The gap up to which an answer is called optimal.
TOLERANCE = 1e-9


class Status(Enum):
    """How a solve ended. The value is the sentence shown to the user."""

    OPTIMAL = "no allowed probabilities cost less by more than a billionth of the objective"
    NOT_CERTIFIED = (
        "the probabilities are allowed, but others might cost less by the gap, which is above a "
        "billionth; please report the prices, weights and draws"
    )


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Participation probabilities of one round, or of a batch of rounds, with their certificate.

    Whatever the gap, every probability lies in (0, 1] and above the floor, and those that must sum
    to something do.

    Attributes:
        probability: q, the probability of taking part, shape (..., devices).
        draw_probability: omega, of being the result of one draw; None where nothing is drawn.
        objective: sum of weight / q + price * q, shape (...).
        multiplier: nu, the price of one unit of the coupling constraint; 0 where there is none.
        gap: no allowed probabilities cost less than (1 - gap) objective, shape (...). It adds what
            the search could not exclude and what could still be gained, to first order, where it
            stands.
    """

    probability: PerDevice
    draw_probability: PerDevice | None
    objective: NDArray[np.float64]
    multiplier: NDArray[np.float64]
    gap: NDArray[np.float64]

    @property
    def status(self) -> Status:
        """One sentence for the whole batch."""
        proven = bool((self.gap <= TOLERANCE).all())
        return Status.OPTIMAL if proven else Status.NOT_CERTIFIED

    def raise_for_status(self) -> Self:
        """Return self if solved; raise a :class:`~fedsched.errors.SolveError` otherwise."""
        if self.status is not Status.OPTIMAL:
            open_ = int(np.sum(~(self.gap <= TOLERANCE)))
            raise SolveError(
                f"{self.status.value} (largest gap {float(np.max(self.gap)):.3g}; "
                f"{open_} of {self.gap.size} problems not certified)"
            )
        return self


@dataclass(frozen=True, kw_only=True)
class RoundSolution(Solution):
    """The whole decision of a round: also the powers, and the prices they lead to.

    A device out of reach, whose gain is NaN, has probability, power and price 0.

    Attributes:
        power_w: P, the transmit power of each device, shape (..., devices).
        price: b, what it costs that a device takes part.
    """

    power_w: PerDevice
    price: PerDevice
