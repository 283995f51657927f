"""Published systems in which every device takes part, and what each one does is chosen."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from fedsched.checks import positive_number
from fedsched.errors import InputError
from fedsched.policies.budgets import Energy
from fedsched.policies.designs import AbstractDesign, FullCensus
from fedsched.policies.fdma import Shared, least_energy, least_time_s
from fedsched.policies.uniform import AbstractEqual
from fedsched.values import PerDevice, Plan, spread

__all__ = ["FdmaEnergy", "IncompleteWork"]

_SLACK = 2.0  # times the least time, where no deadline is given


@dataclass(frozen=True, kw_only=True)
class _Everybody(AbstractEqual):
    """Every reachable device in every round.

    Attributes:
        deadline_s: what devices have for a round, or for a part of it.
    """

    deadline_s: float | None = None

    def __post_init__(self) -> None:
        if self.deadline_s is not None:
            positive_number("deadline_s", self.deadline_s)

    @property
    def sampling(self) -> AbstractDesign:
        """Nothing is left to chance."""
        return FullCensus()


@final
@dataclass(frozen=True, kw_only=True)
class FdmaEnergy(_Everybody):
    """The least energy of computing and sending, all at once on shares of the band (Yang et al.).

    Powers, times, shares of the band and clock frequencies are those of
    :func:`~fedsched.policies.fdma.least_energy`. The peak is what the power rule allows. What
    computation takes is ``compute_j`` of the budget of energy; without one it is nothing, and all
    compute at full speed. All end together at the deadline, so the access "ofdma" finds the shares
    again from powers and readiness.

    Attributes:
        deadline_s: of a round, computation and upload. A round that cannot end by then ends as soon
            as it can. None: twice the least time of the round.
    """

    name = "fdma-energy"

    def planned(self, gain: PerDevice, power_w: PerDevice) -> Plan:
        """The split of least energy, at most these powers."""
        link = self.system.link_with_gains(self.name)
        devices, near = len(gain), gain == gain
        energy = next((each for each in self.system.budgets if isinstance(each, Energy)), None)

        def each(value: float | PerDevice) -> PerDevice:
            return np.asarray(np.broadcast_to(value, devices)[near], dtype=np.float64)

        fleet = Shared(
            gain=gain[near],
            peak_w=power_w[near],
            compute_s=each(self.system.compute_s),
            compute_j=each(0.0 if energy is None else energy.compute_j),
            unit_s=link.bits / link.bandwidth_hz,
            noise_w=link.noise_w,
        )
        least_s = least_time_s(fleet)
        split = least_energy(fleet, max(self.deadline_s or _SLACK * least_s, least_s))
        plan = self.system.plan(gain, spread(split.power_w, near, devices, 0.0))
        return replace(plan, cpu=spread(split.cpu, near, devices, 1.0))


@final
@dataclass(frozen=True, kw_only=True)
class IncompleteWork(_Everybody):
    r"""Everybody, with as many local steps as fit into a deadline (Ruan et al., scheme C).

    Of its K steps a device that computes for c seconds takes :math:`s = \lfloor K d / c \rfloor` by
    the deadline d, at least one and at most K. Its update counts for :math:`p K / s`: fewer steps
    move a model less far, and the factor makes up for it, to first order in the step size.

    Attributes:
        deadline_s: d, of the computation. None: half of the devices finish all their steps.
    """

    name = "incomplete-work"

    def __post_init__(self) -> None:
        super().__post_init__()
        given, common_s = self.deadline_s, self.system.compute_s
        if given is not None and not isinstance(common_s, np.ndarray) and given < common_s:
            raise InputError(
                f"policy.deadline_s = {given} is shorter than the {common_s} s that all devices "
                "compute alike, so all would do as little; give them times of their own with "
                "uplink.computation_s or a fleet, or a longer deadline"
            )

    def planned(self, gain: PerDevice, power_w: PerDevice) -> Plan:
        """As many steps as fit."""
        plan, compute_s = self.system.plan(gain, power_w), self.system.compute_s
        if not isinstance(compute_s, np.ndarray):
            return plan
        deadline_s = float(np.median(compute_s)) if self.deadline_s is None else self.deadline_s
        steps = self.system.steps
        fitting = np.divide(
            steps * deadline_s, compute_s, out=np.full(len(gain), np.inf), where=compute_s > 0.0
        )
        # What is a whole number but for its last digits is that number.
        done = np.clip(np.floor(fitting * (1.0 + 1e-12)), 1.0, steps)
        return replace(plan, work=done / steps)

    def counted(self, plan: Plan, share: PerDevice) -> PerDevice:
        """The share of the data, p K / s."""
        return share / plan.work
