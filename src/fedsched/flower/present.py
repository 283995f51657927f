"""One round on air over the devices that are present, out of all that were ever heard of."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsched.core.uplink import Uplink
from fedsched.policies import AbstractPolicy, PolicyState
from fedsched.radio import AbstractMemorylessChannel
from fedsched.rounds import FEEDBACK_BITS, Measure, ScheduleState, schedule_round
from fedsched.values import Cohort, Decision, PerDevice, ScheduledRound

__all__ = ["grown", "merged", "part_of", "schedule_present"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Reported(AbstractMemorylessChannel):
    """The channel as the nodes have reported it."""

    gain: PerDevice

    @property
    def devices(self) -> int:
        return len(self.gain)

    def draw(self, rng: np.random.Generator) -> PerDevice:
        del rng
        return self.gain


def schedule_present(
    *,
    policy: AbstractPolicy,
    uplink: Uplink,
    seed: int,
    round: int,  # noqa: A002 - the project's word for t
    gain: PerDevice,
    present: NDArray[np.int64],
    state: PolicyState,
    measure: Measure,
) -> tuple[ScheduledRound, PolicyState]:
    """Decide and draw among the present devices; the others are as if they were not there.

    Args:
        policy: decides.
        uplink: the shared link.
        seed: of cohorts.
        round: which one, from 0.
        gain: of all devices.
        present: those that can be chosen, ascending.
        state: of the policy, for all devices; that of the others does not move.
        measure: asks devices, by number, what the policy wants to know.
    """
    devices = len(gain)
    if not len(present):
        return _nobody(round, devices), state
    done, after = schedule_round(
        channel=_Reported(gain=gain[present]),
        policy=policy,
        uplink=uplink,
        seed=seed,
        state=ScheduleState(
            round=round, channel={}, policy=part_of(policy, state, devices, present)
        ),
        measure=lambda kind, places: measure(kind, present[places]),
        feedback_bits=FEEDBACK_BITS,
    )
    whole = _over_all(done, present, devices)
    return whole, merged(policy, state, after.policy, devices, present)


def _nobody(t: int, devices: int) -> ScheduledRound:
    """A round in which no device is there."""
    none = np.zeros(devices)
    return ScheduledRound(
        round=t,
        gain=np.full(devices, np.nan),
        queue=None,
        decision=Decision(probability=none, draw_probability=None, power_w=none, residual=0.0),
        cohort=Cohort(device=np.empty(0, dtype=np.int64), weight=np.empty(0)),
        upload_s=np.empty(0),
    )


def _over_all(done: ScheduledRound, present: NDArray[np.int64], devices: int) -> ScheduledRound:
    """A round of the present devices as one of all: those who are not there have q = 0."""
    decision, cohort = done.decision, done.cohort

    def spread(value: PerDevice, fill: float = 0.0) -> PerDevice:
        whole = np.full(devices, fill)
        whole[present] = value
        return whole

    return replace(
        done,
        gain=spread(done.gain, np.nan),
        queue=None if done.queue is None else spread(done.queue),
        decision=Decision(
            probability=spread(decision.probability),
            draw_probability=None,
            power_w=spread(decision.power_w),
            residual=decision.residual,
            deterministic=decision.deterministic,
        ),
        cohort=replace(cohort, device=present[cohort.device]),
    )


# --- a policy's state over devices that come and go ---------------------------------------


def _per_device(policy: AbstractPolicy, devices: int) -> set[str]:
    """Which arrays of a policy's state have one row a device."""
    now, more = policy.init(devices), policy.init(devices + 1)
    return {name for name in now if now[name].shape != more[name].shape}


def grown(policy: AbstractPolicy, state: PolicyState, before: int, devices: int) -> PolicyState:
    """The state with new devices at its end, which start as every device did: an empty queue."""
    if devices == before:
        return state
    begin = policy.init(devices)
    if before == 0:
        return begin
    larger = dict(state)
    for name in _per_device(policy, before):
        fresh = begin[name][before:]
        if fresh.shape[1:] != state[name].shape[1:]:  # rows that were empty until they were used
            fresh = np.zeros((devices - before, *state[name].shape[1:]))
        larger[name] = np.concatenate([state[name], fresh])
    return larger


def part_of(
    policy: AbstractPolicy, state: PolicyState, devices: int, chosen: NDArray[np.int64]
) -> PolicyState:
    """The state of some devices alone."""
    rows = _per_device(policy, devices)
    return {name: value[chosen] if name in rows else value for name, value in state.items()}


def merged(
    policy: AbstractPolicy,
    state: PolicyState,
    part: PolicyState,
    devices: int,
    chosen: NDArray[np.int64],
) -> PolicyState:
    """The state of all devices after some have moved on; the others stay as they were."""
    rows = _per_device(policy, devices)
    whole = dict(part)
    for name in rows:
        old = state[name]
        if old.shape[1:] != part[name].shape[1:]:
            old = np.zeros((devices, *part[name].shape[1:]))
        whole[name] = old.copy()
        whole[name][chosen] = part[name]
    return whole
