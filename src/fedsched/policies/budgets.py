r"""Budgets: what each device may spend in the mean, each kept by one virtual queue.

A queue holds what was spent beyond the limit: :math:`Z \leftarrow \max(Z + q u - \bar u, 0)`,
where u is what an upload uses. If all queues stay finite, the mean of :math:`q u` is at most
:math:`\bar u` in the long run. The queue is the price of one unit.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.checks import positive_number
from fedsched.solve.power import optimal_power
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice, Plan

__all__ = ["AbstractBudget", "AveragePower"]


class AbstractBudget(ABC):
    """A limit on the mean use of something by each device."""

    name: ClassVar[str]  # what tables, logs and states call it
    unit: ClassVar[str]
    limit: float

    @abstractmethod
    def use(self, plan: Plan) -> PerDevice:
        """What each device uses if it takes part."""

    def spent(self, plan: Plan, probability: PerDevice) -> PerDevice:
        """What each device spends in a round on average: q u; 0 for those out of reach."""
        return self.use(plan) * probability

    def advance(self, queue: PerDevice, plan: Plan, probability: PerDevice) -> PerDevice:
        """The queue after a round."""
        return np.asarray(np.maximum(queue + self.spent(plan, probability) - self.limit, 0.0))


@final
@dataclass(frozen=True)
class AveragePower(AbstractBudget):
    r"""The mean of P q is at most :math:`\bar P` watts: the paper's budget.

    Attributes:
        limit: Pbar, in watts.

    Example:
        >>> plan = Plan(power_w=np.array([8.0, 8.0]), bits=1.0, upload_s=np.ones(2))
        >>> AveragePower(1.0).advance(np.zeros(2), plan, np.array([0.5, 0.0]))
        array([3., 0.])
    """

    limit: float
    name: ClassVar[str] = "power"
    unit: ClassVar[str] = "W"

    def __post_init__(self) -> None:
        positive_number("budget_w", self.limit)

    def use(self, plan: Plan) -> PerDevice:
        """The transmit power."""
        return plan.power_w

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
        at_budget = float(self.queue_for(np.array(gain), self.limit, cost=cost, noise=noise))
        return at_budget + max(max_power_w - self.limit, 0.0)
