"""Policies that treat all devices alike: uniform participation, and everybody."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from fedsched.core.checks import positive_number, whole_number
from fedsched.core.uplink import Uplink
from fedsched.policies.base import (
    AbstractPolicy,
    Need,
    PolicyState,
    check_shares,
    nobody,
    reachable_gains,
    shares_of,
)
from fedsched.policies.designs import AbstractDesign
from fedsched.policies.powers import AbstractPower, ExactPower
from fedsched.values import Cohort, Decision, PerDevice

__all__ = ["AbstractAlike", "Full", "Uniform"]


@dataclass(frozen=True, kw_only=True)
class AbstractAlike(AbstractPolicy):
    """All reachable devices alike, whatever their channel.

    Attributes:
        uplink: the link that is shared.
        budget_w: the average power each device may spend, Pbar.
        data_weight: p, each device's share of the data; equal shares if None.
        power: how much each device sends with; None: the constant power that spends the budget.
    """

    uplink: Uplink
    budget_w: float
    data_weight: PerDevice | None = field(default=None, compare=False)
    power: AbstractPower | None = None

    needs: ClassVar[frozenset[Need]] = frozenset()

    def __post_init__(self) -> None:
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", check_shares(self.data_weight))

    @abstractmethod
    def probability(self, devices: int) -> tuple[float, float | None]:
        """That of each of so many reachable devices, and that of one draw if there are draws."""

    @property
    def _rule(self) -> AbstractPower:
        return self.power or ExactPower(uplink=self.uplink, budget_w=self.budget_w)

    def init(self, devices: int) -> PolicyState:
        """What the power rule remembers."""
        whole_number("devices", devices)
        return self._rule.init(devices)

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """The same probability for every reachable device."""
        reachable, known = reachable_gains(gain)
        power_w = self._rule.power_w(gain, state)
        if len(known) == 0:
            decision = nobody(len(gain))
        else:
            q, omega = self.probability(len(known))
            alike = reachable.astype(np.float64)
            decision = Decision(
                probability=q * alike,
                draw_probability=None if omega is None else omega * alike,
                power_w=self._rule.settled(power_w, state, q * alike),
                residual=0.0,
            )
        moved = self._rule.after(state, gain, decision.power_w, decision.probability)
        return decision, {**state, **moved}


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(AbstractAlike):
    r"""The same chance for all: the baseline.

    The constant power spends the budget exactly: :math:`P = \min(P_{\max}, \bar P / q)`.
    (The paper prints :math:`\bar P q` with :math:`q = 1/(1-(1-1/N)^m)`, which is the weight.)

    Attributes:
        design: how cohorts are drawn.
    """

    design: AbstractDesign

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "uniform"

    def probability(self, devices: int) -> tuple[float, float | None]:
        """That of the design."""
        return self.design.uniform(devices)

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """A cohort of the design."""
        devices = len(decision.probability)
        return self.design.draw(decision, shares_of(self.data_weight, devices), rng)


@final
@dataclass(frozen=True, kw_only=True)
class Full(AbstractAlike):
    """Every reachable device in every round, at its average budget."""

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "full"

    def probability(self, devices: int) -> tuple[float, float | None]:
        """Nothing is left to chance."""
        del devices
        return 1.0, None

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """Everybody who can be reached."""
        del rng
        device = np.flatnonzero(decision.probability).astype(np.int64)
        shares = shares_of(self.data_weight, len(decision.probability))
        return Cohort(device=device, weight=shares[device])
