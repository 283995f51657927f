"""The round loop, as generators of rounds. Read this file first.

channel -> decision -> cohort -> (training -> aggregation) -> clock -> queues -> run log
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedsched.core.uplink import Uplink
from fedsched.errors import InputError
from fedsched.randomness import stream
from fedsched.records import ScheduledRound
from fedsched.scheduling.policies import AbstractPolicy, PolicyState
from fedsched.wireless import AbstractChannel, ChannelState

__all__ = ["ScheduleState", "schedule", "start"]


@dataclass(frozen=True, kw_only=True)
class ScheduleState:
    """Everything the next round depends on besides the seed."""

    round: int
    channel: ChannelState
    policy: PolicyState


def start(*, channel: AbstractChannel, policy: AbstractPolicy, seed: int) -> ScheduleState:
    """The state before the first round."""
    return ScheduleState(
        round=0,
        channel=channel.init(stream(seed, "channel")),
        policy=policy.init(channel.devices),
    )


def schedule(
    *,
    channel: AbstractChannel,
    policy: AbstractPolicy,
    uplink: Uplink,
    seed: int,
    state: ScheduleState | None = None,
) -> Iterator[tuple[ScheduledRound, ScheduleState]]:
    """Rounds without end, each with the state after it.

    The channel of round t comes from ``stream(seed, "channel", t)`` and the cohort from
    ``stream(seed, "sampling", t)``: policies compared under one seed see the same channel, and a
    run resumed from any state goes on as if it had never stopped.
    """
    current = start(channel=channel, policy=policy, seed=seed) if state is None else state
    while True:
        t = current.round
        gain, channel_state = channel.step(current.channel, stream(seed, "channel", t))
        decision, policy_state = policy.decide(gain, current.policy)
        cohort = policy.draw(decision, stream(seed, "sampling", t))
        upload_s = uplink.airtime_s(gain[cohort.device], decision.power_w[cohort.device])
        if not np.isfinite(upload_s).all():
            raise InputError(
                f"round {t}: device {int(cohort.device[~np.isfinite(upload_s)][0])} was chosen "
                "with no power or no gain; give every reachable device a positive gain"
            )
        done = ScheduledRound(
            round=t,
            gain=gain,
            queue=current.policy.get("queue"),
            decision=decision,
            cohort=cohort,
            upload_s=upload_s,
        )
        current = ScheduleState(round=t + 1, channel=channel_state, policy=policy_state)
        yield done, current
