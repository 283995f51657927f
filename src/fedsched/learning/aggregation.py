"""The model update: how the updates of a cohort move the model. State in, state out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of
from fedsched.errors import InputError
from fedsched.imports import made_by

__all__ = [
    "AGGREGATORS",
    "AbstractAggregator",
    "Aggregated",
    "LatestUpdates",
    "Update",
    "Updates",
    "Vector",
    "WeightedSum",
    "finite",
    "make_aggregator",
    "running_mean",
]

AggregatorState: TypeAlias = Mapping[str, NDArray[Any]]
Vector: TypeAlias = NDArray[np.float32]  # shape (d,)


class Update(NamedTuple):
    """What one device sent, and how it counts."""

    device: int
    weight: float
    delta: Vector  # y - x


Updates: TypeAlias = Iterable[Update]


class Aggregated(NamedTuple):
    """The next parameters and state, and which updates were left out."""

    parameters: Vector
    state: AggregatorState
    rejected: tuple[int, ...]  # positions, in the order given, of updates that were not finite


class AbstractAggregator(ABC):
    """How the updates of a cohort move the model."""

    biased: ClassVar[bool] = False  # whether its mean is not that of full participation

    def init(self, devices: int, dimension: int) -> AggregatorState:
        """The state before the first round."""
        del devices, dimension
        return {}

    @abstractmethod
    def step(self, parameters: Vector, state: AggregatorState, updates: Updates) -> Aggregated:
        """The model and the state after a round; updates come one at a time."""


def finite(updates: Updates, rejected: list[int]) -> Iterator[Update]:
    """The updates whose entries are all finite; the positions of the others go to ``rejected``."""
    for position, update in enumerate(updates):
        if np.isfinite(update.delta).all():
            yield update
        else:
            rejected.append(position)


@final
@dataclass(frozen=True)
class WeightedSum(AbstractAggregator):
    r"""Move the model by the weighted sum of its devices' updates.

    .. math:: x \leftarrow x + \sum_n w_n \, (y_n - x)

    The sum is kept in float64, in the order given, and rounded to float32 once at the end; only
    one update is held at a time. An update with an entry that is not finite is left out.

    Example:
        >>> x = np.zeros(2, np.float32)
        >>> good, bad = np.array([1, 2], np.float32), np.array([np.nan, 0], np.float32)
        >>> done = WeightedSum().step(x, {}, [Update(0, 0.5, good), Update(1, 0.5, bad)])
        >>> done.parameters, done.rejected
        (array([0.5, 1. ], dtype=float32), (1,))
    """

    def step(self, parameters: Vector, state: AggregatorState, updates: Updates) -> Aggregated:
        """The weighted sum."""
        total = parameters.astype(np.float64)
        weighted = np.empty_like(total)
        rejected: list[int] = []
        for update in finite(updates, rejected):
            np.multiply(update.delta, update.weight, out=weighted, dtype=np.float64)
            total += weighted
        return Aggregated(total.astype(np.float32), state, tuple(rejected))


@final
@dataclass(frozen=True)
class LatestUpdates(AbstractAggregator):
    r"""Move the model by the mean of the latest update of every device (MIFA).

    .. math:: x \leftarrow x + \frac{1}{N} \sum_n G_n, \quad
              G_n = y_n - x \text{ if n took part, else as before}

    A device that never took part counts as zero. An update with an entry that is not finite is
    left out and the old one stays. The updates, 4 N d bytes, are replaced in place: the states of
    one run share them, so save a state before the next step. Updates of older models count as
    well, so it is biased whoever takes part.

    Example:
        >>> rule, x = LatestUpdates(), np.zeros(1, np.float32)
        >>> state = rule.init(2, 1)
        >>> x, state, _ = rule.step(x, state, [Update(0, 1.0, np.array([1.0], np.float32))])
        >>> x, state, _ = rule.step(x, state, [Update(1, 1.0, np.array([3.0], np.float32))])
        >>> x  # 1/2, then (1 + 3) / 2 more
        array([2.5], dtype=float32)
    """

    biased: ClassVar[bool] = True

    def init(self, devices: int, dimension: int) -> AggregatorState:
        """No update was seen."""
        return {"update": np.zeros((devices, dimension), np.float32), "sum": np.zeros(dimension)}

    def step(self, parameters: Vector, state: AggregatorState, updates: Updates) -> Aggregated:
        """The mean of the latest updates."""
        latest, total = state["update"], state["sum"]
        rejected: list[int] = []
        for device, _, delta in finite(updates, rejected):
            total += delta
            total -= latest[device]
            latest[device] = delta
        following = parameters + total / len(latest)
        return Aggregated(following.astype(np.float32), state, tuple(rejected))


AGGREGATORS: Mapping[str, type[AbstractAggregator]] = MappingProxyType(
    {"sum": WeightedSum, "memory": LatestUpdates}
)


def make_aggregator(name: str) -> AbstractAggregator:
    """The aggregator of that name, or of an import path.

    Example:
        >>> make_aggregator("sum")
        WeightedSum()
    """
    if ":" in name:
        made = made_by("aggregator", name)
        if not isinstance(made, AbstractAggregator):
            raise InputError(
                f"aggregator: {name!r} makes a {type(made).__name__}; it must derive from "
                "fedsched.learning.AbstractAggregator"
            )
        return made
    one_of("aggregator", name, AGGREGATORS)
    return AGGREGATORS[name]()


def running_mean(mean: NDArray[np.float64], parameters: Vector, rounds: int) -> NDArray[np.float64]:
    r"""Move a mean of models towards the newest one.

    .. math:: \bar x \leftarrow \bar x + (x - \bar x) / r

    With r = 1, 2, 3, ... it is the mean of all models so far; with r = W from there on, one whose
    weights fall by 1 - 1/W a round, so that it looks back over some W rounds.

    Example:
        >>> mean = np.zeros(1)
        >>> for r, x in enumerate([2.0, 4.0, 9.0], start=1):
        ...     mean = running_mean(mean, np.array([x], np.float32), r)
        >>> mean
        array([5.])
    """
    return mean + (parameters - mean) / rounds
