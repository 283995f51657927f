r"""Nested cohorts whose weights add up to one in every round, and which take the least time.

Uploads are in parallel, and the slowest of a cohort ends a round. Devices are in tiers, from the
fastest to the slowest. A round of kind k, which happens with probability :math:`p_k`, waits for
tier k. Whoever is no slower may take part, with a weight :math:`v_{kn} \ge 0`. Two things must
hold:

.. math:: \sum_n v_{kn} = 1 \text{ for every } k, \qquad \sum_k p_k v_{kn} = \frac1N
          \text{ for every } n .

So the step of a round never changes its length, and the model follows the average of all devices.
The noise of a round is :math:`Q = N \sum_k p_k \sum_n v_{kn}^2`, between 1 (all, each time) and N
(one at a time), and the mean wait is :math:`\tau = \sum_k p_k t_k`. With a price :math:`\lambda`
of time, :math:`Q + \lambda \tau` is convex in :math:`p_k v_{kn}`. Its multipliers give

.. math:: v_{kn} = \max(a_n + b_k,\, 0), \qquad
          N \Bigl( \sum_n v_{kn}^2 - 2 b_k \Bigr) = \lambda t_k ,

which is one quadratic equation for :math:`a_k` after the other, from the fastest tier on. Two tiers
share all rounds, and are one tier, where a would not increase. And :math:`2 \sum_n a_n` is a bound
from below on what any law can reach: it certifies the answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedsched.values import PerDevice

__all__ = ["Nested", "Tiers", "least_time"]

_TIERS = 32  # more times than that are put together with their neighbours
_STEPS = 40  # of the fixed point; each lowers the time
_CLOSE = 1e-4  # of a price to the next: the time is flat there
_HALVINGS = 60  # of the price that keeps a law within its bounds
_DEAREST = 1e8  # of a wait for the slowest, in N: beyond it all is wait, and digits are lost

_NO_TIME_S = 1e-200


@dataclass(frozen=True, kw_only=True, eq=False)
class Tiers:
    """Devices from the fastest to the slowest, those of like times together."""

    order: NDArray[np.int64]  # of the devices
    size: list[int]  # of each tier
    time_s: list[float]  # of each tier's slowest, ascending

    @classmethod
    def of(cls, time_s: PerDevice, least: int = 1) -> Self:
        """Tiers of equal times; the first one has at least so many devices."""
        order = np.argsort(time_s, kind="stable")
        rising = time_s[order]
        ends = np.flatnonzero(np.diff(rising, append=np.inf) > 0.0) + 1
        if len(ends) > _TIERS:
            steps = np.geomspace(max(rising[0], rising[-1] * 1e-9), rising[-1], _TIERS + 1)[1:]
            steps[-1] = rising[-1]
            ends = np.unique(np.searchsorted(rising, steps, side="right"))
        ends = np.unique(np.maximum(ends, min(least, len(order))))
        ends = ends[ends > 0]
        size = np.diff(ends, prepend=0).tolist()
        return cls(order=order, size=size, time_s=rising[ends - 1].tolist())

    @property
    def devices(self) -> int:
        """N."""
        return len(self.order)


@dataclass(frozen=True, kw_only=True, eq=False)
class Nested:
    """A law of cohorts: kinds of rounds, one for each tier that was left, with their weights."""

    order: NDArray[np.int64]  # of the devices, from the fastest to the slowest
    ends: NDArray[np.int64]  # of each tier in that order
    chance: NDArray[np.float64]  # p of each kind of round
    weight: NDArray[np.float64]  # v, a row for each kind and a column for each tier
    time_s: NDArray[np.float64]  # that a kind of round waits
    bound: float  # no law has a smaller Q + price * mean_s

    @property
    def inverse(self) -> float:
        """Q, the mean of the sum of squared weights, times N."""
        size = np.diff(self.ends, prepend=0)
        return float(len(self.order) * (self.chance @ (self.weight**2 @ size)))

    @property
    def mean_s(self) -> float:
        """How long a round waits on average."""
        return float(self.chance @ self.time_s)

    @property
    def smallest(self) -> int:
        """How many devices the smallest cohort has."""
        size = np.diff(self.ends, prepend=0)
        return int(((self.weight > 0.0) @ size)[self.chance > 0.0].min())

    @property
    def probability(self) -> PerDevice:
        """How often each device takes part."""
        share = self.chance @ (self.weight > 0.0)
        q = np.empty(len(self.order))
        q[self.order] = np.minimum(np.repeat(share, np.diff(self.ends, prepend=0)), 1.0)
        return q

    def cohort(self, u: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The devices, ascending, and their weights in the round that a number in [0, 1) draws."""
        drawn = np.searchsorted(self.chance.cumsum(), u * self.chance.sum(), side="right")
        kind = int(np.flatnonzero(self.chance)[-1]) if drawn >= len(self.chance) else int(drawn)
        weight = np.repeat(self.weight[kind], np.diff(self.ends, prepend=0))
        taking = weight > 0.0
        device = self.order[taking]
        place = np.argsort(device)
        return device[place], weight[taking][place]


def least_time(
    tiers: Tiers, *, kappa: float, overhead_s: float, most: float, least: int
) -> tuple[Nested, float]:
    r"""The law with the least :math:`(\kappa + Q)(c + \tau)`, within bounds, and its price of time.

    Args:
        tiers: the devices.
        kappa: of the law of rounds, at least 0.
        overhead_s: c, of a round, whoever takes part.
        most: Q is at most this.
        least: so many devices take part in every round.
    """
    law, price = _law(tiers, 0.0), 0.0
    dearest = _DEAREST * tiers.devices / max(tiers.time_s[-1], _NO_TIME_S)
    for _ in range(_STEPS):
        before, wait_s = price, max(overhead_s + law.mean_s, _NO_TIME_S)
        price = min((kappa + law.inverse) / wait_s, dearest)
        law = _law(tiers, price)
        if abs(price - before) <= _CLOSE * price:
            break

    def within(found: Nested) -> bool:
        return found.inverse <= most and found.smallest >= min(least, tiers.devices)

    return (law, price) if within(law) else _bounded(tiers, price, within)


def _bounded(tiers: Tiers, price: float, within: Callable[[Nested], bool]) -> tuple[Nested, float]:
    """The law of the largest price that is within its bounds: to bound Q is to give it a price."""
    low, high, best = 0.0, price, _law(tiers, 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        law = _law(tiers, middle)
        if within(law):
            low, best = middle, law
        else:
            high = middle
        if high - low <= _CLOSE * high:
            break
    return best, low


@dataclass(frozen=True, kw_only=True)
class _Step:
    """A tier as it came out, with what the next one needs: sums over the tiers with a weight."""

    time_s: float
    size: int
    a: float
    b: float
    first: int  # the fastest tier with a weight in rounds of this kind
    count: float  # of the devices from that tier to this one
    total: float  # of their a
    squares: float  # of their a


_START = _Step(time_s=0.0, size=0, a=-math.inf, b=0.0, first=0, count=0.0, total=0.0, squares=0.0)


def _law(tiers: Tiers, price: float) -> Nested:
    """The best law for a price of a second."""
    devices, done = tiers.devices, list[_Step]()
    for time_s, size in zip(tiers.time_s, tiers.size, strict=True):
        step = _next(done, time_s, size, price / devices)
        while done and step.a <= done[-1].a:  # they share all rounds
            size += done.pop().size
            step = _next(done, time_s, size, price / devices)
        done.append(step)
    a, b = np.array([each.a for each in done]), np.array([each.b for each in done])
    size_of = np.array([each.size for each in done])
    weight = np.tril(np.maximum(a + b[:, None], 0.0))
    weight /= (weight @ size_of)[:, None]  # what rounding has left
    chance, left = np.zeros(len(done)), np.full(len(done), 1.0 / devices)
    for kind in range(len(done) - 1, -1, -1):
        chance[kind] = max(left[kind] / weight[kind, kind], 0.0)
        left = left - chance[kind] * weight[kind]
    return Nested(
        order=tiers.order,
        ends=size_of.cumsum(),
        chance=chance,
        weight=weight,
        time_s=np.array([each.time_s for each in done]),
        bound=float(2.0 * (size_of @ a)),
    )


def _next(done: list[_Step], time_s: float, size: int, price: float) -> _Step:
    """The equation of a tier behind others, for a price of a second for each device."""
    before = done[-1] if done else _START
    first, count = before.first, before.count + size
    total, squares = before.total, before.squares
    while True:
        rest = 1.0 - total
        square, line = size * (1.0 - size / count), 2.0 * rest * size / count
        a = _root(square, line, squares - rest * rest / count - price * time_s)
        b = (rest - size * a) / count
        if first == len(done) or done[first].a + b > 0.0:
            break
        gone = done[first]  # too fast to have a weight in so slow a round
        count -= gone.size
        total -= gone.size * gone.a
        squares -= gone.size * gone.a**2
        first += 1
    if first == len(done):  # by itself, without what differences have left
        count, total, squares = float(size), 0.0, 0.0
        a = 0.5 * (price * time_s + 1.0 / size)
        b = 1.0 / size - a
    return _Step(
        time_s=time_s, size=size, a=a, b=b, first=first, count=count,
        total=total + size * a, squares=squares + size * a * a,
    )  # fmt: skip


def _root(square: float, line: float, rest: float) -> float:
    """The larger root of a quadratic that is negative between its roots, or linear."""
    if square <= 0.0:
        return -rest / line
    root = math.sqrt(max(line * line - 4.0 * square * rest, 0.0))
    return (root - line) / (2.0 * square) if line <= 0.0 else -2.0 * rest / (line + root)
