"""Bounded influence: how far any one device, and any one round, can move the model.

Aggregators that compose: updates are cut to a usual length, then added up or averaged without
their extremes, then the step itself is cut.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import number_within, one_of
from fedsched.errors import InputError
from fedsched.learning.aggregation import (
    AbstractAggregator,
    Aggregated,
    AggregatorState,
    LatestUpdates,
    Update,
    Updates,
    Vector,
    WeightedSum,
    finite,
)
from fedsched.learning.updates import norm_of

__all__ = ["BOUNDS", "BoundedInfluence", "TrimmedSum", "bounded", "weighted_median"]

BOUNDS = ("off", "clip", "robust")  # names of what `bounded` makes

_LENGTH = "bounds.length"  # the usual length of an update; 0 before there was a round
_GROWTH = 2.0  # of the usual length, from one round to the next
_BLOCK = 1 << 16  # coordinates that are sorted at a time


def weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    r"""The smallest value with at least half of the weight at or below it; NaN of nothing.

    With weights 1 / (N q) it estimates the median over all N devices, whoever is asked more often.

    Example:
        >>> weighted_median(np.array([1.0, 5.0, 9.0]), np.array([0.1, 0.1, 0.9]))
        9.0
    """
    total = weights.sum()
    if not total > 0.0:
        return math.nan
    order = np.argsort(values, kind="stable")
    place = int(np.searchsorted(np.cumsum(weights[order]), 0.5 * total))
    return float(values[order[min(place, len(order) - 1)]])


@final
@dataclass(frozen=True)
class TrimmedSum(AbstractAggregator):
    r"""Move the model by a weighted sum that leaves out the extremes of every coordinate.

    .. math:: x_i \leftarrow x_i + W \, \frac{\sum_n v_{ni} d_{ni}}{\sum_n v_{ni}},
              \quad W = \sum_n w_n

    In each coordinate i the updates are sorted, and :math:`v_{ni}` is the part of the weight
    :math:`w_n` that lies between the shares ``trim`` and 1 - ``trim`` of W. Whoever has less than
    that share of a round's weight cannot move a coordinate beyond what the others said.

    With ``trim`` = 0 it is the weighted sum. Else its mean is that of full participation only where
    updates spread evenly to both sides; what a few devices alone know counts less. All updates of
    a round are held at once.

    Example:
        >>> deltas = np.array([[1], [2], [3], [-99]], np.float32)
        >>> said = [Update(n, 0.25, delta) for n, delta in enumerate(deltas)]
        >>> TrimmedSum(trim=0.25).step(np.zeros(1, np.float32), {}, said).parameters
        array([1.5], dtype=float32)
    """

    trim: float = 0.2

    biased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        about = "it is the share of weight that is left out at each end"
        number_within("trim", self.trim, "[0, 0.5)", about)

    def step(self, parameters: Vector, state: AggregatorState, updates: Updates) -> Aggregated:
        """The trimmed sum."""
        rejected: list[int] = []
        kept = list(finite(updates, rejected))
        if not kept:
            return Aggregated(parameters, state, tuple(rejected))
        weights = np.array([abs(each.weight) for each in kept])
        deltas = [each.delta if each.weight >= 0.0 else -each.delta for each in kept]
        following = np.empty_like(parameters)
        for start in range(0, len(parameters), _BLOCK):
            part = slice(start, start + _BLOCK)
            block = np.stack([delta[part] for delta in deltas]).astype(np.float64)
            following[part] = parameters[part] + self._sum(block, weights)
        return Aggregated(following, state, tuple(rejected))

    def _sum(self, block: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the rows of a block."""
        total = float(weights.sum())
        order = np.argsort(block, axis=0, kind="stable")
        upper = np.cumsum(weights[order], axis=0)
        lower = upper - weights[order]
        low, high = self.trim * total, (1.0 - self.trim) * total
        kept = np.clip(upper, low, high) - np.clip(lower, low, high)
        summed: NDArray[np.float64] = (kept * np.take_along_axis(block, order, axis=0)).sum(axis=0)
        return summed / (1.0 - 2.0 * self.trim)


@final
@dataclass(frozen=True)
class BoundedInfluence(AbstractAggregator):
    r"""Any aggregator, with bounds on what one device and one round can do.

    .. math:: |d_n| \le a M, \quad |w_n d_n| \le b M, \quad |x_{t+1} - x_t| \le c M

    M is the usual length of an update. It follows each round's median length, weighted by
    :math:`w_n`, and is at most doubled or halved from one round to the next. Weights 1 / (N q) make
    every device count once in it, however often it is chosen, so that liars who are always chosen
    do not own it; where they have half of the weight in a round they double M and no more. The
    first round is measured by itself.

    Whatever is cut keeps its direction. An update of length :math:`r M` with :math:`r > a` is cut
    to :math:`a^2 M / r`: the further it is beyond the bound, the less it counts. Where all updates
    grow, M grows with them.

    Its mean is that of full participation as long as nothing is cut.

    Args:
        inner: what is done with the updates.
        longest: a.
        share: b, so that a rare device with a large weight counts for one usual update at most.
        step_length: c.

    Example:
        >>> rule, x = BoundedInfluence(), np.zeros(1, np.float32)
        >>> said = [Update(n, 0.25, np.array([d], np.float32)) for n, d in enumerate([1, 1, 1, 30])]
        >>> rule.step(x, rule.init(4, 1), said).parameters  # 30 counts for 4 / 30
        array([0.78333336], dtype=float32)
    """

    inner: AbstractAggregator = WeightedSum()
    longest: float = 2.0
    share: float = 1.0
    step_length: float = 2.0

    biased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("longest", "share", "step_length"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"{name} must be positive, got {getattr(self, name)}")

    def init(self, devices: int, dimension: int) -> AggregatorState:
        """No round was seen."""
        return {**self.inner.init(devices, dimension), _LENGTH: np.zeros(1)}

    def step(self, parameters: Vector, state: AggregatorState, updates: Updates) -> Aggregated:
        """The step of the aggregator within, of updates that are cut, and cut itself."""
        usual = float(state[_LENGTH][0])
        if usual == 0.0:
            updates = list(updates)  # this round has no measure but itself
            usual = _median([(norm_of(each.delta), each.weight) for each in updates])
        lengths: list[tuple[float, float]] = []  # of this round's updates, with their weights
        following, kept, rejected = self.inner.step(
            parameters, state, self._cut(updates, usual, lengths)
        )
        step = following.astype(np.float64) - parameters
        share = self.share_of_step(norm_of(step), usual)
        if share < 1.0:
            following = (parameters + step * share).astype(np.float32)
        return Aggregated(following, {**kept, **self.learnt(usual, lengths)}, rejected)

    def usual(self, state: AggregatorState, lengths: list[tuple[float, float]]) -> float:
        """M, for a round with updates of these lengths and weights."""
        return float(state[_LENGTH][0]) or _median(lengths)

    def learnt(self, usual: float, lengths: list[tuple[float, float]]) -> AggregatorState:
        """What is remembered of M after a round."""
        now = _median(lengths)
        after = min(max(now, usual / _GROWTH), usual * _GROWTH) if now > 0.0 else usual
        return {_LENGTH: np.array([after])}

    def share_of(self, norm: float, weight: float, usual: float) -> float:
        """What is left of an update of that length and weight: 1 if it is not cut."""
        longest, weight = self.longest * usual, abs(weight)
        length = norm if norm <= longest else longest * (longest / norm)
        if weight * length > self.share * usual:
            length = self.share * usual / weight
        return length / norm if length < norm < math.inf else 1.0

    def share_of_step(self, length: float, usual: float) -> float:
        """What is left of a step of that length: 1 if it is not cut."""
        most = self.step_length * usual
        return most / length if length > most else 1.0

    def _cut(
        self, updates: Updates, usual: float, lengths: list[tuple[float, float]]
    ) -> Iterator[Update]:
        """The updates, none longer than it may be; their own lengths and weights are noted."""
        for update in updates:
            norm = norm_of(update.delta)
            lengths.append((norm, abs(update.weight)))
            share = self.share_of(norm, update.weight, usual)
            if share < 1.0:
                yield update._replace(delta=update.delta * np.float32(share))
            else:
                yield update


def _median(lengths: list[tuple[float, float]]) -> float:
    """The weighted median of the lengths that are finite; 0 if there are none."""
    finite = [(norm, abs(weight)) for norm, weight in lengths if math.isfinite(norm)]
    return float(np.nan_to_num(weighted_median(*np.array(finite).reshape(-1, 2).T)))


def bounded(name: str, inner: AbstractAggregator) -> AbstractAggregator:
    """An aggregator with bounds of that name.

    "off" leaves it as it is. "clip" cuts updates and steps. "robust" also takes the trimmed sum in
    the place of the weighted one.

    Example:
        >>> bounded("clip", WeightedSum())
        BoundedInfluence(inner=WeightedSum(), longest=2.0, share=1.0, step_length=2.0)
    """
    one_of("training.bounds", name, BOUNDS)
    if name == "off":
        return inner
    if isinstance(inner, LatestUpdates):
        if name == "robust":
            raise InputError(
                "training.bounds: 'robust' takes the place of the weighted sum, and "
                "training.aggregator is 'memory'; use bounds = 'clip' with it"
            )
        return BoundedInfluence(inner, share=math.inf)  # its devices have equal shares
    if name == "robust" and isinstance(inner, WeightedSum):
        return BoundedInfluence(TrimmedSum())
    return BoundedInfluence(inner)
