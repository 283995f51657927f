r"""Sampling designs: each knows its probability problem, and realises its answer exactly.

A design owns the weights of the cohort it draws: :math:`p_n / q_n` for each member, where
:math:`p_n` is the device's share of the data (1/N if all have the same). The sum of weighted
updates then has the full sum :math:`\sum_n p_n \Delta_n` as its mean, whatever the design.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of, whole_number
from fedsched.errors import InputError
from fedsched.solve.probabilities import (
    fixed_size_probabilities,
    independent_probabilities,
    optimal_probabilities,
)
from fedsched.solve.solution import Solution
from fedsched.values import Cohort, PerDevice

__all__ = [
    "DESIGNS",
    "MOST_DRAWS",
    "AbstractDesign",
    "FixedSize",
    "FullCensus",
    "Independent",
    "Pivotal",
    "WithReplacement",
    "make_design",
]

MOST_DRAWS = 10**8  # each takes a number of memory; far beyond any round that is of use


class AbstractDesign(ABC):
    """How a cohort is drawn so that device n takes part with probability q_n."""

    @abstractmethod
    def solve(self, price: PerDevice, weight: float | PerDevice, floor: float) -> Solution:
        """The probabilities that minimise ``sum(weight / q + price * q)`` under this design."""

    @property
    def kernel(self) -> tuple[str, int] | None:
        """What :func:`fedsched.decide` calls it and its number of draws; None: it has no name."""
        return None

    @abstractmethod
    def uniform(self, devices: int) -> tuple[float, float | None]:
        """The probability, and that of one draw, if all devices are treated alike."""

    @abstractmethod
    def members(
        self, probability: PerDevice, draw_probability: PerDevice | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The devices of one cohort, ascending."""

    def draw(
        self,
        probability: PerDevice,
        draw_probability: PerDevice | None,
        share: PerDevice,
        rng: np.random.Generator,
    ) -> Cohort:
        """One cohort, each member with the weight of its update."""
        device = self.members(probability, draw_probability, rng)
        return Cohort(device=device, weight=share[device] / probability[device])


@final
@dataclass(frozen=True)
class WithReplacement(AbstractDesign):
    """The paper's design: ``draws`` draws with replacement; the distinct devices take part once."""

    draws: int

    def __post_init__(self) -> None:
        whole_number("draws", self.draws, most=MOST_DRAWS)

    def solve(self, price: PerDevice, weight: float | PerDevice, floor: float) -> Solution:
        """The global minimum over the simplex of draw probabilities."""
        return optimal_probabilities(price, weight=weight, draws=self.draws, floor=floor)

    @property
    def kernel(self) -> tuple[str, int]:
        """The whole decision in one call."""
        return "with-replacement", self.draws

    def uniform(self, devices: int) -> tuple[float, float | None]:
        """1 - (1 - 1/N)^m, and 1/N for one draw."""
        if devices == 1:
            return 1.0, 1.0
        return float(-np.expm1(self.draws * np.log1p(-1.0 / devices))), 1.0 / devices

    def members(
        self, probability: PerDevice, draw_probability: PerDevice | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The distinct results of the draws."""
        del probability
        if draw_probability is None:
            raise InputError("draw_probability is None; draws with replacement need one per device")
        edges = np.cumsum(draw_probability)
        if edges[-1] == 0.0:
            return np.empty(0, dtype=np.int64)  # nobody can be reached
        # Scaled by the last edge, so that rounding in the sum can point past no device.
        drawn = np.searchsorted(edges, rng.random(self.draws) * edges[-1], side="right")
        return np.unique(drawn).astype(np.int64)


@dataclass(frozen=True)
class _Sized(AbstractDesign):
    """A design with so many devices in a cohort, for sure or on average."""

    size: int

    def __post_init__(self) -> None:
        whole_number("draws", self.size)

    def uniform(self, devices: int) -> tuple[float, float | None]:
        """Size over devices; nothing is drawn."""
        return min(1.0, self.size / devices), None


@final
@dataclass(frozen=True)
class Independent(_Sized):
    """Every device tosses its own coin (Poisson sampling); a cohort may be empty.

    ``size`` is the expected cohort of the *uniform* policy; the optimal probabilities need none.
    """

    def solve(self, price: PerDevice, weight: float | PerDevice, floor: float) -> Solution:
        """Each device by itself: nothing couples them."""
        return independent_probabilities(price, weight=weight, floor=floor)

    @property
    def kernel(self) -> tuple[str, int]:
        """The whole decision in one call."""
        return "independent", self.size

    def members(
        self, probability: PerDevice, draw_probability: PerDevice | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Every device whose coin shows heads."""
        del draw_probability
        chosen = rng.random(probability.shape) < probability
        return np.flatnonzero(chosen).astype(np.int64)


@final
@dataclass(frozen=True)
class FixedSize(_Sized):
    r"""Exactly ``size`` distinct devices, by random-order pivotal sampling.

    Devices meet in random pairs. If :math:`q_i + q_j \le 1` one of them drops out and the other
    goes on with the sum; otherwise one is chosen and the other goes on with :math:`q_i + q_j - 1`;
    who, is decided so that both keep their probabilities. All pairs of a level duel at once, so a
    million devices take twenty steps.
    """

    def solve(self, price: PerDevice, weight: float | PerDevice, floor: float) -> Solution:
        """The minimum with the sum of probabilities held at ``size``."""
        return fixed_size_probabilities(price, weight=weight, size=self.size, floor=floor)

    @property
    def kernel(self) -> tuple[str, int]:
        """The whole decision in one call."""
        return "fixed-size", self.size

    def members(
        self, probability: PerDevice, draw_probability: PerDevice | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Those that are sure, and the winners of the duels of the others."""
        del draw_probability
        return _pivotal(probability, rng)


@final
@dataclass(frozen=True)
class Pivotal(AbstractDesign):
    """Pivotal sampling on any sum: as many devices as q adds up to, rounded up or down.

    The probabilities are those of independent coins, whose cohorts vary more in size. Devices of
    like probability duel first. So a cohort has its share of likely and of unlikely devices, and
    the sum of the weights 1/(N q) varies less from round to round.
    """

    def solve(self, price: PerDevice, weight: float | PerDevice, floor: float) -> Solution:
        """Each device by itself: nothing couples them."""
        return independent_probabilities(price, weight=weight, floor=floor)

    def uniform(self, devices: int) -> tuple[float, float | None]:
        """One device a round."""
        return 1.0 / devices, None

    def members(
        self, probability: PerDevice, draw_probability: PerDevice | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Those that are sure, and the winners of the duels of the others."""
        del draw_probability
        return _pivotal(probability, rng, in_order=True)


@final
@dataclass(frozen=True)
class FullCensus(AbstractDesign):
    """Everybody who can be reached, for sure."""

    def solve(self, price: PerDevice, weight: float | PerDevice, floor: float) -> Solution:
        """Nothing is left to choose: every probability is 1."""
        return independent_probabilities(np.zeros_like(price), weight=weight, floor=floor)

    def uniform(self, devices: int) -> tuple[float, float | None]:
        """1."""
        del devices
        return 1.0, None

    def members(
        self, probability: PerDevice, draw_probability: PerDevice | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """All with a probability."""
        del draw_probability, rng
        return np.flatnonzero(probability).astype(np.int64)


def _pivotal(
    q: PerDevice, rng: np.random.Generator, *, in_order: bool = False
) -> NDArray[np.int64]:
    """The sure devices and the winners of the duels; in order of q, or any, by chance."""
    sure = np.flatnonzero(q >= 1.0)
    undecided = rng.permutation(np.flatnonzero((q > 0.0) & (q < 1.0)))
    if in_order:
        undecided = undecided[np.argsort(q[undecided], kind="stable")]
    chosen = undecided[_duels(q[undecided], rng)]
    return np.sort(np.concatenate([sure, chosen])).astype(np.int64)


def _duels(q: PerDevice, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions chosen by duels of neighbours until one at most is undecided."""
    chosen: list[NDArray[np.int64]] = []
    place = np.arange(len(q))
    value = q.copy()
    while len(place) > 1:
        pairs = len(place) // 2
        first, second = value[0 : 2 * pairs : 2], value[1 : 2 * pairs : 2]
        total = first + second
        big = total > 1.0
        # Of a small pair the first survives with first / total; of two that exceed 1 together it
        # is chosen at once with (1 - second) / (2 - total). Of two at exactly 1 either may be.
        spread = np.where(big, 2.0 - total, total)
        ahead = np.where(big, 1.0 - second, first) / np.where(spread > 0.0, spread, 1.0)
        first_wins = rng.random(pairs) < ahead
        one, other = place[0 : 2 * pairs : 2], place[1 : 2 * pairs : 2]
        winner, loser = np.where(first_wins, one, other), np.where(first_wins, other, one)
        chosen.append(winner[big])
        # Of a small pair the winner goes on with the sum; of a big one the loser with the excess.
        going_on = np.where(big, loser, winner)
        rest = np.where(big, total - 1.0, total)
        place = np.concatenate([going_on, place[2 * pairs :]])
        value = np.concatenate([rest, value[2 * pairs :]])
    # The sum of q is whole, so what is left is 0 or 1 up to rounding.
    if len(place) and rng.random() < value[0]:
        chosen.append(place)
    return np.concatenate(chosen) if chosen else place[:0]


DESIGNS: Mapping[str, Callable[[int], AbstractDesign]] = MappingProxyType(
    {
        "with-replacement": WithReplacement,
        "independent": Independent,
        "fixed-size": FixedSize,
    }
)


def make_design(name: str, draws: int) -> AbstractDesign:
    """The design of that name, for ``draws`` devices (or draws) a round.

    Example:
        >>> make_design("fixed-size", 5)
        FixedSize(size=5)
    """
    one_of("design", name, DESIGNS)
    return DESIGNS[name](draws)
