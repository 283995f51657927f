r"""Kappa of the law of rounds, from what the server sees while training runs.

Rounds to a target grow as :math:`1 + Q / \kappa`. At any time t the loss is about :math:`d(t)` plus
a floor of noise in proportion to Q, and :math:`\kappa = t |d'(t)| / c` with c the floor's share of
Q. With :math:`M = \sum_n p_n \|\Delta_n\|^2` the mean square of an update and :math:`\eta` the
length of a step, :math:`c = M / (4 \eta N)`. Over the last T of 2T rounds the model made a way D
along the gradient, so the loss fell by :math:`\|D\|^2 / (\eta T)`, and :math:`\ln t` grew by ln 2.
The step's length cancels:

.. math:: \kappa = \frac{4 N \|D\|^2}{T M \ln 2} ,

where the square is free of the noise of sampling (see ``learning.course``). It is measured whenever
the rounds have doubled. What is left of the noise has a standard deviation of about Q, and before
the first measurement kappa is known to some 2N. Kappa itself changes by about half from one
measurement to the next. A Kalman filter weighs old and new by these three.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedsched.policies.base import PolicyState
from fedsched.values import Experience

__all__ = ["KAPPA_STATE", "begin_kappa", "kappa_of", "learn_kappa"]

KAPPA_STATE = frozenset({"kappa", "square_norm"})
_FIRST = 8  # rounds of a window, from which on the estimate is more than luck
_LEAST, _MOST = 0.1, 100.0  # of kappa, in devices
_PRIOR = 2.0  # standard deviation of kappa about N before it was measured, in devices
_NOISE = 1.0  # of a measurement, in Q
_CHANGE = 0.5  # of kappa from one measurement to the next, in kappa


def begin_kappa() -> dict[str, NDArray[np.float64]]:
    """Nothing is known, and nothing was seen."""
    return {
        "kappa": np.full(2, np.nan),  # and its variance
        "square_norm": np.zeros(2),  # its sum, and rounds
    }


def kappa_of(state: PolicyState, given: float | None, devices: int) -> float:
    """The one that was given, or has been learnt, or the number of devices."""
    if given is not None:
        return given
    learnt = float(state["kappa"][0])
    return float(devices) if math.isnan(learnt) else learnt


def learn_kappa(state: PolicyState, seen: Experience, devices: int, inverse: float) -> PolicyState:
    """The state after a cohort was trained, where Q is ``inverse``."""
    total, rounds = state["square_norm"]
    total += math.fsum((seen.weight * seen.norm**2).tolist())
    rounds += 1.0
    if math.isnan(seen.course):
        return {**state, "square_norm": np.array([total, rounds])}
    learnt = {**state, "square_norm": np.zeros(2)}
    if rounds >= _FIRST and total > 0.0:
        # T M is the sum of the squares over the T rounds.
        measured = 4.0 * devices * seen.course / (total * math.log(2.0))
        before, variance = state["kappa"]
        if math.isnan(before):
            before, variance = float(devices), (_PRIOR * devices) ** 2
        else:
            variance += (_CHANGE * before) ** 2
        gain = variance / (variance + (_NOISE * inverse) ** 2)
        kappa = before + gain * (measured - before)
        kappa = min(max(kappa, _LEAST * devices), _MOST * devices)
        learnt["kappa"] = np.array([kappa, (1.0 - gain) * variance])
    return learnt
