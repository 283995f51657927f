"""The round loop, as generators of rounds. Read this file first.

channel -> decision -> cohort -> (training -> aggregation) -> clock -> queues -> run log
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.core.uplink import Uplink
from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.aggregation import (
    AGGREGATORS,
    aggregate,
    aggregate_with_memory,
    empty_memory,
    running_mean,
)
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.updates import LocalUpdate
from fedsched.policies import (
    CHANCES,
    AbstractChoicePolicy,
    AbstractPolicy,
    Need,
    PolicyState,
)
from fedsched.radio import AbstractChannel, ChannelState
from fedsched.randomness import stream
from fedsched.values import Cohort, Experience, Feedback, ScheduledRound, TrainedRound

__all__ = [
    "FEEDBACK_BITS",
    "Measure",
    "ScheduleState",
    "schedule",
    "schedule_round",
    "start",
    "train",
]

FEEDBACK_BITS = 64.0  # of one report: a number in double precision

_log = logging.getLogger(__name__)

# What is asked ("loss", "batch-loss", "norm") and of whom, to the answers.
Measure: TypeAlias = Callable[[str, NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class ScheduleState:
    """Everything the next round depends on besides the seed."""

    round: int
    channel: ChannelState
    policy: PolicyState
    # Of training: what the aggregator remembers, the mean of the models if one is kept, and the sum
    # of P q of each device.
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)


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
    """Rounds without end, each with the state after it, for policies that need no training.

    The channel of round t comes from ``stream(seed, "channel", t)`` and the cohort from
    ``stream(seed, "sampling", t)``: policies compared under one seed see the same channel, and a
    run resumed from any state goes on as if it had never stopped.
    """
    if needed := policy.needs - {Need.GAIN}:
        raise InputError(
            f"policy {policy.name!r} reads {' and '.join(sorted(n.value for n in needed))} from "
            "training, which a schedule alone does not have; use it in a scenario of `fedsched "
            "run` or with `fedsched compare`"
        )
    current = start(channel=channel, policy=policy, seed=seed) if state is None else state
    while True:
        done, current = schedule_round(
            channel=channel, policy=policy, uplink=uplink, seed=seed, state=current
        )
        yield done, current


def schedule_round(
    *,
    channel: AbstractChannel,
    policy: AbstractPolicy,
    uplink: Uplink,
    seed: int,
    state: ScheduleState,
    measure: Measure | None = None,
    feedback_bits: float = FEEDBACK_BITS,
) -> tuple[ScheduledRound, ScheduleState]:
    """One round on air: gains, reports, decision, cohort."""
    t = state.round
    gain, channel_state = channel.step(state.channel, stream(seed, "channel", t))
    asked = np.empty(0, dtype=np.int64)
    if isinstance(policy, AbstractChoicePolicy):
        chance = stream(seed, "policy", t).random((CHANCES, len(gain)))
        asked = policy.ask(gain, state.policy, chance)
        feedback = _feedback(policy, asked, chance, measure, t)
        decision, policy_state = policy.decide(gain, state.policy, feedback)
    else:
        decision, policy_state = policy.decide(gain, state.policy)
    cohort = policy.draw(decision, stream(seed, "sampling", t))
    upload_s = uplink.airtime_s(gain[cohort.device], decision.power_w[cohort.device])
    if not np.isfinite(upload_s).all():
        raise InputError(
            f"round {t}: device {int(cohort.device[~np.isfinite(upload_s)][0])} was chosen "
            "with no power or no gain; give every reachable device a positive gain"
        )
    feedback_s = 0.0
    if len(asked) and isinstance(policy, AbstractChoicePolicy) and policy.charged:
        # Every device that is asked reports in its turn, at its own rate and power.
        report = replace(uplink, bits=feedback_bits)
        feedback_s = float(report.airtime_s(gain[asked], decision.power_w[asked]).sum())
    done = ScheduledRound(
        round=t,
        gain=gain,
        queue=state.policy.get("queue"),
        decision=decision,
        cohort=cohort,
        upload_s=upload_s,
        feedback_s=feedback_s,
    )
    return done, replace(state, round=t + 1, channel=channel_state, policy=policy_state)


def _feedback(
    policy: AbstractChoicePolicy,
    asked: NDArray[np.int64],
    chance: NDArray[np.float64],
    measure: Measure | None,
    t: int,
) -> Feedback:
    """The answers of those who were asked; one that is not finite counts as none."""
    if policy.asks is None or measure is None or len(asked) == 0:
        return Feedback(chance=chance, device=asked[:0], value=np.empty(0))
    value = measure(policy.asks, asked)
    sound = np.isfinite(value)
    if not sound.all():
        _log.warning(
            "round %d: the report of device %s is not finite and was left out",
            t,
            ", ".join(map(str, asked[~sound])),
        )
    return Feedback(chance=chance, device=asked[sound], value=value[sound])


def train(
    *,
    channel: AbstractChannel,
    policy: AbstractPolicy,
    uplink: Uplink,
    seed: int,
    pool: AbstractTrainingPool,
    parameters: NDArray[np.float32],
    eval_every: int,
    last_round: int,
    state: ScheduleState | None = None,
    feedback_bits: float = FEEDBACK_BITS,
    aggregator: str = "sum",
    average_rounds: int = 1,
) -> Iterator[tuple[TrainedRound, ScheduleState]]:
    r"""Algorithm 1: each round with the model after it, and the state the next one depends on.

    .. math:: x \leftarrow x + \sum_{n \in \text{cohort}} w_n (y_n - x), \quad w_n = p_n / q_n .

    Only the cohort computes, and whoever the policy asks. The model is evaluated every
    ``eval_every`` rounds and after ``last_round``, where the generator ends. With the aggregator
    "memory" (MIFA) the model moves by the mean of the latest update of every device instead; the
    states of one call then share these updates, so save a state before asking for the next one.
    With ``average_rounds`` W > 1 what is evaluated is a mean of the models over some W rounds (see
    ``running_mean``), which the state keeps; training goes on from the model itself.
    """
    if aggregator not in AGGREGATORS:
        raise UnknownNameError("aggregator", aggregator, AGGREGATORS)
    current = start(channel=channel, policy=policy, seed=seed) if state is None else state
    memory = {"spent_w": np.zeros(channel.devices)}
    if aggregator == "memory":
        memory |= empty_memory(channel.devices, len(parameters))
    if average_rounds > 1:
        memory["mean"] = np.zeros(len(parameters))
    # A copy, so that the caller's state stays as it was: updates are remembered in place.
    memory |= {name: value.copy() for name, value in current.memory.items()}
    current = replace(current, memory=memory)
    while current.round <= last_round:
        t, model = current.round, parameters

        def measure(
            kind: str,
            devices: NDArray[np.int64],
            t: int = t,
            model: NDArray[np.float32] = model,
        ) -> NDArray[np.float64]:
            if kind == "norm":
                return np.array([_norm(u) for u in pool.train_cohort(model, devices, t)])
            return np.array(list(pool.losses(model, devices, t, whole=kind == "loss")))

        scheduled, current = schedule_round(
            channel=channel, policy=policy, uplink=uplink, seed=seed, state=current,
            measure=measure, feedback_bits=feedback_bits,
        )  # fmt: skip
        decision = scheduled.decision
        spent_w = current.memory["spent_w"] + decision.power_w * decision.probability
        current = replace(current, memory={**current.memory, "spent_w": spent_w})
        notes = _Notes(keep=isinstance(policy, AbstractChoicePolicy) and policy.keeps_updates)
        updates = notes.passing(pool.train_cohort(model, scheduled.cohort.device, t))
        if aggregator == "memory":
            parameters, rejected = aggregate_with_memory(
                model, current.memory, zip(scheduled.cohort.device.tolist(), updates, strict=True)
            )
        else:
            weights = scheduled.cohort.weight.tolist()
            parameters, rejected = aggregate(model, zip(weights, updates, strict=True))
        if rejected:
            _log.warning(
                "round %d: the update of device %s is not finite and was left out",
                t,
                ", ".join(str(scheduled.cohort.device[position]) for position in rejected),
            )
        kept = [place for place in range(scheduled.cohort.size) if place not in rejected]
        if isinstance(policy, AbstractChoicePolicy):
            sound = [p for p in kept if math.isfinite(notes.loss[p]) or not policy.learns_losses]
            experience = notes.experience(scheduled.cohort, sound)
            current = replace(current, policy=policy.observe(current.policy, experience))
        measured = parameters
        if average_rounds > 1:
            mean = running_mean(current.memory["mean"], parameters, min(t + 1, average_rounds))
            current = replace(current, memory={**current.memory, "mean": mean})
            measured = mean.astype(np.float32)
        due = (t + 1) % eval_every == 0 or t == last_round
        evaluation = pool.evaluate(measured) if due else None
        losses = [scheduled.cohort.weight[place] * notes.loss[place] for place in kept]
        yield (
            TrainedRound(
                scheduled=scheduled,
                parameters=parameters,
                rejected=len(rejected),
                train_loss=math.fsum(losses) if losses else math.nan,
                accuracy=math.nan if evaluation is None else evaluation.accuracy,
                test_loss=math.nan if evaluation is None else evaluation.loss,
                worst_power_w=float(spent_w.max()) / current.round,
            ),
            current,
        )


def _norm(update: LocalUpdate) -> float:
    # Not np.linalg.norm: BLAS adds up in another order with another number of threads.
    return math.sqrt(np.square(update.delta, dtype=np.float64).sum())


class _Notes:
    """Passes updates through, one at a time, and notes what a policy may learn from them."""

    def __init__(self, *, keep: bool) -> None:
        self.loss: list[float] = []
        self._square_loss: list[float] = []
        self._norm: list[float] = []
        self._update: list[NDArray[np.float32]] | None = [] if keep else None

    def passing(self, updates: Iterator[LocalUpdate]) -> Iterator[NDArray[np.float32]]:
        for update in updates:
            self.loss.append(update.loss)
            self._square_loss.append(update.square_loss)
            self._norm.append(_norm(update))
            if self._update is not None:
                self._update.append(update.delta)
            yield update.delta

    def experience(self, cohort: Cohort, sound: list[int]) -> Experience:
        return Experience(
            device=cohort.device[sound],
            loss=np.array(self.loss)[sound],
            square_loss=np.array(self._square_loss)[sound],
            norm=np.array(self._norm)[sound],
            update=None
            if self._update is None or not sound
            else np.stack([self._update[place] for place in sound]),
        )
