r"""Pivotal sampling: cohorts by duels, of any probabilities.

Devices meet in pairs. If :math:`q_i + q_j \le 1` one of them drops out and the other goes on with
the sum; otherwise one is chosen and the other goes on with :math:`q_i + q_j - 1`; who, is decided
so that both keep their probabilities. All pairs of a level duel at once, so a million devices take
twenty steps.
"""

import numpy as np
from numpy.typing import NDArray

from fedsched.values import PerDevice

__all__ = ["pivotal", "pivotal_cohorts"]


def pivotal(q: PerDevice, rng: np.random.Generator, *, in_order: bool = False) -> NDArray[np.int64]:
    """The sure devices and the winners of the duels; in order of q, or any, by chance."""
    sure = np.flatnonzero(q >= 1.0)
    undecided = rng.permutation(np.flatnonzero((q > 0.0) & (q < 1.0)))
    if in_order:
        undecided = undecided[np.argsort(q[undecided], kind="stable")]
    chosen = undecided[np.flatnonzero(_duels(q[undecided][None], rng))]
    return np.sort(np.concatenate([sure, chosen])).astype(np.int64)


def pivotal_cohorts(
    q: PerDevice, count: int, rng: np.random.Generator, *, in_order: bool = False
) -> NDArray[np.bool_]:
    """Many cohorts as :func:`pivotal` draws them, one a row."""
    undecided = rng.permutation(np.flatnonzero((q > 0.0) & (q < 1.0)))
    if in_order:
        place = np.tile(undecided[np.argsort(q[undecided], kind="stable")], (count, 1))
    else:
        place = rng.permuted(np.tile(undecided, (count, 1)), axis=1)
    member = np.tile(q >= 1.0, (count, 1))
    np.put_along_axis(member, place, _duels(q[place], rng), axis=1)
    return member


def _duels(q: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Who is chosen by duels of neighbours until one at most is undecided; a row is a cohort."""
    chosen = np.zeros(q.size, dtype=np.bool_)
    place = np.arange(q.size).reshape(q.shape)
    value, left = q.copy(), len(q.T)
    while left > 1:
        pairs = left // 2
        first, second = value[:, 0 : 2 * pairs : 2], value[:, 1 : 2 * pairs : 2]
        total = first + second
        big = total > 1.0
        # Of a small pair the first survives with first / total; of two that exceed 1 together it
        # is chosen at once with (1 - second) / (2 - total). Of two at exactly 1 either may be.
        spread = np.where(big, 2.0 - total, total)
        ahead = np.where(big, 1.0 - second, first) / np.where(spread > 0.0, spread, 1.0)
        first_wins = rng.random(total.shape) < ahead
        one, other = place[:, 0 : 2 * pairs : 2], place[:, 1 : 2 * pairs : 2]
        winner, loser = np.where(first_wins, one, other), np.where(first_wins, other, one)
        chosen[winner[big]] = True
        # Of a small pair the winner goes on with the sum; of a big one the loser with the excess.
        going_on = np.where(big, loser, winner)
        rest = np.where(big, total - 1.0, total)
        place = np.concatenate([going_on, place[:, 2 * pairs :]], axis=1)
        value = np.concatenate([rest, value[:, 2 * pairs :]], axis=1)
        left -= pairs
    if left:
        # Where the sum of q is whole, what is left is 0 or 1 up to rounding.
        chosen[place[rng.random(value.shape) < value]] = True
    return chosen.reshape(q.shape)
