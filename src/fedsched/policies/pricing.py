"""Drift plus penalty as prices: of a second, and of a unit of each budget."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import positive_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.policies.system import System
from fedsched.values import PerDevice, Plan

__all__ = ["STARTS", "Pricing", "Queues", "State", "check_size", "queue_name", "queues_in"]

STARTS = ("empty", "budget")

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
        if self.start not in STARTS:
            raise UnknownNameError("start", self.start, STARTS)
        positive_number("v", self.v)
        positive_number("lam", self.lam)

    @property
    def _cost(self) -> float:
        link = self.system.link
        return self.v * self.lam * link.bits / link.bandwidth_hz

    def init(self, devices: int) -> State:
        """Empty queues, or NaN for those that begin with the first gain of their device."""
        first = 0.0 if self.start == "empty" else np.nan
        return {queue_name(budget.name): np.full(devices, first) for budget in self.system.budgets}

    def queues(self, gain: PerDevice, state: State, first_w: float) -> Queues:
        """The queues; those that have not begun give the power ``first_w`` at the present gain."""
        found = {budget.name: state[queue_name(budget.name)] for budget in self.system.budgets}
        for queue in found.values():
            check_size(gain, queue)
        power = self.system.power
        missing = np.isnan(found[power.name])
        if not missing.any():
            return found
        # The printed power is that of a cost times ln 2, and so is the queue that gives it.
        cost = self._cost * (float(np.log(2.0)) if self.as_printed else 1.0)
        begin = power.queue_for(gain, first_w, cost=cost, noise=self.system.link.noise_w)
        return {**found, power.name: np.where(missing, begin, found[power.name])}

    def plan(self, gain: PerDevice, queues: Queues) -> Plan:
        """The powers of least price, for gains that are all known."""
        power = self.system.power
        best_w = power.best_power_w(
            gain, queues[power.name],
            cost=self._cost, link=self.system.link, as_printed=self.as_printed,
        )  # fmt: skip
        return self.system.plan(gain, best_w)

    def price(self, plan: Plan, queues: Queues) -> PerDevice:
        """The price of each device: that of its time, and those of its budgets."""
        price = (self.v * self.lam) * self.system.access.price_s(plan.upload_s)
        for budget in self.system.budgets:
            price = price + queues[budget.name] * budget.use(plan)
        return price

    def advance(self, queues: Queues, plan: Plan, probability: PerDevice) -> State:
        """The state after a round."""
        return {
            queue_name(budget.name): budget.advance(queues[budget.name], plan, probability)
            for budget in self.system.budgets
        }


def check_size(gain: PerDevice, memory: PerDevice) -> None:
    """Refuse gains for another number of devices than the state was made for."""
    if gain.shape != memory.shape:
        raise InputError(
            f"gain has shape {gain.shape} and the state {memory.shape}; give one gain per device "
            "the state was made for"
        )
