"""The system a policy schedules: the link, its access, the budgets, and whose data count how much.

A new property of the world is one field here; every policy has the system.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import finite_array, positive_number
from fedsched.errors import InputError
from fedsched.policies.budgets import AbstractBudget, AveragePower
from fedsched.radio.access import TDMA, AbstractAccess
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice, Plan

__all__ = ["System", "reachable_gains"]


@dataclass(frozen=True, kw_only=True)
class System:
    """What a policy schedules.

    Attributes:
        link: the link that is shared.
        power: the average-power budget of every device.
        access: how a cohort shares the link.
        compute_s: seconds of computation a round.
        data_weight: p, each device's share of the data; equal shares if None.
    """

    link: Uplink
    power: AveragePower = AveragePower(1.0)
    access: AbstractAccess = TDMA()
    compute_s: float = 0.0
    data_weight: PerDevice | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        positive_number("compute_s", self.compute_s, allow_zero=True)
        object.__setattr__(self, "data_weight", _checked_shares(self.data_weight))

    @property
    def budgets(self) -> tuple[AbstractBudget, ...]:
        """All budgets that devices have."""
        return (self.power,)

    def plan(self, gain: PerDevice, power_w: PerDevice) -> Plan:
        """What each device does at this power; NaN gains cannot send."""
        return Plan(
            power_w=power_w,
            bits=self.link.bits,
            compute_s=self.compute_s,
            upload_s=np.nan_to_num(self.link.airtime_s(gain, power_w), nan=np.inf, posinf=np.inf),
        )

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
