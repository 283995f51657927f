"""Drift plus penalty as prices: of a second, and of a unit of each budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of, positive_number
from fedsched.errors import InputError
from fedsched.policies.system import System
from fedsched.solve.power import Tariff
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice, Plan

__all__ = ["STARTS", "Pricing", "Queues", "State", "check_size", "queue_name", "queues_in"]

STARTS = ("empty", "budget")
_PASSES = 12  # over prices that depend on the probabilities they lead to

State = Mapping[str, NDArray[np.float64]]
Queues = Mapping[str, PerDevice]  # by the name of the budget


def queue_name(budget: str) -> str:
    """What a state calls the queue of a budget."""
    return f"queue.{budget}"


def queues_in(state: State) -> Queues:
    """The queues that a policy's state holds, by the name of their budget."""
    prefix = queue_name("")
    return {name.removeprefix(prefix): z for name, z in state.items() if name.startswith(prefix)}


@dataclass(frozen=True, kw_only=True)
class Pricing:
    r"""What one device costs if it takes part, and how its budgets' queues move.

    .. math:: b_n = V \lambda \, t_n + \sum_i Z_{i,n} \, u_{i,n}

    Here :math:`t_n` are the seconds it adds to a round by the access, and :math:`u_{i,n}` is what
    its upload uses of budget i, whose queue is :math:`Z_{i,n}`. The power minimises this price.

    Attributes:
        system: what is scheduled.
        v: V, the weight of the objective against the queues.
        lam: lambda, the price of a second.
        as_printed: Theorem 2 with the paper's ln(2)^2.
        start: "empty" queues as in the paper, or "budget": the queue at which Theorem 2 gives, at
            the first gain of each device, a power that keeps the budget.
    """

    system: System
    v: float
    lam: float
    as_printed: bool = False
    start: str = "empty"

    def __post_init__(self) -> None:
        one_of("start", self.start, STARTS)
        positive_number("v", self.v)
        positive_number("lam", self.lam)
        if self.as_printed and not self.system.is_papers:
            raise InputError(
                "as_printed: true is for the paper's system, one power budget for all devices over "
                "a link with gains; leave it out for others"
            )

    @property
    def _cost(self) -> float:
        """What Theorem 2 calls c: V lambda l / B."""
        link = self.system.link
        assert isinstance(link, Uplink)
        return self.v * self.lam * link.bits / link.bandwidth_hz

    @property
    def _as_printed(self) -> float:
        """The printed power is that of a price of time times ln 2."""
        return float(np.log(2.0)) if self.as_printed else 1.0

    def init(self, devices: int) -> State:
        """Empty queues, or NaN for those that begin with the first gain of their device."""
        begins = self.start == "budget" and self.system.is_papers
        return {
            queue_name(budget.name): np.full(devices, np.nan if begins else 0.0)
            for budget in self.system.budgets
        }

    def queues(self, gain: PerDevice, state: State, first_w: float | PerDevice) -> Queues:
        """The queues; those that have not begun give the power ``first_w`` at the present gain."""
        found = {budget.name: state[queue_name(budget.name)] for budget in self.system.budgets}
        for queue in found.values():
            check_size(gain, queue)
        power, link = self.system.power, self.system.link
        if power is None or not isinstance(link, Uplink):
            return found
        missing = np.isnan(found[power.name])
        if not missing.any():
            return found
        cost = self._cost * self._as_printed
        begin = power.queue_for(gain, first_w, cost=cost, noise=link.noise_w)
        return {**found, power.name: np.where(missing, begin, found[power.name])}

    def plan(self, gain: PerDevice, queues: Queues) -> Plan:
        """The powers of least price; NaN gains cannot send."""
        power, link = self.system.power, self.system.link
        if power is None or not isinstance(link, Uplink) or not self.system.is_papers:
            best_w = link.cheapest_power_w(gain, self._tariff(queues), self.system.max_power_w)
            return self.system.plan(gain, best_w)
        near = gain == gain
        best_w = power.best_power_w(
            np.where(near, gain, 1.0), np.where(near, queues[power.name], 0.0),
            cost=self._cost, link=link, as_printed=self.as_printed,
        )  # fmt: skip
        return self.system.plan(gain, np.where(near, best_w, 0.0))

    def price(self, plan: Plan, queues: Queues) -> PerDevice:
        """The price of each device, its upload in turn: that of its time, and of its budgets."""
        return self._of(plan.upload_s, plan, queues)

    def in_force(
        self,
        plan: Plan,
        queues: Queues,
        weight: float | PerDevice,
        solve: Callable[[PerDevice], PerDevice],
        gain: PerDevice | None = None,
    ) -> tuple[Plan, PerDevice]:
        r"""What each device would do, and its price, by the access in force.

        What a device adds to a round may depend on the others, and so may what a second of its
        upload is worth. Then powers, prices and the probabilities they lead to must agree, and they
        are found in turn, half way in the logarithm each time. Of all that were met those of the
        least :math:`\sum a_n / q_n + V \lambda E[T]` and budgets stay; uploads in turn are the
        first, so no others are taken that are worse.

        Args:
            plan: what each device would do if uploads took turns.
            queues: the prices of a unit of each budget.
            weight: a, of 1/q.
            solve: the probabilities at a price.
            gain: of each device; None: the powers of the plan stay.
        """
        price = self.price(plan, queues)
        if self.system.in_turn:
            return plan, price
        price_s, per_second = plan.upload_s, np.ones(len(price))
        best, chosen = np.inf, (plan, price)
        for _ in range(_PASSES):
            q = solve(price)
            part = q > 0.0
            found = self.system.access.expected(plan.upload_s, self.system.late_s, q)
            convergence = (np.broadcast_to(weight, q.shape)[part] / q[part]).sum()
            of_budgets = (self._of(np.zeros(len(q)), plan, queues)[part] * q[part]).sum()
            objective = convergence + of_budgets + self.v * self.lam * found.mean_s
            if objective < best:
                best, chosen = objective, (plan, price)
            price_s = np.sqrt(price_s * found.added_s)
            if gain is not None:
                per_second = np.sqrt(per_second * found.per_second)
                plan = self._replanned(plan, gain, queues, per_second)
            price = self._of(price_s, plan, queues)
        return chosen

    def _replanned(
        self, plan: Plan, gain: PerDevice, queues: Queues, per_second: PerDevice
    ) -> Plan:
        """The plan with the powers that are best if a second of an upload is worth so much."""
        size = plan.bits / self.system.link.bits  # of an update of the plan
        tariff = self._tariff(queues, per_second * self._as_printed)
        tariff = replace(tariff, second=tariff.second * size, joule=tariff.joule * size)
        best_w = self.system.link.cheapest_power_w(gain, tariff, self.system.max_power_w)
        return self.system.plan(gain, best_w, like=plan)

    def _tariff(self, queues: Queues, per_second: float | PerDevice = 1.0) -> Tariff:
        """The prices of a second, a watt and a joule."""
        tariff = Tariff(second=self.v * self.lam * per_second)
        for budget in self.system.budgets:
            tariff = tariff + budget.tariff(queues[budget.name])
        return tariff

    def _of(self, seconds: PerDevice, plan: Plan, queues: Queues) -> PerDevice:
        """The price of so many seconds, and of what the plan uses of the budgets."""
        price = (self.v * self.lam) * seconds
        for budget in self.system.budgets:
            use = np.where(np.isfinite(plan.upload_s), budget.use(plan), 0.0)
            price = price + queues[budget.name] * use
        return price

    def advance(
        self, queues: Queues, plan: Plan, probability: PerDevice, round_s: float = 0.0
    ) -> State:
        """The state after a round; limits that are of a second depend on its length."""
        return {
            queue_name(budget.name): budget.advance(queues[budget.name], plan, probability, round_s)
            for budget in self.system.budgets
        }


def check_size(gain: PerDevice, memory: PerDevice) -> None:
    """Refuse gains for another number of devices than the state was made for."""
    if gain.shape != memory.shape:
        raise InputError(
            f"gain has shape {gain.shape} and the state {memory.shape}; give one gain per device "
            "the state was made for"
        )
