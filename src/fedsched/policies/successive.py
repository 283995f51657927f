"""Successive sampling: draws without replacement, each in proportion to the weights left."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import finite_array, whole_number
from fedsched.values import PerDevice

__all__ = ["des_raj_weights", "inclusion_probabilities", "successive"]

Rows: TypeAlias = NDArray[np.float64]

_NOTHING = 25.0  # e-folds beyond which nothing is left to integrate


def successive(weight: PerDevice, count: int, chance: PerDevice) -> NDArray[np.int64]:
    """Places drawn one after the other, each in proportion to the weights that are left.

    The smallest of exponential times with these rates: place n comes first with probability
    weight[n] / sum(weight), and so on. Places of weight 0 are never drawn.

    Example:
        >>> successive(np.array([0.0, 1.0, 0.0]), 2, np.array([0.3, 0.2, 0.1])).tolist()
        [1]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        time = -np.log1p(-chance) / weight
    time[weight == 0.0] = np.inf
    count = min(count, int((weight > 0.0).sum()))
    return np.argsort(time, kind="stable")[:count].astype(np.int64)


def inclusion_probabilities(weight: PerDevice, count: int) -> PerDevice:
    r"""How likely each place is among the first ``count`` of successive draws.

    With the exponential times of :func:`successive`, place n is drawn if fewer than ``count``
    others come before it:

    .. math:: q_n = \int_0^\infty w_n e^{-w_n t} \;
              P\Big(\sum_{j \ne n} 1[T_j < t] < m\Big) \, dt .

    The integral is taken over log t, where the trapezoid rule is exact to rounding. The number of
    arrivals is a sum of independent coins. Of all coins but one its distribution follows from
    that of all where the coin is below one half; the few above are left out one by one.

    Example:
        >>> inclusion_probabilities(np.array([1.0, 1.0, 2.0]), 1).tolist()
        [0.25, 0.25, 0.5]
        >>> inclusion_probabilities(np.array([1.0, 1.0, 1.0]), 2).round(9).tolist()
        [0.666666667, 0.666666667, 0.666666667]
    """
    whole_number("count", count)
    rate = finite_array("weight", weight, allow_zero=False)
    places = len(rate)
    if count >= places:
        return np.ones(places)
    if count == 1:
        return np.asarray(rate / rate.sum())
    rate = rate / rate.max()
    # After this, count others have come whichever place is left out.
    last = math.log(_NOTHING / np.sort(rate)[::-1][count])
    # The count-th arrival is spread over about 1 / sqrt(count) in log time.
    step = min(0.3, 0.7 / math.sqrt(count))
    time = np.exp(np.arange(-_NOTHING, last + step, step))
    came = -np.expm1(-np.outer(time, rate))
    fewer = _fewer_of_the_others(came, count)
    density = np.outer(time, rate) * (1.0 - came)
    return np.asarray(np.minimum(step * (density * fewer).sum(axis=0), 1.0))


def _fewer_of_the_others(came: Rows, count: int) -> Rows:
    """The chance that of all coins but each one fewer than ``count`` show heads, by rows.

    Time is of order (rows x coins x count): no more than ``count`` heads are ever counted.
    """
    nobody = np.zeros((len(came), count))
    nobody[:, 0] = 1.0
    at_most = np.cumsum(_tossed(nobody, came), axis=1)[:, :, None]
    # With C for the others: at_most[k] = (1 - coin) C[k] + coin C[k - 1].
    rare = came <= 0.5
    fewer = at_most[:, 0] / np.where(rare, 1.0 - came, 1.0)
    for k in range(1, count):
        fewer = (at_most[:, k] - came * fewer) / np.where(rare, 1.0 - came, 1.0)
    # In most rows no coin is above one half, or so many are that count others have surely come.
    # Elsewhere at most about 2 count are.
    open_rows = ~rare.all(axis=1) & (at_most[:, -1, 0] > 1e-18)
    frequent = ~rare[open_rows].all(axis=0)
    left_out = np.zeros_like(came)
    left_out[np.ix_(open_rows, frequent)] = _leaving_out(
        _tossed(nobody[open_rows], came[np.ix_(open_rows, ~frequent)]),
        came[np.ix_(open_rows, frequent)],
    )
    return np.clip(np.where(rare, fewer, left_out), 0.0, 1.0)


def _tossed(exactly: Rows, coins: Rows) -> Rows:
    """The chances of 0, 1, ... heads, by rows, after more coins: one a column."""
    exactly = exactly.copy()
    for coin in coins.T[:, :, None]:
        exactly[:, 1:] = exactly[:, 1:] * (1.0 - coin) + exactly[:, :-1] * coin
        exactly[:, :1] *= 1.0 - coin
    return exactly


def _leaving_out(exactly: Rows, coins: Rows) -> Rows:
    """The chance of fewer heads than are counted, with all of some more coins but each one.

    Coins before it are tossed from the left, coins after it from the right: sums of products of
    what is positive, so nothing cancels however likely heads are.
    """
    before = [exactly]
    for coin in coins.T[:, :, None]:
        before.append(_tossed(before[-1], coin))
    after = np.zeros_like(exactly)
    after[:, 0] = 1.0
    fewer = np.empty_like(coins)
    for place in range(coins.shape[1] - 1, -1, -1):
        at_most = np.cumsum(after, axis=1)
        fewer[:, place] = (before[place] * at_most[:, ::-1]).sum(axis=1)
        after = _tossed(after, coins[:, place : place + 1])
    return fewer


def des_raj_weights(weight: PerDevice, drawn: NDArray[np.int64]) -> PerDevice:
    r"""Weights by which a sum over successive draws is unbiased for the sum over all (Des Raj).

    Draw j, of probability :math:`p^{(j)}` among what was left, estimates the whole by
    :math:`Y_j = \sum_{i<j} u_i + u_j / p^{(j)}`. The mean of the m estimates gives the i-th drawn
    the weight :math:`(1 / p^{(i)} + m - i) / m`.

    Example:
        >>> des_raj_weights(np.array([0.5, 0.25, 0.25]), np.array([0, 2])).tolist()
        [1.5, 1.0]
    """
    own = weight[drawn]
    rest = np.delete(weight, drawn).sum()
    left = rest + np.cumsum(own[::-1])[::-1]
    places = np.arange(1.0, len(drawn) + 1)
    return np.asarray((left / own + len(drawn) - places) / max(len(drawn), 1))
