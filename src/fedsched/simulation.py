"""The round loop, as generators of rounds. Read this file first.

channel -> decision -> cohort -> (training -> aggregation) -> clock -> queues -> run log
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.core.uplink import Uplink
from fedsched.errors import InputError
from fedsched.learning.aggregation import aggregate
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.updates import LocalUpdate
from fedsched.randomness import stream
from fedsched.records import ScheduledRound, TrainedRound
from fedsched.scheduling.policies import AbstractPolicy, PolicyState
from fedsched.wireless import AbstractChannel, ChannelState

__all__ = ["ScheduleState", "schedule", "start", "train"]

_log = logging.getLogger(__name__)


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


def train(
    rounds: Iterator[tuple[ScheduledRound, ScheduleState]],
    *,
    pool: AbstractTrainingPool,
    parameters: NDArray[np.float32],
    eval_every: int,
    last_round: int,
) -> Iterator[tuple[TrainedRound, ScheduleState]]:
    r"""Algorithm 1 over a schedule: each round with the model after it, and the schedule's state.

    .. math:: x \leftarrow x + \sum_{n \in \text{cohort}} w_n (y_n - x), \quad w_n = p_n / q_n .

    Only the cohort computes. The model is evaluated every ``eval_every`` rounds and after
    ``last_round``, where the generator ends.
    """
    for scheduled, state in rounds:
        t, cohort = scheduled.round, scheduled.cohort
        weights, losses = cohort.weight.tolist(), list[float]()
        updates = _noting(pool.train_cohort(parameters, cohort.device, t), losses)
        deltas = (update.delta for update in updates)
        parameters, rejected = aggregate(parameters, zip(weights, deltas, strict=True))
        if rejected:
            _log.warning(
                "round %d: the update of device %s is not finite and was left out",
                t,
                ", ".join(str(cohort.device[position]) for position in rejected),
            )
        kept = [
            weight * loss
            for place, (weight, loss) in enumerate(zip(weights, losses, strict=True))
            if place not in rejected
        ]
        due = (t + 1) % eval_every == 0 or t == last_round
        evaluation = pool.evaluate(parameters) if due else None
        yield (
            TrainedRound(
                scheduled=scheduled,
                parameters=parameters,
                rejected=len(rejected),
                train_loss=math.fsum(kept) if kept else math.nan,
                accuracy=math.nan if evaluation is None else evaluation.accuracy,
                test_loss=math.nan if evaluation is None else evaluation.loss,
            ),
            state,
        )
        if t >= last_round:
            return


def _noting(updates: Iterator[LocalUpdate], losses: list[float]) -> Iterator[LocalUpdate]:
    """Pass updates through, one at a time, and keep their losses."""
    for update in updates:
        losses.append(update.loss)
        yield update
