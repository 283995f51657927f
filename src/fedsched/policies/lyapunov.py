"""Drift plus penalty: the paper's policy, and what goes beyond the paper."""

import logging
from dataclasses import dataclass
from typing import final

import numpy as np

from fedsched.checks import number_within, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.policies.base import AbstractPolicy, PolicyState, nobody
from fedsched.policies.budgets import AveragePower
from fedsched.policies.designs import AbstractDesign
from fedsched.policies.powers import AbstractPower
from fedsched.policies.pricing import Pricing, Queues
from fedsched.policies.sizing import Offer, cheapest
from fedsched.policies.system import System, reachable_gains
from fedsched.solve.decision import decide
from fedsched.solve.solution import TOLERANCE, RoundSolution, Solution
from fedsched.solve.uplink import Uplink
from fedsched.values import Decision, Observation, PerDevice, spread

__all__ = ["Lyapunov"]

_log = logging.getLogger(__name__)


@final
@dataclass(frozen=True, kw_only=True)
class Lyapunov(AbstractPolicy):
    r"""Drift plus penalty: the paper's policy, with any of the three designs.

    Each round it minimises, given the queues Z,

    .. math:: V \sum_n \Big( \frac{N p_n^2}{q_n} + \lambda \tau_n(P_n) q_n \Big)
              + \sum_n Z_n P_n q_n ,

    first over the powers (Theorem 2, independent of q), then over the probabilities its design
    allows, with weight :math:`a_n = V N p_n^2` and the price :math:`b_n` of :class:`Pricing`.
    With equal data :math:`a_n = V / N`. Where updates may be sent in several sizes, the size of
    each device is the one with the least :math:`(1 + \omega) b_n`, and :math:`a_n` has the factor
    :math:`1 + \omega`.

    Attributes:
        system: what is scheduled.
        design: how cohorts are drawn.
        v: V, the weight of the objective against the queues.
        lam: lambda, the price of a second of airtime against the convergence term 1/q.
        qmin: a least probability for every reachable device.
        as_printed: Theorem 2 with the paper's ln(2)^2.
        start: "empty" queues as in the paper, or "budget": the queue at which Theorem 2 gives, at
            the first gain of each device, the power that the uniform policy would have. An empty
            queue sends at the peak, and a device that is almost sure to take part then carries
            the peak in its queue for long.
        scale_v: take v as that of lambda = 100, and V = v * 100 / lambda: the powers depend on
            V lambda / Z alone, so one v then serves every lambda.
        power: decides the powers in place of Theorem 2 if given; prices keep their queues.
    """

    system: System
    design: AbstractDesign
    v: float
    lam: float
    qmin: float = 0.0
    as_printed: bool = False
    start: str = "empty"
    scale_v: bool = False
    power: AbstractPower | None = None

    def __post_init__(self) -> None:
        positive_number("v", self.v)
        positive_number("lam", self.lam)
        queues = self._pricing.init(1)
        number_within("qmin", self.qmin, "[0, 1)", "it is a probability")
        if self.power is not None and queues.keys() & self.power.init(1).keys():
            # Two queues under one name: the prices would be those of the wrong one, or NaN.
            raise InputError(
                f"power: {type(self.power).__name__} keeps queues of its own, and lyapunov has "
                "them already; give None for the powers of Theorem 2, or a rule without queues "
                "such as TrackedPower"
            )

    name = "lyapunov"

    @property
    def sampling(self) -> AbstractDesign:
        """The design that was given."""
        return self.design

    @property
    def _pricing(self) -> Pricing:
        return Pricing(
            system=self.system,
            v=self.v * 100.0 / self.lam if self.scale_v else self.v,
            lam=self.lam,
            as_printed=self.as_printed,
            start=self.start,
        )

    @property
    def shared_state(self) -> frozenset[str]:
        """That of the power rule, if there is one."""
        return self.power.shared_state if self.power else frozenset()

    def init(self, devices: int) -> PolicyState:
        """The queues, and what the power rule remembers."""
        whole_number("devices", devices)
        own = self._pricing.init(devices)
        return {**own, **(self.power.init(devices) if self.power else {})}

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Powers by Theorem 2, then the probabilities of the design; the queues move on."""
        gain, devices, pricing = observed.gain, len(observed.gain), self._pricing
        queues = pricing.queues(gain, state, self._first_w(devices))
        _, known = reachable_gains(gain)
        if len(known) == 0:
            decision = nobody(devices)
            return decision, self._next(pricing, queues, decision, observed, state)
        share = self.system.shares(devices)
        offer = self._offer(pricing, observed, queues)
        solution = self._solved(pricing, gain, queues, state, offer)
        if not solution.gap <= TOLERANCE:
            # A run of thousands of rounds must survive one that is hard; the log has its gap.
            _log.warning("a round's probabilities are not certified: %s", solution.status.value)
        q, omega, power_w = solution.probability, solution.draw_probability, solution.power_w
        if self.power is not None:
            power_w = self.power.allowed_w(power_w, state, q)
        decision = Decision(
            plan=self.system.plan(gain, power_w) if offer is None else offer.plan,
            probability=q,
            draw_probability=omega,
            cohort=self.design.draw(q, omega, share, observed.luck.stream("sampling")),
            residual=float(solution.gap),
        )
        return decision, self._next(pricing, queues, decision, observed, state)

    def _offer(self, pricing: Pricing, observed: Observation, queues: Queues) -> Offer | None:
        """The best size and power of each device, where there are sizes to choose from.

        Of a single size 1 + omega is a factor that all devices share, and lambda takes it up.
        """
        sizes = observed.sizes
        if sizes is None or len(sizes.bits) == 1 or self.power is not None:
            return None
        return cheapest(pricing, observed.gain, queues, sizes)

    def _solved(
        self,
        pricing: Pricing,
        gain: PerDevice,
        queues: Queues,
        state: PolicyState,
        offer: Offer | None,
    ) -> RoundSolution:
        """Powers, prices and probabilities: in one call where the kernel has one."""
        link = self.system.link
        if (
            offer is None
            and self._fused
            and self.design.kernel is not None
            and isinstance(link, Uplink)
        ):
            design, draws = self.design.kernel
            return decide(
                gain, queues[AveragePower.name], uplink=link,
                v=pricing.v, lam=pricing.lam, design=design, draws=draws,
                data_weight=self.system.data_weight, floor=self.qmin, as_printed=self.as_printed,
            )  # fmt: skip
        devices, near = len(gain), gain == gain
        if offer is not None:
            plan = offer.plan
        elif self.power is None:
            plan = pricing.plan(gain, queues)
        else:
            plan = self.system.plan(gain, self.power.offered_w(gain, state))
        weight: float | PerDevice = pricing.v / devices
        if self.system.data_weight is not None:
            weight = pricing.v * devices * self.system.shares(devices) ** 2
        if offer is not None:
            weight = weight * offer.factor

        def solved(price: PerDevice) -> Solution:
            own = weight[near] if isinstance(weight, np.ndarray) else weight
            return self.design.solve(price[near], own, self.qmin)

        def probability(price: PerDevice) -> PerDevice:
            return spread(solved(price).probability, near, devices, 0.0)

        free = gain if self.power is None else None
        plan, price = pricing.in_force(plan, queues, weight, probability, free)
        found = solved(price)
        omega = found.draw_probability
        return RoundSolution(
            probability=spread(found.probability, near, devices, 0.0),
            draw_probability=None if omega is None else spread(omega, near, devices, 0.0),
            objective=found.objective,
            multiplier=found.multiplier,
            gap=found.gap,
            power_w=plan.power_w,
            price=np.where(near, price, 0.0),
        )

    @property
    def _fused(self) -> bool:
        """Whether powers, prices and probabilities are one call of the kernel."""
        return self.power is None and self.system.is_papers and self.system.in_turn

    def _first_w(self, devices: int) -> float | PerDevice:
        q, _ = self.design.uniform(devices)
        return np.minimum(self.system.max_power_w, self.system.mean_power_w / q)

    def _next(
        self,
        pricing: Pricing,
        queues: Queues,
        decision: Decision,
        observed: Observation,
        state: PolicyState,
    ) -> PolicyState:
        plan, q = decision.plan, decision.probability
        round_s = self.system.round_s(plan, decision.cohort)
        after = pricing.advance(queues, plan, q, round_s)
        if self.power is None:
            return after
        spent = self.power.advance(state, observed.gain, plan, q, round_s)
        return {**spent, **after}
