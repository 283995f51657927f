"""The interface of all policies: what was observed goes in, a decision comes out; so does state."""

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.policies.designs import AbstractDesign
from fedsched.values import (
    NO_QUESTION,
    NOBODY,
    Decision,
    Experience,
    Observation,
    Plan,
    Question,
)

__all__ = ["AbstractPolicy", "Need", "PolicyState", "decided", "nobody"]

PolicyState = Mapping[str, NDArray[np.float64]]  # arrays by name, so that it can be saved


class Need(Enum):
    """What a policy reads. The value is what tables call it."""

    GAIN = "gains"
    STALE = "stale feedback"  # of devices that took part, from when they did
    CURRENT = "current feedback"  # of devices it may not select: their reports cost airtime
    UPDATE = "updates"  # of devices that took part, whole: the server holds a cohort's at once


class AbstractPolicy(ABC):
    """Decides each round who takes part, with which weight, power and bits."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GAIN})

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables and figures call it."""

    @abstractmethod
    def init(self, devices: int) -> PolicyState:
        """The state before the first round."""

    @property
    def shared_state(self) -> frozenset[str]:
        """Names of the state that belong to no single device; the others have a row for each."""
        return frozenset()

    @property
    def sampling(self) -> AbstractDesign | None:
        """The design that draws cohorts from the probabilities; None: they come otherwise."""
        return None

    @property
    def follows_course(self) -> bool:
        """Whether its experience is to tell how the model moves (see ``learning.course``)."""
        return False

    def tuning(self, state: PolicyState) -> Mapping[str, float]:
        """What it has set itself so far, by the names of columns of a run log."""
        del state
        return {}

    def ask(self, observed: Observation, state: PolicyState) -> Question:
        """What it wants to know of which devices before it decides; answers cost airtime."""
        del observed, state
        return NO_QUESTION

    @abstractmethod
    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """The cohort and the plan of a round, and the next state."""

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """The state after a cohort was trained."""
        del experience
        return state


def nobody(devices: int) -> Decision:
    """A round in which no device can be reached."""
    nothing = np.zeros(devices)
    plan = Plan(power_w=nothing.copy(), bits=0.0, upload_s=np.full(devices, np.inf))
    return Decision(plan=plan, probability=nothing, draw_probability=nothing, cohort=NOBODY)


def decided(
    policy: AbstractPolicy, observed: Observation, state: PolicyState
) -> tuple[Decision, PolicyState]:
    """What the policy decides, refused unless it is a decision; it may be a user's own."""
    made = policy.decide(observed, state)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Decision)):
        raise InputError(
            f"policy {policy.name!r}: decide must return a fedsched.Decision and the state after "
            f"it, got {reprlib.repr(made)}"
        )
    q = made[0].probability
    if not (within := (q >= 0.0) & (q <= 1.0)).all():  # not so for NaN
        n = int(np.flatnonzero(~within)[0])
        raise InputError(
            f"policy {policy.name!r}, round {observed.luck.round}: the probability of device {n} "
            f"must lie in [0, 1], got {q[n]}"
        )
    return made
