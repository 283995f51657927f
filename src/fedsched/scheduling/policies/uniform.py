"""Policies that treat all devices alike: uniform participation, and everybody."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from fedsched.core.checks import positive_number, whole_number
from fedsched.core.uplink import Uplink
from fedsched.records import Cohort, Decision, PerDevice
from fedsched.scheduling.designs import AbstractDesign
from fedsched.scheduling.policies.base import (
    AbstractPolicy,
    Need,
    PolicyState,
    check_shares,
    nobody,
    reachable_gains,
    shares_of,
)
from fedsched.scheduling.policies.powers import AbstractPower

__all__ = ["Full", "Uniform"]


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(AbstractPolicy):
    r"""All reachable devices alike, whatever their channel: the baseline.

    The power is constant and spends the budget exactly: :math:`P = \min(P_{\max}, \bar P / q)`.
    (The paper prints :math:`\bar P q` with :math:`q = 1/(1-(1-1/N)^m)`, which is the weight.)
    """

    design: AbstractDesign
    uplink: Uplink
    budget_w: float
    data_weight: PerDevice | None = field(default=None, compare=False)
    power: AbstractPower | None = None  # None: the constant power that spends the budget

    needs: ClassVar[frozenset[Need]] = frozenset()

    def __post_init__(self) -> None:
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", check_shares(self.data_weight))

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "uniform"

    def init(self, devices: int) -> PolicyState:
        """What the power rule remembers, if there is one."""
        whole_number("devices", devices)
        return {} if self.power is None else self.power.init(devices)

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """The same probability and power for every reachable device."""
        reachable, known = reachable_gains(gain)
        if len(known) == 0:
            return _settle(nobody(len(gain)), gain, state, self.power)
        q, omega = self.design.uniform(len(known))
        power = min(self.uplink.max_power_w, self.budget_w / q)
        alike = reachable.astype(np.float64)
        decision = Decision(
            probability=q * alike,
            draw_probability=None if omega is None else omega * alike,
            power_w=np.full(len(gain), power),
            residual=0.0,
        )
        return _settle(decision, gain, state, self.power)

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """A cohort of the design."""
        devices = len(decision.probability)
        return self.design.draw(decision, shares_of(self.data_weight, devices), rng)


@final
@dataclass(frozen=True, kw_only=True)
class Full(AbstractPolicy):
    """Every reachable device in every round, at its average budget."""

    uplink: Uplink
    budget_w: float
    data_weight: PerDevice | None = field(default=None, compare=False)
    power: AbstractPower | None = None  # None: the average budget in every round

    needs: ClassVar[frozenset[Need]] = frozenset()

    def __post_init__(self) -> None:
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", check_shares(self.data_weight))

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "full"

    def init(self, devices: int) -> PolicyState:
        """What the power rule remembers, if there is one."""
        whole_number("devices", devices)
        return {} if self.power is None else self.power.init(devices)

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Probability 1 for every reachable device."""
        reachable, _ = reachable_gains(gain)
        power = min(self.uplink.max_power_w, self.budget_w)
        decision = Decision(
            probability=reachable.astype(np.float64),
            draw_probability=None,
            power_w=np.full(len(gain), power),
            residual=0.0,
        )
        return _settle(decision, gain, state, self.power)

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """Everybody who can be reached."""
        del rng  # nothing is left to chance
        device = np.flatnonzero(decision.probability).astype(np.int64)
        shares = shares_of(self.data_weight, len(decision.probability))
        return Cohort(device=device, weight=shares[device])


def _settle(
    decision: Decision, gain: PerDevice, state: PolicyState, power: AbstractPower | None
) -> tuple[Decision, PolicyState]:
    """The decision with the powers of a rule in place of its own, and what the rule remembers."""
    if power is None:
        return decision, state
    power_w = power.power_w(gain, state)
    moved = power.after(state, gain, power_w, decision.probability)
    return replace(decision, power_w=power_w), {**state, **moved}
