r"""Budgets: what each device may spend in the mean, each kept by one virtual queue.

A queue holds what was spent beyond the limit: :math:`Z \leftarrow \max(Z + q u - \bar u, 0)`,
where u is what an upload uses. If all queues stay finite, the mean of :math:`q u` is at most
:math:`\bar u` in the long run. The queue is the price of one unit.

A limit is of a round, or of a second: a battery that must last for a day has so many joules a
second. What a round allows is then the limit times its seconds.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.checks import one_of, positive_each
from fedsched.solve.power import Tariff, optimal_power
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice, Plan

__all__ = [
    "BUDGETS",
    "PERIODS",
    "AbstractBudget",
    "Airtime",
    "AveragePower",
    "Energy",
    "Participation",
    "Traffic",
]

PERIODS = ("round", "second")


@dataclass(frozen=True)
class AbstractBudget(ABC):
    """A limit on the mean use of something by each device.

    Attributes:
        limit: what a device may use; one number for all, or one each.
        per: "round", or "second" of the clock.
    """

    limit: float | PerDevice
    per: str = "round"

    name: ClassVar[str]  # what tables, logs and states call it
    unit: ClassVar[str]

    def __post_init__(self) -> None:
        positive_each(self.field, self.limit)
        one_of("per", self.per, PERIODS)

    @property
    def field(self) -> str:
        """What errors call the limit."""
        return f"the limit of {self.name}"

    @abstractmethod
    def use(self, plan: Plan) -> PerDevice:
        """What each device uses if it takes part."""

    def tariff(self, price: PerDevice) -> Tariff:
        """What a second, a watt and a joule cost if a unit of this budget has this price."""
        del price
        return Tariff()

    def allowance(self, round_s: float) -> float | PerDevice:
        """What a round of so many seconds allows."""
        return self.limit * self.rounds(round_s)

    def rounds(self, round_s: float) -> float:
        """How many limits a round of so many seconds allows."""
        return 1.0 if self.per == "round" else round_s

    def spent(self, plan: Plan, probability: PerDevice) -> PerDevice:
        """What each device spends in a round on average: q u; 0 for those out of reach."""
        use = self.use(plan)
        return np.multiply(
            use, probability, out=np.zeros(len(probability)), where=probability > 0.0
        )

    def advance(
        self, queue: PerDevice, plan: Plan, probability: PerDevice, round_s: float = 0.0
    ) -> PerDevice:
        """The queue after a round."""
        over = queue + self.spent(plan, probability) - self.allowance(round_s)
        return np.asarray(np.maximum(over, 0.0))


@final
@dataclass(frozen=True)
class AveragePower(AbstractBudget):
    r"""The mean of P q is at most :math:`\bar P` watts: the paper's budget.

    Attributes:
        limit: Pbar, in watts.
        per: "round"; the paper's mean is over rounds.

    Example:
        >>> plan = Plan(power_w=np.array([8.0, 8.0]), bits=1.0, upload_s=np.ones(2))
        >>> AveragePower(1.0).advance(np.zeros(2), plan, np.array([0.5, 0.0]))
        array([3., 0.])
    """

    name: ClassVar[str] = "power"
    unit: ClassVar[str] = "W"

    @property
    def field(self) -> str:
        """What errors call the limit."""
        return "budget_w"

    def use(self, plan: Plan) -> PerDevice:
        """The transmit power."""
        return plan.power_w

    def tariff(self, price: PerDevice) -> Tariff:
        """A watt has the price."""
        return Tariff(watt=price)

    def best_power_w(
        self, gain: PerDevice, queue: PerDevice, *, cost: float, link: Uplink, as_printed: bool
    ) -> PerDevice:
        r"""Theorem 2: the power that minimises :math:`c / \log_2(1 + g P / N_0) + Z P`."""
        return optimal_power(
            gain, queue,
            cost=cost, noise=link.noise_w, max_power=link.max_power_w, as_printed=as_printed,
        )  # fmt: skip

    def queue_for(
        self, gain: PerDevice, power_w: PerDevice | float, *, cost: float, noise: float
    ) -> PerDevice:
        r"""The queue at which Theorem 2 gives this power: :math:`Z = c g \ln 2/(N_0 x \ln^2 x)`.

        Here :math:`x = 1 + g P / N_0` and :math:`c = V \lambda \ell / B`.

        Example:
            >>> z = AveragePower(1.0).queue_for(np.array([2.0]), 5.0, cost=10.0, noise=1.0)
            >>> optimal_power([2.0], z, cost=10.0, noise=1.0, max_power=100.0).round(12)
            array([5.])
        """
        snr = gain * power_w / noise
        return np.asarray(cost * gain * np.log(2.0) / (noise * (1.0 + snr) * np.log1p(snr) ** 2))

    def longest_queue(self, gain: float, *, max_power_w: float, cost: float, noise: float) -> float:
        r"""What no queue of Theorem 2 exceeds that began below it, if no gain is below this one.

        At :math:`Z(\bar P, g)` or above (:meth:`queue_for`) the power is at most the budget and
        the queue does not grow; below it, it grows by :math:`P_{\max} - \bar P` at most. So
        :math:`Z \le Z(\bar P, g) + P_{\max} - \bar P`, whoever is chosen and for however long:
        the mean power exceeds the budget by at most this over T. It is linear in V.

        Example:
            >>> AveragePower(1.0).longest_queue(1.0, max_power_w=10.0, cost=0.0, noise=1.0)
            9.0
        """
        least = float(np.min(self.limit))
        at_budget = float(self.queue_for(np.array(gain), least, cost=cost, noise=noise))
        return at_budget + max(max_power_w - least, 0.0)


@final
@dataclass(frozen=True)
class Energy(AbstractBudget):
    r"""The mean energy of uploads: :math:`u = (P + P_c) \tau + E_c` joules.

    A device that takes a share w of its local steps, at a share f of its clock frequency, takes
    :math:`w f^2 E_c` for them.

    Attributes:
        limit: joules.
        circuit_w: P_c, what a device draws besides while it is on air.
        compute_j: E_c, what the computation of a round takes from the same battery.

    Example:
        >>> plan = Plan(power_w=np.array([2.0]), bits=1.0, upload_s=np.array([3.0]))
        >>> Energy(1.0, circuit_w=0.5).use(plan)
        array([7.5])
    """

    circuit_w: float | PerDevice = 0.0
    compute_j: float | PerDevice = 0.0
    name: ClassVar[str] = "energy"
    unit: ClassVar[str] = "J"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_each("circuit_w", self.circuit_w, allow_zero=True)
        positive_each("compute_j", self.compute_j, allow_zero=True)

    def use(self, plan: Plan) -> PerDevice:
        """Joules of one round in which a device takes part."""
        on_air_s = np.where(np.isfinite(plan.upload_s), plan.upload_s, 0.0)  # 0: out of reach
        compute_j = self.compute_j * (plan.work * plan.cpu**2)
        return (plan.power_w + self.circuit_w) * on_air_s + compute_j

    def tariff(self, price: PerDevice) -> Tariff:
        """A joule has the price, and a second that of the circuit's joules."""
        return Tariff(joule=price, second=price * self.circuit_w)


@final
@dataclass(frozen=True)
class Airtime(AbstractBudget):
    """The mean time on air. Of a second it is a duty cycle: LoRa's is 0.01.

    Example:
        >>> plan = Plan(power_w=np.ones(1), bits=1.0, upload_s=np.array([3.0]))
        >>> Airtime(0.01, per="second").advance(np.zeros(1), plan, np.array([0.5]), round_s=100.0)
        array([0.5])
    """

    name: ClassVar[str] = "airtime"
    unit: ClassVar[str] = "s"

    def use(self, plan: Plan) -> PerDevice:
        """The seconds of its upload."""
        return plan.upload_s

    def tariff(self, price: PerDevice) -> Tariff:
        """A second has the price."""
        return Tariff(second=price)


@final
@dataclass(frozen=True)
class Traffic(AbstractBudget):
    """The mean bytes that a device sends: a data plan.

    Example:
        >>> plan = Plan(power_w=np.ones(2), bits=8000.0, upload_s=np.ones(2))
        >>> Traffic(100.0).spent(plan, np.array([0.1, 0.0]))
        array([100.,   0.])
    """

    name: ClassVar[str] = "bytes"
    unit: ClassVar[str] = "B"

    def use(self, plan: Plan) -> PerDevice:
        """The bytes of its update."""
        return np.broadcast_to(plan.bits, plan.power_w.shape) / 8.0


@final
@dataclass(frozen=True)
class Participation(AbstractBudget):
    """How often a device takes part: a share of the rounds, or times a second.

    Example:
        >>> plan = Plan(power_w=np.ones(1), bits=1.0, upload_s=np.ones(1))
        >>> Participation(0.25).spent(plan, np.array([0.5]))
        array([0.5])
    """

    name: ClassVar[str] = "participation"
    unit: ClassVar[str] = "times"

    def use(self, plan: Plan) -> PerDevice:
        """One."""
        return np.ones(plan.power_w.shape)


BUDGETS = (AveragePower, Energy, Airtime, Traffic, Participation)
