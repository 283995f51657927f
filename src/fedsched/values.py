"""The frozen values that pass between stages.

channel -> gain -> policy -> Decision -> design -> Cohort -> training -> aggregation -> clock
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cohort",
    "Decision",
    "Experience",
    "Feedback",
    "PerDevice",
    "ScheduledRound",
    "TrainedRound",
]

PerDevice: TypeAlias = NDArray[np.float64]  # shape (..., devices)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a policy asks for in one round."""

    probability: PerDevice  # q, that the device takes part; 0 if unreachable, or not chosen
    draw_probability: PerDevice | None  # omega, of one draw; None where nothing is drawn
    power_w: PerDevice  # transmit power if it takes part
    residual: float  # largest optimality residual of the round's problem; 0 for closed forms
    cohort: "Cohort | None" = None  # for policies that choose while they decide
    # Whether ``probability`` is only the 0 or 1 of a choice already made: 1/q then means nothing.
    deterministic: bool = False


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Feedback:
    """What a policy is told in a round besides the gains."""

    chance: NDArray[np.float64]  # uniform in [0, 1), shape (3, devices): all the luck it may use
    device: NDArray[np.int64]  # who was asked, in the order asked
    value: NDArray[np.float64]  # what they answered, shape as device


@dataclass(frozen=True, kw_only=True, eq=False)
class Experience:
    """What the server learns of a cohort by training it."""

    device: NDArray[np.int64]  # whose updates arrived and were finite
    loss: NDArray[np.float64]  # mean loss of the local steps
    square_loss: NDArray[np.float64]  # mean of the squared losses of their samples
    norm: NDArray[np.float64]  # Euclidean norm of the update
    update: NDArray[np.float32] | None  # the updates themselves, for policies that keep them


@dataclass(frozen=True, kw_only=True)
class ScheduledRound:
    """One round of scheduling: what was seen, decided and drawn, and what it cost on air."""

    round: int
    gain: PerDevice  # |h|^2, NaN where unreachable
    queue: PerDevice | None  # virtual queues before the round; None for policies without
    decision: Decision
    cohort: Cohort
    upload_s: NDArray[np.float64]  # airtime of each member, shape as cohort.device
    feedback_s: float = 0.0  # airtime of the reports the policy asked for before it decided

    @property
    def airtime_s(self) -> float:
        """Seconds on air: reports first, then the members take turns."""
        return self.feedback_s + float(self.upload_s.sum())


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
