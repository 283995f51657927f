"""Covariances of the designs, exactly."""

import itertools

import numpy as np

from fedsched.theory.quadratics import Participation


def independent(q):
    return Participation(probability=q, covariance=np.diag(q * (1.0 - q)))


def fixed_size(q):
    """Random-order pivotal sampling, by walking through every order and every duel."""
    devices = len(q)
    joint, orders = np.zeros((devices, devices)), 0
    sure = tuple(np.flatnonzero(q >= 1.0).tolist())
    for order in itertools.permutations(np.flatnonzero(q < 1.0).tolist()):
        orders += 1
        for chance, chosen in _outcomes([(n, q[n]) for n in order], sure, 1.0):
            joint[np.ix_(chosen, chosen)] += chance
    joint /= orders
    assert np.abs(np.diag(joint) - q).max() < 1e-9
    return Participation(probability=q, covariance=joint - np.outer(q, q))


def _outcomes(waiting, chosen, chance):
    """Chances and members of the samples that duels of neighbours, level by level, may end in."""
    if chance == 0.0:
        return
    if len(waiting) <= 1:
        yield chance, [*chosen, *(n for n, value in waiting if value > 0.5)]
        return
    pairs = list(zip(waiting[0::2], waiting[1::2], strict=False))
    odd = [waiting[-1]] if len(waiting) % 2 else []
    for wins in itertools.product((True, False), repeat=len(pairs)):
        now, going_on, winners = chance, [], []
        for first_wins, ((i, a), (j, b)) in zip(wins, pairs, strict=True):
            total = a + b
            if total > 1.0:
                ahead = (1.0 - b) / (2.0 - total)
                winner, loser = (i, j) if first_wins else (j, i)
                winners.append(winner)
                going_on.append((loser, total - 1.0))
            else:
                ahead = a / total if total > 0.0 else 0.5
                going_on.append((i if first_wins else j, total))
            now *= ahead if first_wins else 1.0 - ahead
        yield from _outcomes([*going_on, *odd], (*chosen, *winners), now)
