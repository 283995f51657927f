"""Drift plus penalty: the paper's policy, and what goes beyond the paper."""

import logging
from dataclasses import dataclass, field
from typing import final

import numpy as np

from fedsched.core.checks import positive_number, whole_number
from fedsched.core.power import power_unchecked
from fedsched.core.solution import Status
from fedsched.core.uplink import Uplink
from fedsched.errors import InputError, UnknownNameError
from fedsched.policies.base import (
    AbstractPolicy,
    PolicyState,
    check_shares,
    nobody,
    reachable_gains,
    shares_of,
    spread,
)
from fedsched.policies.designs import AbstractDesign
from fedsched.policies.powers import AbstractPower, check_size, fill_queue
from fedsched.policies.queues import advance_queue
from fedsched.values import Cohort, Decision, PerDevice

__all__ = ["STARTS", "Lyapunov"]

STARTS = ("empty", "budget")

_log = logging.getLogger(__name__)


@final
@dataclass(frozen=True, kw_only=True)
class Lyapunov(AbstractPolicy):
    r"""Drift plus penalty: the paper's policy, with any of the three designs.

    Each round it minimises, given the queues Z,

    .. math:: V \sum_n \Big( \frac{N p_n^2}{q_n} + \lambda \tau_n(P_n) q_n \Big)
              + \sum_n Z_n P_n q_n ,

    first over the powers (Theorem 2, independent of q), then over the probabilities its design
    allows, with weight :math:`a_n = V N p_n^2` and price
    :math:`b_n = V \lambda \tau_n + Z_n P_n`. With equal data :math:`a_n = V / N`.

    Attributes:
        design: how cohorts are drawn.
        uplink: the link that is shared.
        v: V, the weight of the objective against the queues.
        lam: lambda, the price of a second of airtime against the convergence term 1/q.
        budget_w: the average power each device may spend, Pbar.
        floor: a least probability for every reachable device.
        data_weight: p, each device's share of the data; equal shares if None.
        as_printed: Theorem 2 with the paper's ln(2)^2.
        start: "empty" queues as in the paper, or "budget": the queue at which Theorem 2 gives, at
            the first gain of each device, the power that the uniform policy would have. An empty
            queue sends at the peak, and a device that is almost sure to take part then carries
            the peak in its queue for long.
        scale_v: take v as that of lambda = 100, and V = v * 100 / lambda: the powers depend on
            V lambda / Z alone, so one v then serves every lambda.
        power: decides the powers in place of Theorem 2 if given; prices keep their queues.
    """

    design: AbstractDesign
    uplink: Uplink
    v: float
    lam: float
    budget_w: float
    floor: float = 0.0
    data_weight: PerDevice | None = field(default=None, compare=False)
    as_printed: bool = False
    start: str = "empty"
    scale_v: bool = False
    power: AbstractPower | None = None

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise UnknownNameError("start", self.start, STARTS)
        positive_number("v", self.v)
        positive_number("lam", self.lam)
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", check_shares(self.data_weight))
        if not 0.0 <= self.floor < 1.0:
            raise InputError(f"qmin must lie in [0, 1), got {self.floor}; it is a probability")
        if self.power is not None and "queue" in self.power.init(1):
            # Two queues under one name: the prices would be those of the wrong one, or NaN.
            raise InputError(
                f"power: {type(self.power).__name__} keeps queues of its own, and lyapunov has "
                "them already; give None for the powers of Theorem 2, or a rule without queues "
                "such as TrackedPower"
            )

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "lyapunov"

    def init(self, devices: int) -> PolicyState:
        """Empty queues, or NaN for those that begin with the first gain of their device."""
        whole_number("devices", devices)
        begin = np.zeros(devices) if self.start == "empty" else np.full(devices, np.nan)
        return {"queue": begin, **(self.power.init(devices) if self.power else {})}

    def _start_w(self, devices: int) -> float:
        q, _ = self.design.uniform(devices)
        return min(self.uplink.max_power_w, self.budget_w / q)

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Powers by Theorem 2, then the probabilities of the design; the queues move on."""
        queue = state["queue"]
        check_size(gain, queue)
        reachable, g = reachable_gains(gain)
        everyone = len(g) == len(gain)
        v = self.v * 100.0 / self.lam if self.scale_v else self.v
        cost = v * self.lam * self.uplink.bits / self.uplink.bandwidth_hz
        if self.start == "budget":
            # The printed power is that of a cost times ln 2, and so is the queue that gives it.
            printed = float(np.log(2.0)) if self.as_printed else 1.0
            queue = fill_queue(
                queue, gain, self._start_w(len(gain)), cost=cost * printed,
                noise=self.uplink.noise_w,
            )  # fmt: skip
        if len(g) == 0:
            decision = nobody(len(gain))
            return decision, self._next(gain, queue, decision, state)
        z = queue if everyone else queue[reachable]
        if self.power is None:
            log2_factor = float(np.log(2.0)) ** (2 if self.as_printed else 1)
            power = power_unchecked(
                g, z, cost, self.uplink.noise_w, self.uplink.max_power_w, log2_factor
            )
        else:
            power = self.power.power_w(gain, state)[reachable]
        price = (v * self.lam) * self.uplink.airtime_s(g, power) + z * power
        weight: float | PerDevice = v / len(gain)
        if self.data_weight is not None:
            weight = v * len(gain) * shares_of(self.data_weight, len(gain))[reachable] ** 2
        solution = self.design.solve(price, weight, self.floor)
        probability = spread(solution.probability, reachable, everyone)
        power_w = spread(power, reachable, everyone)
        decision = Decision(
            probability=probability,
            draw_probability=None
            if solution.draw_probability is None
            else spread(solution.draw_probability, reachable, everyone),
            power_w=power_w
            if self.power is None
            else self.power.settled(power_w, state, probability),
            residual=float(solution.residual),
        )
        if solution.status is not Status.OPTIMAL:
            # A run of thousands of rounds must survive one that is hard; the log has its residual.
            _log.warning("a round's probabilities are not certified: %s", solution.status.value)
        return decision, self._next(gain, queue, decision, state)

    def _next(
        self, gain: PerDevice, queue: PerDevice, decision: Decision, state: PolicyState
    ) -> PolicyState:
        moved = advance_queue(
            queue,
            power_w=decision.power_w,
            probability=decision.probability,
            budget_w=self.budget_w,
        )
        if self.power is None:
            return {"queue": moved}
        spent = self.power.after(state, gain, decision.power_w, decision.probability)
        return {**spent, "queue": moved}

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """A cohort of the design."""
        devices = len(decision.probability)
        return self.design.draw(decision, shares_of(self.data_weight, devices), rng)
