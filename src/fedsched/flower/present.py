"""One round on air over the devices that are present, out of all that were ever heard of."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsched.policies import AbstractPolicy, PolicyState
from fedsched.policies.base import nobody
from fedsched.radio import AbstractMemorylessChannel
from fedsched.rounds import Air, Measure, ScheduleState, schedule_round
from fedsched.solve.uplink import AbstractLink
from fedsched.values import PerDevice, ScheduledRound, spread

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
    uplink: AbstractLink,
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
        Air(channel=_Reported(gain=gain[present]), policy=policy, uplink=uplink, seed=seed),
        ScheduleState(round=round, channel={}, policy=part_of(policy, state, present)),
        lambda kind, places: measure(kind, present[places]),
    )
    whole = _over_all(done, present, devices)
    return whole, merged(policy, state, after.policy, present)


def _nobody(t: int, devices: int) -> ScheduledRound:
    """A round in which no device is there."""
    return ScheduledRound(
        round=t,
        gain=np.full(devices, np.nan),
        decision=nobody(devices),
        upload_s=np.empty(0),
        uploads_s=0.0,
    )


def _over_all(done: ScheduledRound, present: NDArray[np.int64], devices: int) -> ScheduledRound:
    """A round of the present devices as one of all: those who are not there have q = 0."""
    decision, cohort = done.decision, done.cohort
    return replace(
        done,
        gain=spread(done.gain, present, devices, np.nan),
        queues={name: spread(z, present, devices, 0.0) for name, z in done.queues.items()},
        decision=replace(
            decision,
            plan=decision.plan.among(present, devices),
            probability=spread(decision.probability, present, devices, 0.0),
            draw_probability=None,
            cohort=replace(cohort, device=present[cohort.device]),
        ),
    )


# --- a policy's state over devices that come and go ---------------------------------------


def _per_device(policy: AbstractPolicy, state: PolicyState) -> set[str]:
    """Which arrays of a policy's state have one row a device."""
    return state.keys() - policy.shared_state


def grown(policy: AbstractPolicy, state: PolicyState, before: int, devices: int) -> PolicyState:
    """The state with new devices at its end, which start as every device did: an empty queue."""
    if devices == before:
        return state
    begin = policy.init(devices)
    if before == 0:
        return begin
    larger = dict(state)
    for name in _per_device(policy, state):
        fresh = begin[name][before:]
        if fresh.shape[1:] != state[name].shape[1:]:  # rows that were empty until they were used
            fresh = np.zeros((devices - before, *state[name].shape[1:]))
        larger[name] = np.concatenate([state[name], fresh])
    return larger


def part_of(policy: AbstractPolicy, state: PolicyState, chosen: NDArray[np.int64]) -> PolicyState:
    """The state of some devices alone."""
    rows = _per_device(policy, state)
    return {name: value[chosen] if name in rows else value for name, value in state.items()}


def merged(
    policy: AbstractPolicy, state: PolicyState, part: PolicyState, chosen: NDArray[np.int64]
) -> PolicyState:
    """The state of all devices after some have changed; the others stay as they were."""
    whole = dict(part)
    for name in _per_device(policy, part):
        old = state[name]
        if old.shape[1:] != part[name].shape[1:]:
            old = np.zeros((len(old), *part[name].shape[1:]))
        whole[name] = old.copy()
        whole[name][chosen] = part[name]
    return whole
