"""The frozen values that pass between stages.

channel -> Observation -> policy -> Decision (Plan, Cohort) -> training -> aggregation -> clock
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.randomness import Luck

__all__ = [
    "NOBODY",
    "NO_ANSWERS",
    "NO_QUESTION",
    "Answers",
    "Cohort",
    "Decision",
    "Experience",
    "Observation",
    "PerDevice",
    "Plan",
    "Question",
    "ScheduledRound",
    "Sizes",
    "TrainedRound",
    "Use",
    "over",
    "spread",
]

PerDevice: TypeAlias = NDArray[np.float64]  # shape (..., devices)


def over(amount: PerDevice | float, probability: PerDevice) -> PerDevice:
    """What each device may use if it takes part; infinite for those that do not."""
    most: PerDevice = np.full(len(probability), np.inf)
    np.divide(amount, probability, out=most, where=probability > 0.0)
    return most


def spread(value: PerDevice, place: NDArray[np.generic], devices: int, fill: float) -> PerDevice:
    """Values at their places (numbers, or a mask) among all devices, ``fill`` elsewhere."""
    if len(value) == devices:
        return value
    whole = np.full(devices, fill)
    whole[place] = value
    return whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What each device would do if it took part."""

    power_w: PerDevice  # transmit power; 0 where it cannot be reached
    bits: float | PerDevice  # of its update
    upload_s: PerDevice  # on air with the link to itself; infinite where it cannot be reached
    compute_s: float | PerDevice = 0.0  # all its local steps at full speed, before it can upload
    size: int | NDArray[np.int64] = 0  # which of the round's Sizes its update has
    work: float | PerDevice = 1.0  # the share of its local steps that it takes
    # Its clock frequency, as a share of the highest: time goes with 1 / cpu, energy with cpu^2.
    cpu: float | PerDevice = 1.0

    @property
    def pace(self) -> float | PerDevice:
        """How long it computes, in times of all its local steps at full speed."""
        return self.work / self.cpu

    def among(self, place: NDArray[np.generic], devices: int) -> Self:
        """The plan of some devices as one of all; the others send nothing."""
        return replace(
            self,
            power_w=spread(self.power_w, place, devices, 0.0),
            upload_s=spread(self.upload_s, place, devices, np.inf),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Sizes:
    r"""The sizes in which an update may be sent, and what each of them adds to its second moment.

    An update of size k that is sent with probability q adds :math:`(1 + \omega_k) / q` where one
    that is sent exactly adds 1/q, and costs q times the price of its bits.
    """

    bits: NDArray[np.float64]  # shape (sizes,)
    omega: NDArray[np.float64]  # shape as bits

    @property
    def factor(self) -> NDArray[np.float64]:
        r""":math:`1 + \omega`."""
        return 1.0 + self.omega

    @property
    def best(self) -> int:
        r"""The least :math:`(1 + \omega) \times` bits, for prices in proportion to the bits."""
        return int(np.argmin(self.factor * self.bits))


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """The devices that take part in one round, each with its weight in the model update.

    The model moves by ``sum(weight * (y_device - x))``: whoever draws the cohort owns the weights,
    and the aggregation never asks which design was used.
    """

    device: NDArray[np.int64]  # indices, ascending
    # p_n / q_n where a design draws; others average, count draws or weigh by Des Raj's estimator.
    weight: NDArray[np.float64]  # shape as device

    @property
    def size(self) -> int:
        """How many devices take part."""
        return len(self.device)


NOBODY = Cohort(device=np.empty(0, dtype=np.int64), weight=np.empty(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What a policy asks of some devices before it decides."""

    kind: str  # "loss", "batch-loss" or "norm", at the present model
    device: NDArray[np.int64]
    on_air: bool = True  # whether the answers are sent; a test on the device itself is not


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """What devices answered; who gave no finite number is not among them."""

    device: NDArray[np.int64]
    value: NDArray[np.float64]  # shape as device


NO_QUESTION = Question(kind="", device=NOBODY.device)
NO_ANSWERS = Answers(device=NOBODY.device, value=np.empty(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """What a policy knows of a round when it decides, and the luck it may use."""

    gain: PerDevice  # |h|^2 > 0, NaN where unreachable
    luck: Luck
    answers: Answers = NO_ANSWERS
    sizes: Sizes | None = None  # in which an update may be sent; None: as it is


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """Who takes part in a round, and what each device would do."""

    plan: Plan
    probability: PerDevice  # q, that the device takes part; 0 if unreachable, or not chosen
    cohort: Cohort
    draw_probability: PerDevice | None = None  # omega, of one draw; None where nothing is drawn
    wait_s: float = 0.0  # until the round begins, where a budget of a second asks for it
    residual: float = 0.0  # largest optimality residual of the round's problem; 0: closed form
    # Whether ``probability`` is only the 0 or 1 of a choice: 1/q then means nothing.
    deterministic: bool = False

    @property
    def power_w(self) -> PerDevice:
        """Transmit power of each device if it takes part."""
        return self.plan.power_w

    @property
    def bits_sent(self) -> NDArray[np.float64]:
        """Of each upload of the cohort."""
        return np.broadcast_to(self.plan.bits, self.probability.shape)[self.cohort.device]

    @property
    def sizes_sent(self) -> NDArray[np.int64]:
        """Which of the round's sizes each upload of the cohort has."""
        return np.broadcast_to(self.plan.size, self.probability.shape)[self.cohort.device]

    @property
    def expected_power_w(self) -> PerDevice:
        """P q: what each device spends of its power budget on average."""
        return self.plan.power_w * self.probability


@dataclass(frozen=True, kw_only=True, eq=False)
class Experience:
    """What the server learns of a cohort by training it."""

    device: NDArray[np.int64]  # whose updates arrived and were finite
    loss: NDArray[np.float64]  # mean loss of the local steps
    square_loss: NDArray[np.float64]  # mean of the squared losses of their samples
    norm: NDArray[np.float64]  # Euclidean norm of the update
    update: NDArray[np.float32] | None  # the updates themselves, for policies that need them
    weight: NDArray[np.float64]  # of each update in the sum
    step: float = math.nan  # Euclidean norm of the sum, where that is measured
    course: float = math.nan  # of the model, for policies that follow it

    def with_losses(self) -> Self:
        """Of those devices alone whose loss is a finite number."""
        known = np.isfinite(self.loss)
        if known.all():
            return self
        return replace(
            self,
            device=self.device[known],
            loss=self.loss[known],
            square_loss=self.square_loss[known],
            norm=self.norm[known],
            weight=self.weight[known],
            update=None if self.update is None else self.update[known],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ScheduledRound:
    """One round of scheduling: what was observed and decided, and what it cost on air."""

    round: int
    gain: PerDevice  # |h|^2, NaN where unreachable
    decision: Decision
    upload_s: NDArray[np.float64]  # of each member, shape as cohort.device
    # Until the last has arrived, as the access lets them share the link; without the computation
    # that all devices have in common.
    uploads_s: float
    # When each member could begin to upload, shape as upload_s; empty where all could at once.
    ready_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    feedback_s: float = 0.0  # of the answers the policy asked for before it decided
    # Which members' updates arrived, shape as upload_s; None: all.
    arrived: NDArray[np.bool_] | None = None
    # By the name of a budget: what each device spends of it on average, and may.
    spent: Mapping[str, PerDevice] = field(default_factory=dict)
    allowed: Mapping[str, float | PerDevice] = field(default_factory=dict)
    # Virtual queues before the round, by the name of their budget.
    queues: Mapping[str, PerDevice] = field(default_factory=dict)
    # What the policy has set itself, by the names of columns of a run log.
    tuning: Mapping[str, float] = field(default_factory=dict)

    @property
    def cohort(self) -> Cohort:
        """Who takes part."""
        return self.decision.cohort

    @property
    def received(self) -> Cohort:
        """The members whose updates arrived."""
        if self.arrived is None:
            return self.cohort
        arrived = self.arrived
        return Cohort(device=self.cohort.device[arrived], weight=self.cohort.weight[arrived])

    @property
    def sizes_received(self) -> NDArray[np.int64]:
        """The size of each update that arrived, as the decision counts them."""
        sent = self.decision.sizes_sent
        return sent if self.arrived is None else sent[self.arrived]

    @property
    def work_received(self) -> NDArray[np.float64] | None:
        """The share of its local steps that each update that arrived has; None: all of them."""
        work = self.decision.plan.work
        return work[self.received.device] if isinstance(work, np.ndarray) else None

    @property
    def airtime_s(self) -> float:
        """Seconds of the wait, of the answers in turn, and until the last upload has arrived."""
        return self.decision.wait_s + self.feedback_s + self.uploads_s


@dataclass(frozen=True, kw_only=True)
class Use:
    """How the worst device stands with one budget."""

    name: str
    unit: str
    per: str  # "round" or "second"
    limit: float  # of the worst device
    mean: float  # what it used, as the limit counts it
    device: int

    @property
    def share(self) -> float:
        """What was used of the limit: above 1 the budget is not kept."""
        return self.mean / self.limit

    def as_dict(self) -> dict[str, str | float]:
        """Plain values, as tables and manifests have them."""
        return {
            "name": self.name, "unit": self.unit, "per": self.per, "limit": self.limit,
            "worst_use": self.share, "worst_device": self.device,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedRound:
    """One round of training: its schedule, and what the model made of it."""

    scheduled: ScheduledRound
    parameters: NDArray[np.float32]  # after the round
    rejected: int  # updates left out because they were not finite
    train_loss: float  # sum of weight * loss: an unbiased estimate of the global loss; may be NaN
    accuracy: float  # on the test set, of the model or its mean; NaN in rounds without evaluation
    test_loss: float
    worst_power_w: float = float("nan")  # largest average of P q so far of any device
    omega: float = float("nan")  # mean over the cohort of what compression adds; NaN without it
    uses: tuple[Use, ...] = ()  # of each budget so far, by the device that is worst off
    wall_s: float = float("nan")  # that the round took on the wall; NaN where it is simulated
    # What each member took from message to reply, where that was measured.
    took_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
