"""Policies that give all devices the same probability: uniform participation, and everybody."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.checks import whole_number
from fedsched.policies.base import AbstractPolicy, Need, PolicyState, nobody
from fedsched.policies.designs import AbstractDesign, FullCensus
from fedsched.policies.powers import AbstractPower, ExactPower
from fedsched.policies.system import System, reachable_gains
from fedsched.values import Decision, Observation, PerDevice, Plan

__all__ = ["AbstractEqual", "Full", "Uniform"]


@dataclass(frozen=True, kw_only=True)
class AbstractEqual(AbstractPolicy):
    """The same probability for all reachable devices, whatever their channel.

    Attributes:
        system: what is scheduled.
        power: how much each device sends with; None: the constant power that spends the budget.
    """

    system: System
    power: AbstractPower | None = None

    needs: ClassVar[frozenset[Need]] = frozenset()

    @property
    @abstractmethod
    def sampling(self) -> AbstractDesign:
        """How cohorts are drawn."""

    def planned(self, gain: PerDevice, power_w: PerDevice) -> Plan:
        """What each device does at this power."""
        return self.system.plan(gain, power_w)

    def counted(self, plan: Plan, share: PerDevice) -> PerDevice:
        """What an update counts for where q is 1: the share of the data."""
        del plan
        return share

    @property
    def _rule(self) -> AbstractPower:
        return self.power or ExactPower(system=self.system)

    @property
    def shared_state(self) -> frozenset[str]:
        """That of the power rule."""
        return self._rule.shared_state

    def init(self, devices: int) -> PolicyState:
        """What the power rule remembers."""
        whole_number("devices", devices)
        return self._rule.init(devices)

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """The same probability for every reachable device."""
        gain = observed.gain
        reachable, known = reachable_gains(gain)
        offered_w = self._rule.offered_w(gain, state)
        if len(known) == 0:
            decision = nobody(len(gain))
        else:
            q, omega = self.sampling.uniform(len(known))
            equal = reachable.astype(np.float64)
            probability = q * equal
            draw_probability = None if omega is None else omega * equal
            plan = self.planned(gain, self._rule.allowed_w(offered_w, state, probability))
            decision = Decision(
                plan=plan,
                probability=probability,
                draw_probability=draw_probability,
                cohort=self.sampling.draw(
                    probability,
                    draw_probability,
                    self.counted(plan, self.system.shares(len(gain))),
                    observed.luck.stream("sampling"),
                ),
            )
        round_s = self.system.round_s(decision.plan, decision.cohort)
        after = self._rule.advance(state, gain, decision.plan, decision.probability, round_s)
        return decision, {**state, **after}


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(AbstractEqual):
    r"""The same chance for all: the baseline.

    The constant power spends the budget exactly: :math:`P = \min(P_{\max}, \bar P / q)`.
    (The paper prints :math:`\bar P q` with :math:`q = 1/(1-(1-1/N)^m)`, which is the weight.)

    Attributes:
        design: how cohorts are drawn.
    """

    design: AbstractDesign

    name = "uniform"

    @property
    def sampling(self) -> AbstractDesign:
        """The design that was given."""
        return self.design


@final
@dataclass(frozen=True, kw_only=True)
class Full(AbstractEqual):
    """Every reachable device in every round, at its average budget."""

    name = "full"

    @property
    def sampling(self) -> AbstractDesign:
        """Nothing is left to chance."""
        return FullCensus()
