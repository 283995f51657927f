r"""Who takes part where every node has a link of its own and the slowest of a cohort ends a round.

Let :math:`t_1 \le \dots \le t_N` be what the nodes take, and q not increase with t. If cohorts are
nested, that is one :math:`u \sim U(0, 1)` a round and everybody with :math:`q_n > u`, then the
slowest node of a cohort is n or slower with probability :math:`q_n`. So a round takes

.. math:: \mathbb E\, T = c + \sum_n (t_n - t_{n-1})\, q_n , \qquad t_0 = 0

seconds on average, with c for what is not the nodes': linear in q, and no other way to draw with
these probabilities takes less. Slow nodes come together, and wait for each other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.policies import AbstractPolicy, PolicyState
from fedsched.policies.base import nobody
from fedsched.policies.system import reachable_gains
from fedsched.values import Cohort, Decision, Observation, PerDevice, Plan, spread

__all__ = ["Paced", "slope_blocks"]

_STEPS = 40  # of the fixed point; each lowers the time
_HALVINGS = 60  # of the price that keeps Q within its bound
# The wider the sums, the shorter the rounds and the lower the accuracy after so many of them: see
# docs/flower.md for what was measured.
MOST_WEIGHT = 1.35  # that the weights of a round add up to
SURE = 0.7  # of the nodes: the fastest, who always take part


@final
@dataclass(frozen=True, kw_only=True)
class Paced(AbstractPolicy):
    r"""Least time to a target with nested cohorts, at a step size that was chosen for FedAvg.

    Rounds to a target grow as :math:`1 + Q / \kappa` with :math:`Q = \frac1N \sum_n 1 / q_n`. So
    :math:`(\kappa + Q)\, \mathbb E\, T` is minimised over all q that do not increase with t:

    .. math:: q_n = \sqrt{\frac{1}{N \lambda s_n}} \text{ within its bounds}, \qquad
              \lambda = \frac{\kappa + Q}{\mathbb E\, T} ,

    where :math:`s_n` is the slope of the greatest convex minorant of t over its ranks, from the
    slowest node on that always takes part.

    The weights 1/(N q) of a cohort add up to at most Q, when all take part, and to at least the
    share of nodes that always do. So Q is at most 1.35, by a lower lambda, and the fastest 0.7 of
    the nodes have q = 1: the weights of *every* round add up to between 0.7 and 1.35.

    Attributes:
        bits: of an update; what it observes are rates in bit/s.
        work_s: what each node takes before it uploads: its download and its computation.
        overhead_s: c, of a round, whoever takes part.
        kappa: of the law of rounds; N if None.
        least: so many nodes take part in every round.
    """

    bits: float
    work_s: PerDevice = field(compare=False)
    overhead_s: float = 0.0
    kappa: float | None = None
    least: int = 1

    def __post_init__(self) -> None:
        positive_number("bits", self.bits)
        positive_number("overhead_s", self.overhead_s, allow_zero=True)
        finite_array("work_s", self.work_s, allow_zero=True)
        whole_number("least", self.least, least=0)
        if self.kappa is not None:
            positive_number("kappa", self.kappa)

    @property
    def name(self) -> str:
        """What tables and figures call it: it is the self-tuning policy of parallel links."""
        return "auto"

    def init(self, devices: int) -> PolicyState:
        """It remembers nothing: what nodes take is measured."""
        whole_number("devices", devices)
        return {}

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Times, probabilities, and one draw for all."""
        devices = len(observed.gain)
        reachable, rate = reachable_gains(observed.gain)
        if len(rate) == 0:
            return nobody(devices), state
        upload_s = self.bits / rate
        q = self.probability(self.work_s[reachable] + upload_s)
        probability = spread(q, reachable, devices, 0.0)
        u = observed.luck.stream("sampling").random()
        chosen = np.flatnonzero(probability > u)
        plan = Plan(  # nobody sets a power
            power_w=np.zeros(len(rate)), bits=self.bits, upload_s=upload_s, compute_s=self.work_s
        )
        decision = Decision(
            plan=plan.among(reachable, devices),
            probability=probability,
            cohort=Cohort(device=chosen, weight=1.0 / (devices * probability[chosen])),
        )
        return decision, state

    def probability(self, time_s: PerDevice) -> PerDevice:
        """The q of nodes that take so long."""
        devices = len(time_s)
        order = np.argsort(time_s, kind="stable")
        gap_s = np.diff(time_s[order], prepend=0.0)
        sure = min(max(math.ceil(SURE * devices), self.least, 1), devices)
        slope_s = slope_blocks(gap_s[sure:])
        kappa = float(devices) if self.kappa is None else self.kappa

        def at(lam: float) -> PerDevice:
            q = np.ones(devices)
            with np.errstate(divide="ignore"):
                q[sure:] = np.minimum(np.sqrt(1.0 / (devices * lam * slope_s)), 1.0)
            return q

        q, lam = np.ones(devices), 0.0
        for _ in range(_STEPS):
            lam = (kappa + _inverse(q)) / (self.overhead_s + float((gap_s * q).sum()))
            q = at(lam)
        back = np.empty(devices)
        back[order] = q if _inverse(q) <= MOST_WEIGHT else at(_bounded(at, lam))
        return back


def _inverse(q: PerDevice) -> float:
    return float((1.0 / q).mean())


def _bounded(at: Callable[[float], PerDevice], lam: float) -> float:
    """The largest price of a second, up to ``lam``, with which Q is within its bound.

    It is the best there: to keep Q within a bound is to give it a price, as to lower lambda is.
    """
    low, high = 0.0, lam
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _inverse(at(middle)) <= MOST_WEIGHT else (low, middle)
    return low if low > 0.0 else lam * 2.0**-_HALVINGS


def slope_blocks(gap: NDArray[np.float64]) -> NDArray[np.float64]:
    """The slopes of the greatest convex minorant of the cumulative sum: neighbours are pooled.

    Example:
        >>> slope_blocks(np.array([1.0, 3.0, 1.0, 4.0])).tolist()
        [1.0, 2.0, 2.0, 4.0]
    """
    blocks: list[tuple[float, int]] = []  # sum and number of the gaps that share a slope
    for each in gap.tolist():
        total, count = each, 1
        while blocks and blocks[-1][0] * count >= total * blocks[-1][1]:
            before, more = blocks.pop()
            total, count = total + before, count + more
        blocks.append((total, count))
    return np.repeat([total / count for total, count in blocks], [count for _, count in blocks])
