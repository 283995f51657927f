"""The round loop, as generators of rounds. Read this file first.

channel -> question -> decision -> (training -> aggregation) -> clock -> run log
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.clock import Computation
from fedsched.errors import InputError
from fedsched.learning.aggregation import AbstractAggregator, WeightedSum, running_mean
from fedsched.learning.compression import Sending
from fedsched.learning.course import begin_course, follow_course
from fedsched.learning.losses import attempts, correction, first_attempts
from fedsched.learning.notes import Notes
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.updates import norm_of
from fedsched.policies import AbstractBudget, AbstractPolicy, Need, PolicyState, decided
from fedsched.policies.ledger import entered, first_entries, uses
from fedsched.policies.pricing import queues_in
from fedsched.policies.sizing import resized
from fedsched.radio import AbstractChannel, ChannelState
from fedsched.radio.access import TDMA, AbstractAccess
from fedsched.radio.knowledge import PERFECT, Knowledge, Known
from fedsched.randomness import Luck, stream
from fedsched.solve.uplink import AbstractLink
from fedsched.values import (
    NO_ANSWERS,
    Answers,
    Decision,
    Observation,
    PerDevice,
    Question,
    ScheduledRound,
    Sizes,
    TrainedRound,
)

__all__ = [
    "FEEDBACK_BITS",
    "Air",
    "Measure",
    "ScheduleState",
    "Training",
    "schedule",
    "schedule_round",
    "scheduled_rounds",
    "start",
    "train",
]

FEEDBACK_BITS = 64.0  # of one report: a number in double precision

_log = logging.getLogger(__name__)

# What is asked ("loss", "batch-loss", "norm") and of whom, to the answers.
Measure: TypeAlias = Callable[[str, NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Air:
    """What a schedule runs on: the channel, the policy, the link, and what takes time."""

    channel: AbstractChannel
    policy: AbstractPolicy
    uplink: AbstractLink
    seed: int
    access: AbstractAccess = TDMA()
    computation: Computation = field(default_factory=Computation)
    budgets: tuple[AbstractBudget, ...] = ()  # that are watched; a policy knows its own
    knowledge: Knowledge = PERFECT  # of the channel, and what becomes of uploads
    feedback_bits: float = FEEDBACK_BITS  # of one answer to a policy's question
    sizes: Sizes | None = None  # in which updates may be sent; None: in the link's bits


@dataclass(frozen=True, kw_only=True)
class ScheduleState:
    """Everything the next round depends on besides the seed."""

    round: int
    channel: ChannelState
    policy: PolicyState
    # What is known of the channel. Of training: what the aggregator remembers, what a biased
    # compressor left on the devices, the omega of others, the mean of the models if one is kept,
    # what was lost, and what each device used of its budgets.
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def start(air: Air) -> ScheduleState:
    """The state before the first round."""
    return ScheduleState(
        round=0,
        channel=air.channel.init(stream(air.seed, "channel")),
        policy=air.policy.init(air.channel.devices),
        memory=air.knowledge.init(air.channel.devices),
    )


def schedule(
    *,
    channel: AbstractChannel,
    policy: AbstractPolicy,
    uplink: AbstractLink,
    seed: int,
    access: AbstractAccess = TDMA(),
    state: ScheduleState | None = None,
) -> Iterator[tuple[ScheduledRound, ScheduleState]]:
    """Rounds without end, each with the state after it, for policies that need no training.

    The channel of round t comes from ``stream(seed, "channel", t)`` and the cohort from
    ``stream(seed, "sampling", t)``: policies compared under one seed see the same channel, and a
    run resumed from any state goes on as if it had never stopped.
    """
    air = Air(channel=channel, policy=policy, uplink=uplink, seed=seed, access=access)
    return scheduled_rounds(air, state)


def scheduled_rounds(
    air: Air, state: ScheduleState | None = None
) -> Iterator[tuple[ScheduledRound, ScheduleState]]:
    """The rounds of :func:`schedule`."""
    if needed := air.policy.needs - {Need.GAIN}:
        wanted = " and ".join(sorted(need.value for need in needed))
        raise InputError(
            f"policy {air.policy.name!r} reads {wanted} from "
            "training, which a schedule alone does not have; use it in a scenario of `fedsched "
            "run` or with `fedsched compare`"
        )
    current = start(air) if state is None else state
    while True:
        done, current = schedule_round(air, current)
        yield done, current


def schedule_round(
    air: Air,
    state: ScheduleState,
    measure: Measure | None = None,
    sizes: Sizes | None = None,
) -> tuple[ScheduledRound, ScheduleState]:
    """One round on air: gains, answers, decision, cohort.

    Policies that know nothing of sizes have the one that is best where bits are the price.
    """
    t, policy, sizes = state.round, air.policy, sizes or air.sizes
    if sizes is not None and len(sizes.bits) > 1:
        policy = resized(policy, float(sizes.bits[sizes.best]))
    gain, channel_state = air.channel.step(state.channel, stream(air.seed, "channel", t))
    known = air.knowledge.of(gain, state.memory, stream(air.seed, "knowledge", t))
    observed = Observation(gain=known.gain, luck=Luck(air.seed, t), sizes=sizes)
    question = policy.ask(observed, state.policy)
    observed = replace(observed, answers=_answers(question, measure, t))
    decision, policy_state = decided(policy, observed, state.policy)
    if sizes is not None and np.ndim(decision.plan.size) == 0:
        decision = replace(decision, plan=replace(decision.plan, size=sizes.best))
    member = decision.cohort.device
    if not (possible := np.isfinite(decision.plan.upload_s[member])).all():
        raise InputError(
            f"round {t}: device {int(member[~possible][0])} was chosen with no power or no gain; "
            "give every reachable device a positive gain"
        )
    feedback_s = 0.0
    if question.on_air and len(question.device):
        # Every device that is asked reports in its turn, at its own rate and power.
        asked, report = question.device, replace(air.uplink, bits=air.feedback_bits)
        feedback_s = float(report.airtime_s(known.gain[asked], decision.power_w[asked]).sum())
    luck = stream(air.seed, "computation", t)
    ready_s = air.computation.ready_s(member, len(gain), luck, decision.plan.pace)
    upload_s, arrived, memory = _sent(air, gain, known, decision, t)
    uploads_s = air.access.uploads_s(upload_s, ready_s)
    round_s = air.computation.common_s + decision.wait_s + feedback_s + uploads_s
    plan, q = decision.plan, decision.probability
    done = ScheduledRound(
        round=t,
        gain=gain,
        queues=queues_in(state.policy),
        decision=decision,
        upload_s=upload_s,
        uploads_s=uploads_s,
        ready_s=np.empty(0) if ready_s is None else ready_s,
        feedback_s=feedback_s,
        arrived=arrived,
        spent={each.name: each.spent(plan, q) for each in air.budgets},
        allowed={each.name: each.allowance(round_s) for each in air.budgets},
        tuning=policy.tuning(policy_state),
    )
    state = replace(state, round=t + 1, channel=channel_state, policy=policy_state, memory=memory)
    return done, state


def _sent(
    air: Air, gain: PerDevice, known: Known, decision: Decision, t: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None, Mapping[str, NDArray[Any]]]:
    """What each upload took, which updates arrived (None: all), and what was learned of that."""
    member, knowledge = decision.cohort.device, air.knowledge
    upload_s = decision.plan.upload_s[member]
    if knowledge.is_perfect:
        return upload_s, None, known.memory
    failed = knowledge.failed(member, gain, known.gain)
    memory = knowledge.learned(known.memory, member, failed)
    arrived = ~knowledge.lost(member, len(gain), stream(air.seed, "loss", t))
    if not knowledge.resend:
        return upload_s, arrived & ~failed, memory
    # The whole of it once more, at the rate that the channel has, if it has one.
    again_s = air.uplink.airtime_s(gain[member], decision.power_w[member])
    again = failed & np.isfinite(again_s)
    return upload_s + np.where(again, again_s, 0.0), arrived & (again | ~failed), memory


def _answers(question: Question, measure: Measure | None, t: int) -> Answers:
    """The answers of those who were asked; one that is not finite counts as none."""
    if measure is None or len(question.device) == 0:
        return NO_ANSWERS
    value = measure(question.kind, question.device)
    finite = np.isfinite(value)
    if not finite.all():
        _log.warning(
            "round %d: the report of device %s is not finite and was left out",
            t,
            ", ".join(map(str, question.device[~finite])),
        )
    return Answers(device=question.device[finite], value=value[finite])


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """What a training runs on, besides what is on air.

    With ``average_rounds`` W > 1 what is evaluated is a mean of the models over some W rounds (see
    ``running_mean``), which the state keeps; training goes on from the model itself.
    """

    pool: AbstractTrainingPool
    eval_every: int
    last_round: int
    aggregator: AbstractAggregator = WeightedSum()
    average_rounds: int = 1
    sending: Sending = field(default_factory=Sending)  # what becomes of updates on their way

    def measure(self, model: NDArray[np.float32], t: int) -> Measure:
        """Who answers a policy's questions in round t, by computing at the present model."""

        def answer(kind: str, devices: NDArray[np.int64]) -> NDArray[np.float64]:
            if kind == "norm":
                updates = self.pool.train_cohort(model, devices, t)
                return np.array([norm_of(update.delta) for update in updates])
            return np.array(list(self.pool.losses(model, devices, t, whole=kind == "loss")))

        return answer

    def sizes(self, air: Air, memory: Mapping[str, NDArray[Any]]) -> Sizes | None:
        """The sizes of a round, with the omega that updates have shown so far."""
        if air.sizes is None and len(self.sending.compressors) > 1:
            raise InputError(
                "air.sizes must be given where several compressors may be chosen; take "
                "sending.sizes(numbers of an update)"
            )
        return None if air.sizes is None else replace(air.sizes, omega=memory["omega"].copy())

    def memory(self, devices: int, dimension: int) -> dict[str, NDArray[Any]]:
        """What is remembered before the first round."""
        memory = {"spent_w": np.zeros(devices), **self.aggregator.init(devices, dimension)}
        memory |= self.sending.init(devices, dimension) | first_attempts(devices)
        return memory | ({"mean": np.zeros(dimension)} if self.average_rounds > 1 else {})


def train(
    air: Air,
    training: Training,
    parameters: NDArray[np.float32],
    state: ScheduleState | None = None,
) -> Iterator[tuple[TrainedRound, ScheduleState]]:
    r"""Algorithm 1: each round with the model after it, and the state the next one depends on.

    .. math:: x \leftarrow x + \sum_{n \in \text{cohort}} w_n (y_n - x), \quad w_n = p_n / q_n .

    Only the cohort computes, and whoever the policy asks. The model is evaluated every
    ``eval_every`` rounds and after ``last_round``, where the generator ends. The states of one
    call may share memory, so save a state before asking for the next one.
    """
    current = start(air) if state is None else state
    memory = training.memory(air.channel.devices, len(parameters))
    memory |= first_entries(air.budgets, air.channel.devices)
    memory |= begin_course(len(parameters)) if air.policy.follows_course else {}
    # A copy, so that the caller's state stays as it was: updates are remembered in place.
    memory |= {name: value.copy() for name, value in current.memory.items()}
    current = replace(current, memory=memory)
    while current.round <= training.last_round:
        done, current = train_round(air, training, parameters, current)
        parameters = done.parameters
        yield done, current


def train_round(
    air: Air, training: Training, model: NDArray[np.float32], state: ScheduleState
) -> tuple[TrainedRound, ScheduleState]:
    """One round of training, from the model before it."""
    t, pool = state.round, training.pool
    sizes = training.sizes(air, state.memory)
    scheduled, current = schedule_round(air, state, training.measure(model, t), sizes)
    cohort, memory = scheduled.received, entered(current.memory, scheduled)
    memory["spent_w"] = memory["spent_w"] + scheduled.decision.expected_power_w
    cohort = replace(cohort, weight=cohort.weight * correction(memory, cohort.device))
    notes = Notes(keep=Need.UPDATE in air.policy.needs)
    updates = pool.train_cohort(model, cohort.device, t, scheduled.work_received)
    updates = training.sending.received(
        updates, cohort.device, memory,
        seed=air.seed, round=t, sizes=scheduled.sizes_received,
    )  # fmt: skip
    parameters, kept_state, rejected = training.aggregator.step(
        model, memory, notes.passing(cohort, updates)
    )
    memory |= kept_state
    if rejected:
        _log.warning(
            "round %d: the update of device %s is not finite and was left out",
            t,
            ", ".join(str(cohort.device[position]) for position in rejected),
        )
    kept = [place for place in range(cohort.size) if place not in rejected]
    tried = scheduled.cohort.device
    memory |= attempts(memory, tried, np.isin(tried, cohort.device[kept]))
    course = follow_course(memory, parameters, t + 1)
    policy_state = air.policy.observe(current.policy, notes.experience(cohort, kept, course))
    measured = parameters
    if training.average_rounds > 1:
        window = min(t + 1, training.average_rounds)
        memory["mean"] = running_mean(memory["mean"], parameters, window)
        measured = memory["mean"].astype(np.float32)
    due = (t + 1) % training.eval_every == 0 or t == training.last_round
    evaluation = pool.evaluate(measured) if due else None
    losses = [cohort.weight[place] * notes.loss[place] for place in kept]
    trained = TrainedRound(
        scheduled=scheduled,
        parameters=parameters,
        rejected=len(rejected),
        train_loss=math.fsum(losses) if losses else math.nan,
        accuracy=math.nan if evaluation is None else evaluation.accuracy,
        test_loss=math.nan if evaluation is None else evaluation.loss,
        worst_power_w=float(memory["spent_w"].max()) / current.round,
        omega=notes.omega(kept),
        uses=uses(memory, air.budgets),
    )
    return trained, replace(current, policy=policy_state, memory=memory)
