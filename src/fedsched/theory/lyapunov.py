r"""The guarantees of drift plus penalty, with every constant that can be computed.

In round t the policy minimises :math:`V y_0 + \sum_n Z_n (P_n q_n - \bar P)` exactly, where
:math:`y_0 = \frac1N\sum_n 1/q_n + \lambda\sum_n q_n\tau_n`. With :math:`L = \frac12\sum Z_n^2` and
:math:`D = \frac12\sum_n \max (P_nq_n-\bar P)^2`,

.. math:: E[L_{t+1} - L_t] + V E[y_0] \le D + V y^{*}

for channels that are independent over rounds, :math:`y^*` being the best value of any policy that
looks at the channel alone and keeps the budget. The paper's further constant C, for a solver that
may miss the minimum of a round, is 0 here: the minimum is found, with a certificate.
"""

import math

from numpy.typing import ArrayLike

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.errors import InputError

__all__ = [
    "drift_constant",
    "optimality_gap",
    "power_excess",
    "power_excess_of_queue",
    "realised_drift",
]


def drift_constant(*, devices: int, max_power_w: float, budget_w: float) -> float:
    r""":math:`D = \frac N2 \max(P_{\max}-\bar P,\ \bar P)^2`, in watts squared.

    Example:
        >>> drift_constant(devices=2, max_power_w=4.0, budget_w=1.0)
        9.0
    """
    whole_number("devices", devices)
    positive_number("max_power_w", max_power_w)
    positive_number("budget_w", budget_w)
    return 0.5 * devices * max(max_power_w - budget_w, budget_w) ** 2


def realised_drift(expected_power_w: ArrayLike, budget_w: float) -> float:
    r"""The mean over rounds of :math:`\frac12 \sum_n (P_n q_n - \bar P)^2`, in watts squared.

    The drift of a round is at most that, and D is its largest value. So on the rounds of a schedule
    this may stand in the place of D.

    Args:
        expected_power_w: P q of each round and device, shape (rounds, devices).
        budget_w: of the mean power.

    Example:
        >>> realised_drift([[3.0, 1.0], [1.0, 1.0]], 1.0)
        1.0
    """
    spent = finite_array("expected_power_w", expected_power_w, allow_zero=True)
    positive_number("budget_w", budget_w)
    return float(0.5 * ((spent - budget_w) ** 2).sum(axis=1).mean())


def optimality_gap(drift: float, v: float) -> float:
    r"""By how much the long-run mean of :math:`y_0` may exceed the best: :math:`D/V`.

    Example:
        >>> optimality_gap(9.0, 100.0)
        0.09
    """
    positive_number("drift", drift, allow_zero=True)
    return drift / positive_number("v", v)


def power_excess(*, drift: float, v: float, rounds: int, reference: float) -> float:
    r"""By how much a device's mean power over T rounds may exceed its budget, in expectation.

    .. math:: \frac1T\sum_{t<T} E[P_nq_n] - \bar P \le \frac{E Z_n^T}{T}
              \le \sqrt{\frac{2\,(D + V(y_{\mathrm{ref}}-1))}{T}} ,

    by summing the drift from :math:`Z=0` with :math:`y_0 \ge 1`. Any policy that looks at nothing
    but the channel and keeps the budget serves as the reference; uniform sampling does.

    Args:
        drift: D.
        v: V.
        rounds: T.
        reference: mean of y_0 under the reference policy.

    Example:
        >>> power_excess(drift=9.0, v=1.0, rounds=2_600, reference=5.0)
        0.1
    """
    positive_number("drift", drift, allow_zero=True)
    positive_number("v", v)
    whole_number("rounds", rounds)
    if not (math.isfinite(reference) and reference >= 1.0):
        raise InputError(
            f"reference must be a finite number of at least 1, got {reference}; it is a mean of "
            "1/q plus a price"
        )
    return math.sqrt(2.0 * (drift + v * (reference - 1.0)) / rounds)


def power_excess_of_queue(queue: float, rounds: int) -> float:
    r"""The same on one path, without chance: :math:`\frac1T\sum P_nq_n - \bar P \le Z_n^T/T`.

    Example:
        >>> power_excess_of_queue(5.0, 100)
        0.05
    """
    return positive_number("queue", queue, allow_zero=True) / whole_number("rounds", rounds)
