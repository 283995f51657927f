"""Power rules: any selection can send with either, and each bounds the average power."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.checks import whole_number
from fedsched.errors import UnknownNameError
from fedsched.policies.pricing import Pricing, Queues, State, check_size
from fedsched.policies.system import System
from fedsched.values import PerDevice, Plan, over

__all__ = ["POWERS", "AbstractPower", "ExactPower", "QueuePower", "TrackedPower", "make_power"]

POWERS = ("queue", "constant")


@dataclass(frozen=True, kw_only=True)
class AbstractPower(ABC):
    """How much each device sends with, from its gain and what it has spent so far.

    Attributes:
        system: what is scheduled; its power budget is kept.
    """

    system: System
    shared_state: ClassVar[frozenset[str]] = frozenset()  # names that belong to no single device

    @abstractmethod
    def init(self, devices: int) -> State:
        """The memory before the first round."""

    @abstractmethod
    def offered_w(self, gain: PerDevice, state: State) -> PerDevice:
        """The power each device may count on before it is chosen, 0 where the gain is NaN."""

    def allowed_w(self, offered_w: PerDevice, state: State, probability: PerDevice) -> PerDevice:
        """What it sends with, once the probabilities are known."""
        del state, probability
        return offered_w

    @abstractmethod
    def advance(
        self,
        state: State,
        gain: PerDevice,
        plan: Plan,
        probability: PerDevice,
        round_s: float = 0.0,
    ) -> State:
        """The memory after a round; a choice without probabilities counts as 0 or 1."""


@final
@dataclass(frozen=True, kw_only=True)
class QueuePower(AbstractPower):
    r"""Theorem 2: the power that minimises V lambda tau(P) + Z P. It does not depend on q.

    As :math:`Z_{t+1} \ge Z_t + P q - \bar P`, the mean of P q over T rounds is at most
    :math:`\bar P + (Z_T - Z_0) / T`, whoever is chosen. And Z stays below
    :meth:`AveragePower.longest_queue`, which grows with V and not with T.

    Queues begin with the first gain of their device, at the power Pbar N / m. An empty one would
    send at the peak, and a choice without a probability would carry the whole of it in its queue.
    """

    v: float
    lam: float
    draws: int | None = 1  # m; None: everybody takes part

    def __post_init__(self) -> None:
        _turns(1, self.draws)
        self._pricing.init(0)  # refuses what is not positive

    @property
    def _pricing(self) -> Pricing:
        return Pricing(system=self.system, v=self.v, lam=self.lam, start="budget")

    def init(self, devices: int) -> State:
        """NaN until the first gain."""
        return self._pricing.init(devices)

    def offered_w(self, gain: PerDevice, state: State) -> PerDevice:
        """The closed form, at the queue before the round."""
        return self._pricing.plan(gain, self._queues(gain, state)).power_w

    def advance(
        self,
        state: State,
        gain: PerDevice,
        plan: Plan,
        probability: PerDevice,
        round_s: float = 0.0,
    ) -> State:
        """Z <- max(Z + P q - Pbar, 0)."""
        return self._pricing.advance(self._queues(gain, state), plan, probability, round_s)

    def _queues(self, gain: PerDevice, state: State) -> Queues:
        first_w = np.minimum(
            self.system.max_power_w, self.system.mean_power_w * _turns(len(gain), self.draws)
        )
        return self._pricing.queues(gain, state, first_w)


@final
@dataclass(frozen=True, kw_only=True)
class TrackedPower(AbstractPower):
    r"""Constant power that spends the budget at the frequency with which a device takes part.

    The frequency is estimated from what was seen, beginning at m / N:
    :math:`f = (1 + \sum q) / (N/m + t)`, and :math:`P = \bar P / f` within the peak. Once the
    frequency is steady so is the power; where it is m / N it is so at once.

    Each device has an account: it begins with one upload at that frequency,
    :math:`\bar P N / m`, and takes in :math:`\bar P` every round. What P q would overdraw is not
    sent: :math:`P q \le` what is saved. So after any number T of rounds, and however wrong the
    estimate, the mean of P q is at most :math:`\bar P \, (1 + (N/m - 1) / T)`.

    Attributes:
        draws: m, the devices a round that are expected; None: everybody.
    """

    draws: int | None = 1
    shared_state: ClassVar[frozenset[str]] = frozenset({"rounds"})

    def __post_init__(self) -> None:
        _turns(1, self.draws)

    def init(self, devices: int) -> State:
        """One upload saved, nothing seen."""
        return {
            "saved": np.full(devices, self.system.mean_power_w * _turns(devices, self.draws)),
            "taken": np.zeros(devices),
            "rounds": np.zeros(()),
        }

    def offered_w(self, gain: PerDevice, state: State) -> PerDevice:
        """Budget over frequency."""
        check_size(gain, state["taken"])
        rounds = float(state["rounds"]) + _turns(len(gain), self.draws)
        frequent_w = self.system.mean_power_w * rounds / (1.0 + state["taken"])
        power_w = np.minimum(frequent_w, self.system.max_power_w)
        return np.where(np.isnan(gain), 0.0, power_w)

    def allowed_w(self, offered_w: PerDevice, state: State, probability: PerDevice) -> PerDevice:
        """Within what is saved."""
        return np.minimum(offered_w, over(state["saved"], probability))

    def advance(
        self,
        state: State,
        gain: PerDevice,
        plan: Plan,
        probability: PerDevice,
        round_s: float = 0.0,
    ) -> State:
        """Keep the account, and count how often."""
        del gain, round_s
        spent_w = plan.power_w * probability
        return {
            "saved": state["saved"] - spent_w + self.system.mean_power_w,
            "taken": state["taken"] + probability,
            "rounds": state["rounds"] + 1.0,
        }


@final
@dataclass(frozen=True, kw_only=True)
class ExactPower(AbstractPower):
    r"""Constant power where q is known beforehand: :math:`P = \min(P_{\max}, \bar P / q)`."""

    def init(self, devices: int) -> State:
        """Nothing to remember."""
        del devices
        return {}

    def offered_w(self, gain: PerDevice, state: State) -> PerDevice:
        """The budget, until q is known."""
        del state
        least_w = np.minimum(self.system.mean_power_w, self.system.max_power_w)
        return np.where(np.isnan(gain), 0.0, least_w)

    def allowed_w(self, offered_w: PerDevice, state: State, probability: PerDevice) -> PerDevice:
        """Budget over probability."""
        del state
        budget_w = over(self.system.mean_power_w, probability)
        exact_w = np.minimum(budget_w, self.system.max_power_w)
        return np.where(probability > 0.0, exact_w, offered_w)

    def advance(
        self,
        state: State,
        gain: PerDevice,
        plan: Plan,
        probability: PerDevice,
        round_s: float = 0.0,
    ) -> State:
        """Nothing changes."""
        del state, gain, plan, probability, round_s
        return {}


def _turns(devices: int, draws: int | None) -> float:
    """In how many rounds a device takes part once, if m of them do."""
    return 1.0 if draws is None else max(1.0, devices / whole_number("draws", draws))


def make_power(
    name: str, *, system: System, v: float, lam: float, draws: int | None = 1
) -> AbstractPower:
    """The rule of that name: "queue" or "constant"."""
    if name == "queue":
        return QueuePower(system=system, v=v, lam=lam, draws=draws)
    if name == "constant":
        return TrackedPower(system=system, draws=draws)
    raise UnknownNameError("power", name, POWERS)
