r"""Sampling designs: each knows its probability problem, and realises its answer exactly.

A design owns the weights of the cohort it draws: :math:`p_n / q_n` for each member, where
:math:`p_n` is the device's share of the data (1/N if all have the same). The sum of weighted
updates then has the full sum :math:`\sum_n p_n \Delta_n` as its mean, whatever the design.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of, whole_number
from fedsched.errors import InputError
from fedsched.policies.duels import pivotal, pivotal_cohorts
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

    def cohorts(
        self,
        probability: PerDevice,
        draw_probability: PerDevice | None,
        count: int,
        rng: np.random.Generator,
    ) -> NDArray[np.bool_]:
        """Who takes part in each of many cohorts; shape (count, devices)."""
        member = np.zeros((count, len(probability)), dtype=np.bool_)
        for each in member:
            each[self.members(probability, draw_probability, rng)] = True
        return member

    def nobody_of_first(
        self, probability: PerDevice, draw_probability: PerDevice | None
    ) -> PerDevice | None:
        """The chance that none of the first k devices takes part, for k = 0, 1, ... up to all.

        None: there is no formula for it.
        """
        del probability, draw_probability
        return None


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

    def nobody_of_first(
        self, probability: PerDevice, draw_probability: PerDevice | None
    ) -> PerDevice | None:
        """All draws fall on the others."""
        del probability
        if draw_probability is None:
            return None
        first = _from_0(np.cumsum(draw_probability))
        return np.asarray(np.maximum(1.0 - first / first[-1], 0.0) ** self.draws)


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

    def nobody_of_first(
        self, probability: PerDevice, draw_probability: PerDevice | None
    ) -> PerDevice | None:
        """Each stays away by itself."""
        del draw_probability
        return 1.0 - _from_0(1.0 - np.cumprod(1.0 - probability))


@final
@dataclass(frozen=True)
class FixedSize(_Sized):
    """Exactly ``size`` distinct devices: pivotal sampling, whose duels are of random pairs."""

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
        return pivotal(probability, rng)

    def cohorts(
        self,
        probability: PerDevice,
        draw_probability: PerDevice | None,
        count: int,
        rng: np.random.Generator,
    ) -> NDArray[np.bool_]:
        """All at once; the pairs of each cohort are its own."""
        del draw_probability
        return pivotal_cohorts(probability, count, rng)

    def nobody_of_first(
        self, probability: PerDevice, draw_probability: PerDevice | None
    ) -> PerDevice | None:
        """Where all are alike every cohort of the size has the same chance."""
        del draw_probability
        alike = probability[probability > 0.0]
        if not len(alike) or np.ptp(alike) > 0.0 or len(alike) < len(probability):
            return None
        devices, size = len(alike), round(float(alike.sum()))
        left = np.arange(devices, 0.0, -1.0)
        return 1.0 - _from_0(1.0 - np.cumprod(np.maximum(left - size, 0.0) / left))


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
        return pivotal(probability, rng, in_order=True)

    def cohorts(
        self,
        probability: PerDevice,
        draw_probability: PerDevice | None,
        count: int,
        rng: np.random.Generator,
    ) -> NDArray[np.bool_]:
        """All at once, with the same order of devices that are alike."""
        del draw_probability
        return pivotal_cohorts(probability, count, rng, in_order=True)


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

    def nobody_of_first(
        self, probability: PerDevice, draw_probability: PerDevice | None
    ) -> PerDevice | None:
        """Nobody stays away."""
        del draw_probability
        return 1.0 - _from_0(1.0 - np.cumprod(1.0 - probability))


def _from_0(value: NDArray[np.floating[Any]]) -> PerDevice:
    return np.concatenate([np.zeros(1), value])


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
