"""Power rules: any selection can send with either, and each bounds the average power."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.core.checks import positive_number, whole_number
from fedsched.core.power import power_unchecked
from fedsched.core.uplink import Uplink
from fedsched.errors import InputError, UnknownNameError
from fedsched.policies.queues import advance_queue
from fedsched.values import PerDevice

__all__ = [
    "POWERS",
    "AbstractPower",
    "ExactPower",
    "QueuePower",
    "TrackedPower",
    "fill_queue",
    "longest_queue",
    "make_power",
    "queue_for_power",
]

POWERS = ("queue", "constant")

State = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class AbstractPower(ABC):
    """How much each device sends with, from its gain and what it has spent so far.

    Attributes:
        uplink: the link that is shared.
        budget_w: the average power each device may spend, Pbar.
    """

    uplink: Uplink
    budget_w: float

    def __post_init__(self) -> None:
        positive_number("budget_w", self.budget_w)

    @abstractmethod
    def init(self, devices: int) -> State:
        """The memory before the first round."""

    @abstractmethod
    def power_w(self, gain: PerDevice, state: State) -> PerDevice:
        """The power each device may count on before it is chosen, 0 where the gain is NaN."""

    def settled(self, power_w: PerDevice, state: State, probability: PerDevice) -> PerDevice:
        """What is sent with, once the probabilities are known."""
        del state, probability
        return power_w

    @abstractmethod
    def after(
        self, state: State, gain: PerDevice, power_w: PerDevice, probability: PerDevice
    ) -> State:
        """The memory after a round; a choice without probabilities counts as 0 or 1."""


@final
@dataclass(frozen=True, kw_only=True)
class QueuePower(AbstractPower):
    r"""Theorem 2: the power that minimises V lambda tau(P) + Z P. It does not depend on q.

    As :math:`Z_{t+1} \ge Z_t + P q - \bar P`, the mean of P q over T rounds is at most
    :math:`\bar P + (Z_T - Z_0) / T`, whoever is chosen. And Z stays below
    :func:`longest_queue`, which grows with V and not with T.
    """

    v: float
    lam: float
    draws: int = 1  # m: the queues begin at the power Pbar N / m

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("v", self.v)
        positive_number("lam", self.lam)
        whole_number("draws", self.draws)

    @property
    def _cost(self) -> float:
        return self.v * self.lam * self.uplink.bits / self.uplink.bandwidth_hz

    def init(self, devices: int) -> State:
        """Queues that begin with the first gain of their device, NaN until then.

        An empty one would send at the peak, and a choice without a probability would carry the
        whole of it in its queue.
        """
        return {"queue": np.full(devices, np.nan)}

    def power_w(self, gain: PerDevice, state: State) -> PerDevice:
        """The closed form, at the queue as it stands."""
        check_size(gain, state["queue"])
        reachable = ~np.isnan(gain)
        queue = self._queue(gain, state)
        power = power_unchecked(
            np.where(reachable, gain, 1.0),
            np.where(reachable, queue, 0.0),
            self._cost,
            self.uplink.noise_w,
            self.uplink.max_power_w,
            float(np.log(2.0)),
        )
        return np.where(reachable, power, 0.0)

    def after(
        self, state: State, gain: PerDevice, power_w: PerDevice, probability: PerDevice
    ) -> State:
        """Z <- max(Z + P q - Pbar, 0)."""
        queue = advance_queue(
            self._queue(gain, state),
            power_w=power_w,
            probability=probability,
            budget_w=self.budget_w,
        )
        return {"queue": queue}

    def _queue(self, gain: PerDevice, state: State) -> PerDevice:
        return fill_queue(
            state["queue"],
            gain,
            min(self.uplink.max_power_w, self.budget_w * max(1.0, len(gain) / self.draws)),
            cost=self._cost,
            noise=self.uplink.noise_w,
        )


@final
@dataclass(frozen=True, kw_only=True)
class TrackedPower(AbstractPower):
    r"""Constant power that spends the budget at the frequency with which a device takes part.

    The frequency is estimated from what was seen, beginning at m / N:
    :math:`f = (1 + \sum q) / (N/m + t)`, and :math:`P = \bar P / f` within the peak. Once the
    frequency has settled so has the power; where it is m / N it is so at once.

    Each device has an account: it begins with one upload at that frequency,
    :math:`\bar P N / m`, and takes in :math:`\bar P` every round. What P q would overdraw is not
    sent: :math:`P q \le` what is saved. So after any number T of rounds, and however wrong the
    estimate, the mean of P q is at most :math:`\bar P \, (1 + (N/m - 1) / T)`.

    Attributes:
        draws: m, the devices a round that are expected.
    """

    draws: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("draws", self.draws)

    def _turns(self, devices: int) -> float:
        return max(1.0, devices / self.draws)

    def init(self, devices: int) -> State:
        """One upload saved, nothing seen."""
        return {
            "saved": np.full(devices, self.budget_w * self._turns(devices)),
            "taken": np.zeros(devices),
            "rounds": np.zeros(()),
        }

    def power_w(self, gain: PerDevice, state: State) -> PerDevice:
        """Budget over frequency."""
        check_size(gain, state["taken"])
        rounds = float(state["rounds"]) + self._turns(len(gain))
        power = np.minimum(self.budget_w * rounds / (1.0 + state["taken"]), self.uplink.max_power_w)
        return np.where(np.isnan(gain), 0.0, power)

    def settled(self, power_w: PerDevice, state: State, probability: PerDevice) -> PerDevice:
        """Within what is saved."""
        return np.minimum(power_w, _over(state["saved"], probability))

    def after(
        self, state: State, gain: PerDevice, power_w: PerDevice, probability: PerDevice
    ) -> State:
        """Keep the account, and count how often."""
        del gain
        return {
            "saved": state["saved"] - power_w * probability + self.budget_w,
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

    def power_w(self, gain: PerDevice, state: State) -> PerDevice:
        """The budget, until q is known."""
        del state
        least = min(self.budget_w, self.uplink.max_power_w)
        return np.where(np.isnan(gain), 0.0, least)

    def settled(self, power_w: PerDevice, state: State, probability: PerDevice) -> PerDevice:
        """Budget over probability."""
        del state
        exact = np.minimum(_over(self.budget_w, probability), self.uplink.max_power_w)
        return np.where(probability > 0.0, exact, power_w)

    def after(
        self, state: State, gain: PerDevice, power_w: PerDevice, probability: PerDevice
    ) -> State:
        """Nothing changes."""
        del state, gain, power_w, probability
        return {}


def _over(amount_w: PerDevice | float, probability: PerDevice) -> PerDevice:
    """Amount over probability, infinite for those that do not take part."""
    most: PerDevice = np.full(len(probability), np.inf)
    np.divide(amount_w, probability, out=most, where=probability > 0.0)
    return most


def longest_queue(
    gain: float, *, budget_w: float, max_power_w: float, cost: float, noise: float
) -> float:
    r"""What no queue of Theorem 2 exceeds that began below it, if no gain is below this one.

    At :math:`Z(\bar P, g)` or above (:func:`queue_for_power`) the power is at most the budget and
    the queue does not grow; below it, it grows by :math:`P_{\max} - \bar P` at most. So
    :math:`Z \le Z(\bar P, g) + P_{\max} - \bar P`, whoever is chosen and for however long:
    the mean power exceeds the budget by at most this over T. It is linear in V.

    Example:
        >>> longest_queue(1.0, budget_w=1.0, max_power_w=10.0, cost=0.0, noise=1.0)
        9.0
    """
    settled = float(queue_for_power(np.array(gain), budget_w, cost=cost, noise=noise))
    return settled + max(max_power_w - budget_w, 0.0)


def queue_for_power(
    gain: PerDevice, power_w: PerDevice | float, *, cost: float, noise: float
) -> PerDevice:
    r"""The queue at which Theorem 2 gives this power: :math:`Z = c g \ln 2 / (N_0 x \ln^2 x)`.

    Here :math:`x = 1 + g P / N_0` and :math:`c = V \lambda \ell / B`.

    Example:
        >>> from fedsched.core.power import optimal_power
        >>> z = queue_for_power(np.array([2.0]), 5.0, cost=10.0, noise=1.0)
        >>> optimal_power([2.0], z, cost=10.0, noise=1.0, max_power=100.0).round(12)
        array([5.])
    """
    snr = gain * power_w / noise
    return np.asarray(cost * gain * np.log(2.0) / (noise * (1.0 + snr) * np.log1p(snr) ** 2))


def fill_queue(
    queue: PerDevice, gain: PerDevice, power_w: float, *, cost: float, noise: float
) -> PerDevice:
    """The queues, where NaN those at which Theorem 2 gives ``power_w`` at the present gain."""
    missing = np.isnan(queue)
    if not missing.any():
        return queue
    return np.where(missing, queue_for_power(gain, power_w, cost=cost, noise=noise), queue)


def make_power(
    name: str, *, uplink: Uplink, budget_w: float, v: float, lam: float, draws: int = 1
) -> AbstractPower:
    """The rule of that name: "queue" or "constant"."""
    if name == "queue":
        return QueuePower(uplink=uplink, budget_w=budget_w, v=v, lam=lam, draws=draws)
    if name == "constant":
        return TrackedPower(uplink=uplink, budget_w=budget_w, draws=draws)
    raise UnknownNameError("power", name, POWERS)


def check_size(gain: PerDevice, memory: PerDevice) -> None:
    """Refuse gains for another number of devices than the state was made for."""
    if gain.shape != memory.shape:
        raise InputError(
            f"gain has shape {gain.shape} and the state {memory.shape}; give one gain per device "
            "the state was made for"
        )
