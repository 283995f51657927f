"""What schedules cost, and how sure that is after so many rounds."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.clock import elapsed_s
from fedsched.values import Use

__all__ = ["Cost", "error_of_ratio", "pooled"]

KEPT = 1.05  # of a budget: a short schedule may be so far above it


@dataclass(frozen=True, kw_only=True, eq=False)
class Cost:
    """What schedules of one policy cost, a row for each seed and a column for each round."""

    airtimes_s: NDArray[np.float64]  # expected of a round, with the waiting for slow computers
    inverses: NDArray[np.float64]  # Q of a round
    common_s: float  # of a round: the computation that all devices have in common
    devices: float  # in a round
    uses: tuple[Use, ...]  # of each budget, by the device that used most of it

    @property
    def airtime_s(self) -> float:
        """The mean over rounds."""
        return float(self.airtimes_s.mean())

    @property
    def inverse(self) -> float:
        """The mean over rounds."""
        return float(self.inverses.mean())

    def time_s(self, kappa: float) -> float:
        """Predicted time to a target, up to a factor that all schedules have in common."""
        return (kappa + self.inverse) * elapsed_s(self.airtime_s, 1.0, self.common_s)

    def at(self, computation_s: float) -> "Cost":
        """The same rounds where all devices compute for another time."""
        ratio = (self.airtime_s + self.common_s) / (self.airtime_s + computation_s)
        rest = tuple(
            dataclasses.replace(use, mean=use.mean * ratio) if use.per == "second" else use
            for use in self.uses
        )
        return dataclasses.replace(self, common_s=computation_s, uses=rest)

    @property
    def keeps_budgets(self) -> bool:
        """Whether the worst device is within all its budgets."""
        return all(each.share <= KEPT for each in self.uses)


def pooled(costs: Sequence[Cost]) -> Cost:
    """The same policy over several seeds: means of all, and the worst use of each budget."""
    return Cost(
        airtimes_s=np.concatenate([each.airtimes_s for each in costs]),
        inverses=np.concatenate([each.inverses for each in costs]),
        common_s=costs[0].common_s,
        devices=float(np.mean([each.devices for each in costs])),
        uses=tuple(
            max(seeds, key=lambda use: use.share)
            for seeds in zip(*(each.uses for each in costs), strict=True)
        ),
    )


def error_of_ratio(one: Cost, other: Cost, kappa: float) -> float:
    r"""The standard error of the logarithm of the ratio of two predicted times; 0 of one round.

    A round moves :math:`\log (\kappa + Q)(c + \tau)` by its Q and tau over these sums. What is
    compared meets the same channels, so the difference of the two varies less than either. Rounds
    that follow each other are alike, so a sample is the mean of :math:`\sqrt T` of them.
    """

    def moves(cost: Cost) -> NDArray[np.float64]:
        round_s = max(cost.airtime_s + cost.common_s, 1e-300)
        return cost.inverses / (kappa + cost.inverse) + cost.airtimes_s / round_s

    difference = moves(one) - moves(other)
    seeds, rounds = difference.shape
    length = math.isqrt(rounds)
    samples = rounds // length
    if samples < 2:
        return 0.0
    means = difference[:, : samples * length].reshape(seeds, samples, length).mean(axis=2)
    return float(np.sqrt((means.var(axis=1, ddof=1) / samples).sum()) / seeds)
