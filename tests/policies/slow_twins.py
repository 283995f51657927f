"""Slow twins: the obvious code that the fast one must agree with."""

import math

import numpy as np


def ward_groups(distance, units, limit):
    """The largest subtrees of Ward's tree whose units stay within a limit; single devices may not.

    Distances are merged by Lance and Williams' formula on their squares.
    """
    squared = distance**2
    np.fill_diagonal(squared, np.inf)
    members: dict[int, list[int]] = {n: [n] for n in range(len(units))}
    whole = dict(members)  # subtrees that fit and may still grow
    grown: list[list[int]] = []
    while len(members) > 1:
        i, j = divmod(int(np.argmin(squared)), len(units))
        if i > j:
            i, j = j, i
        ni, nj = len(members[i]), len(members[j])
        for k in members:
            if k not in (i, j):
                nk = len(members[k])
                joined = (ni + nk) * squared[i, k] + (nj + nk) * squared[j, k] - nk * squared[i, j]
                squared[i, k] = squared[k, i] = joined / (ni + nj + nk)
        squared[j, :] = squared[:, j] = np.inf
        merged = members[i] + members.pop(j)
        members[i] = merged
        if i in whole and j in whole and sum(int(units[n]) for n in merged) <= limit:
            whole[i] = merged
            del whole[j]
        elif i in whole or j in whole:
            # What cannot grow any further is set aside.
            grown += [whole.pop(key) for key in (i, j) if key in whole]
    return grown + list(whole.values())


def inclusion_probabilities(rate, count):
    """How likely each place is among the first ``count`` of successive draws, 1 < count < N."""
    rate = rate / rate.max()
    last = math.log(25.0 / np.sort(rate)[::-1][count])
    step = min(0.3, 0.7 / math.sqrt(count))
    time = np.exp(np.arange(-25.0, last + step, step))
    came = -np.expm1(-np.outer(time, rate))
    fewer = fewer_of_the_others(came, count)
    density = np.outer(time, rate) * (1.0 - came)
    return np.minimum(step * (density * fewer).sum(axis=0), 1.0)


def fewer_of_the_others(came, count):
    """The chance that of all coins but each one fewer than ``count`` show heads, by rows."""
    places = came.shape[1]
    exactly = np.zeros((len(came), places + 1))
    exactly[:, 0] = 1.0
    for coin in came.T[:, :, None]:
        exactly[:, 1:] = exactly[:, 1:] * (1.0 - coin) + exactly[:, :-1] * coin
        exactly[:, :1] *= 1.0 - coin
    at_most = np.cumsum(exactly, axis=1)[:, :, None]
    # With C for the others: at_most[k] = (1 - coin) C[k] + coin C[k - 1].
    rare = came <= 0.5
    up = at_most[:, 0] / np.where(rare, 1.0 - came, 1.0)
    for k in range(1, count):
        up = (at_most[:, k] - came * up) / np.where(rare, 1.0 - came, 1.0)
    # Most rows have no such coin, or so many that count others have surely come.
    rows = ~rare.all(axis=1) & (at_most[:, count - 1, 0] > 1e-18)
    coin, whole = came[rows], at_most[rows]
    down = np.ones_like(coin)
    for k in range(places - 1, count - 1, -1):
        down = (whole[:, k] - (1.0 - coin) * down) / np.where(rare[rows], 1.0, coin)
    fewer = np.where(rare, up, 0.0)
    fewer[rows] = np.where(rare[rows], up[rows], down)
    return np.clip(fewer, 0.0, 1.0)
