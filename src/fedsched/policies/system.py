"""The system a policy schedules: the link, its access, the budgets, and whose data count how much.

A new property of the world is one field here; every policy has the system.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import finite_array, positive_each
from fedsched.errors import InputError
from fedsched.policies.budgets import AbstractBudget, AveragePower
from fedsched.radio.access import TDMA, AbstractAccess
from fedsched.solve.uplink import AbstractLink, Uplink
from fedsched.values import Cohort, PerDevice, Plan

__all__ = ["System", "reachable_gains"]


@dataclass(frozen=True, kw_only=True)
class System:
    """What a policy schedules.

    Attributes:
        link: the link that is shared.
        budgets: what every device may spend, each of another kind.
        peak_w: the peak power of each device; that of the link for all if None.
        access: how a cohort shares the link.
        compute_s: seconds of computation a round, in the mean; one number for all, or one each.
        data_weight: p, each device's share of the data; equal shares if None.
        steps: K, the local steps of a round.
    """

    link: AbstractLink
    budgets: tuple[AbstractBudget, ...] = (AveragePower(1.0),)
    peak_w: PerDevice | None = field(default=None, compare=False)
    access: AbstractAccess = TDMA()
    compute_s: float | PerDevice = field(default=0.0, compare=False)
    data_weight: PerDevice | None = field(default=None, compare=False)
    steps: int = 10

    def __post_init__(self) -> None:
        positive_each("compute_s", self.compute_s, allow_zero=True)
        object.__setattr__(self, "data_weight", _checked_shares(self.data_weight))
        if self.peak_w is not None:
            finite_array("peak_w", self.peak_w, allow_zero=False)
        names = [budget.name for budget in self.budgets]
        if len(set(names)) < len(names):
            raise InputError(
                f"budgets must be of different kinds, got {', '.join(names)}; of one kind only the "
                "tightest can bind, so give that one"
            )

    @property
    def power(self) -> AveragePower | None:
        """The budget of average power, if there is one."""
        return next((each for each in self.budgets if isinstance(each, AveragePower)), None)

    @property
    def max_power_w(self) -> float | PerDevice:
        """The peak power: one for all, or one each."""
        return self.link.max_power_w if self.peak_w is None else self.peak_w

    @property
    def mean_power_w(self) -> float | PerDevice:
        """What a device may send with in every round; the peak where no budget of power is."""
        return self.max_power_w if self.power is None else self.power.limit

    @property
    def is_papers(self) -> bool:
        """Whether it is the paper's: one power budget and one peak for all, over a known gain.

        Then a round is one call of the kernel.
        """
        return (
            isinstance(self.link, Uplink)
            and self.peak_w is None
            and self.power is not None
            and len(self.budgets) == 1
            and np.ndim(self.power.limit) == 0
        )

    @property
    def common_s(self) -> float:
        """The computation that all devices have in common: the least of theirs."""
        return float(np.min(self.compute_s))

    @property
    def late_s(self) -> PerDevice | None:
        """How much longer than the fastest each device computes; None where all are alike."""
        return self.compute_s - self.common_s if isinstance(self.compute_s, np.ndarray) else None

    @property
    def in_turn(self) -> bool:
        """Whether a device adds its own upload to a round, whoever else takes part."""
        return isinstance(self.access, TDMA) and self.late_s is None

    def link_with_gains(self, policy: str) -> Uplink:
        """The link, refused unless its devices have a signal-to-noise ratio."""
        if not isinstance(self.link, Uplink):
            raise InputError(
                f"policy {policy!r} asks how strong signals are, and a {type(self.link).__name__} "
                "has rates alone; take a channel of gains, or another policy"
            )
        return self.link

    def plan(self, gain: PerDevice, power_w: PerDevice, like: Plan | None = None) -> Plan:
        """What each device does at this power, in the sizes of another plan if one is given.

        NaN gains cannot send.
        """
        airtime_s = self.link.airtime_s(gain, power_w)
        upload_s = np.where(np.isnan(airtime_s), np.inf, airtime_s)
        if like is not None and np.ndim(like.size) > 0:
            upload_s = upload_s * (like.bits / self.link.bits)
            return replace(like, power_w=power_w, upload_s=upload_s)
        return Plan(
            power_w=power_w, bits=self.link.bits, compute_s=self.compute_s, upload_s=upload_s
        )

    def round_s(self, plan: Plan, cohort: Cohort) -> float:
        """Seconds of a round, as the clock counts them."""
        device, late_s, upload_s = cohort.device, self.late_s, plan.upload_s[cohort.device]
        if isinstance(plan.pace, np.ndarray):
            return self.access.uploads_s(upload_s, (self.compute_s * plan.pace)[device])
        ready_s = None if late_s is None else late_s[device]
        return self.common_s + self.access.uploads_s(upload_s, ready_s)

    def shares(self, devices: int) -> PerDevice:
        """Each device's share of the data: 1/N unless given."""
        if self.data_weight is None:
            return np.full(devices, 1.0 / devices)
        if len(self.data_weight) != devices:
            raise InputError(
                f"data_weight has {len(self.data_weight)} values for {devices} devices; give one "
                "per device"
            )
        return self.data_weight


def _checked_shares(data_weight: PerDevice | None) -> PerDevice | None:
    """A read-only copy of the shares of the data, refused unless they are shares."""
    if data_weight is None:
        return None
    shares = finite_array("data_weight", data_weight, allow_zero=False).copy()
    if shares.ndim != 1 or abs(shares.sum() - 1.0) > 1e-9:
        raise InputError(
            f"data_weight must hold one share per device that together make 1, got shape "
            f"{shares.shape} and sum {shares.sum():.12g}; divide the data sizes by their sum"
        )
    shares.setflags(write=False)
    return shares


def reachable_gains(gain: PerDevice) -> tuple[NDArray[np.bool_], PerDevice]:
    """Which devices can be reached, and their gains, refused unless positive and finite."""
    reachable = gain == gain  # not NaN
    known = gain if reachable.all() else gain[reachable]
    if len(known) and not (known.min() > 0.0 and known.max() < np.inf):
        bad = int(np.flatnonzero(reachable & ~((gain > 0.0) & (gain < np.inf)))[0])
        raise InputError(
            f"gain[{bad}] must be positive and finite, or NaN for a device out of reach, "
            f"got {gain[bad]}"
        )
    return reachable, known
