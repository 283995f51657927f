"""What a schedule amounts to: sums over rounds, kept while they go by."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.policies.budgets import AbstractBudget
from fedsched.policies.ledger import entered, first_entries, uses
from fedsched.values import PerDevice, ScheduledRound, Use

__all__ = ["ScheduleSummary", "ScheduleTally"]


@dataclass(frozen=True, kw_only=True)
class ScheduleSummary:
    """The figures by which schedules are compared."""

    airtime_s_per_round: float
    devices_per_round: float
    # Over rounds and reachable devices: the convergence term; None without probabilities.
    mean_inverse_probability: float | None
    # Largest time average of P q over devices, and its mean over them; NaN if nobody knows powers.
    worst_mean_power_w: float
    mean_power_w: float
    worst_residual: float  # largest optimality residual of any round
    lost_share: float | None  # of the uploads, those that did not arrive; None where all must
    rounds: int

    def as_dict(self) -> dict[str, Any]:
        """The fields by name; what has no value is None."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


class ScheduleTally:
    """Running sums of a schedule; a pure function of the rounds it was shown."""

    def __init__(self, devices: int, budgets: Sequence[AbstractBudget] = ()) -> None:
        self._devices = devices
        self._budgets = budgets
        self._entries = first_entries(budgets, devices)
        self.tuning: Mapping[str, float] = {}  # what the policy has set itself by now
        self._power_sum = np.zeros(devices)
        self._selected = np.zeros(devices, dtype=np.int64)
        self._inverse_sum = 0.0
        self._inverse_count = 0
        self._worst_residual = 0.0
        self._airtime_s: list[float] = []
        self._size: list[int] = []
        self._lost: int | None = None
        self._mean_power_w: list[float] = []
        self._worst_power_w: list[float] = []

    def add(self, done: ScheduledRound) -> None:
        """Count one round."""
        self.tuning = done.tuning
        q = done.decision.probability
        self._entries = entered(self._entries, done)
        self._power_sum += q * done.decision.power_w
        self._selected[done.cohort.device] += 1
        reachable = q[q > 0.0]
        if not done.decision.deterministic:
            self._inverse_sum += float((1.0 / reachable).sum())
            self._inverse_count += len(reachable)
        self._worst_residual = max(self._worst_residual, done.decision.residual)
        self._airtime_s.append(done.airtime_s)
        self._size.append(done.cohort.size)
        if done.arrived is not None:
            self._lost = (self._lost or 0) + int((~done.arrived).sum())
        rounds = len(self._size)
        self._mean_power_w.append(float(self._power_sum.mean()) / rounds)
        self._worst_power_w.append(float(self._power_sum.max()) / rounds)

    @property
    def rounds(self) -> int:
        """Rounds counted so far."""
        return len(self._size)

    @property
    def selection_frequency(self) -> PerDevice:
        """How often each device took part, per round."""
        return self._selected / max(self.rounds, 1)

    @property
    def size_distribution(self) -> NDArray[np.float64]:
        """How often a cohort had 0, 1, 2, ... devices, per round."""
        return np.bincount(self._size) / max(self.rounds, 1)

    @property
    def mean_power_w(self) -> NDArray[np.float64]:
        """After each round, the time average of P q, averaged over devices."""
        return np.array(self._mean_power_w)

    @property
    def worst_power_w(self) -> NDArray[np.float64]:
        """After each round, the largest time average of P q of any device."""
        return np.array(self._worst_power_w)

    @property
    def uses(self) -> tuple[Use, ...]:
        """Each budget, with the device that used most of what it was allowed."""
        return uses(self._entries, self._budgets)

    def summary(self) -> ScheduleSummary:
        """The figures so far."""
        rounds = max(self.rounds, 1)
        return ScheduleSummary(
            airtime_s_per_round=float(np.sum(self._airtime_s)) / rounds,
            devices_per_round=float(np.sum(self._size)) / rounds,
            mean_inverse_probability=self._inverse_sum / self._inverse_count
            if self._inverse_count
            else None,
            worst_mean_power_w=float(self._power_sum.max()) / rounds,
            mean_power_w=float(self._power_sum.mean()) / rounds,
            worst_residual=self._worst_residual,
            lost_share=None if self._lost is None else self._lost / max(sum(self._size), 1),
            rounds=self.rounds,
        )
