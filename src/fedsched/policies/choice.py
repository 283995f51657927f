"""What rules share that take their cohort at once: ranked, drawn from clusters, or tossed for."""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import finite_array, whole_number
from fedsched.errors import InputError
from fedsched.policies.base import AbstractPolicy, Need, PolicyState, nobody
from fedsched.policies.designs import MOST_DRAWS
from fedsched.policies.powers import AbstractPower
from fedsched.policies.system import System, reachable_gains
from fedsched.values import (
    NO_ANSWERS,
    Answers,
    Cohort,
    Decision,
    Observation,
    PerDevice,
    Plan,
)

__all__ = [
    "AbstractChoicePolicy",
    "AbstractTossedPolicy",
    "Choice",
    "Context",
    "average",
    "chance_of",
    "draw_counted",
    "generator",
    "smallest",
]

_CHANCES = 3  # rows of uniform numbers a rule is given each round


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """What a rule chooses by, of one round in which somebody can be reached."""

    gain: PerDevice  # NaN where unreachable
    reach: NDArray[np.int64]  # who can be reached, ascending
    plan: Plan  # what each would do
    share: PerDevice  # each device's share of the data
    state: PolicyState
    chance: NDArray[np.float64]  # uniform in [0, 1), shape (3, devices)
    answers: Answers = NO_ANSWERS

    def average(self, device: NDArray[np.int64], **state: NDArray[Any]) -> "Choice":
        """The choice of these devices whose updates are averaged, and the state it leaves."""
        return Choice(device=device, weight=average(device, self.share), state=state)


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The devices a rule takes, their weights, and the probabilities if it knows them."""

    device: NDArray[np.int64]
    weight: PerDevice  # in the model update, shape as device
    probability: PerDevice | None = None  # of all devices; None: the choice has none
    state: PolicyState = field(default_factory=dict)  # what of the rule's own state has changed


@dataclass(frozen=True, kw_only=True)
class AbstractChoicePolicy(AbstractPolicy):
    """A rule that takes its cohort at once.

    Attributes:
        draws: m, the devices a round it aims at.
        power: how much each device sends with; it keeps the average budget.
    """

    draws: int
    power: AbstractPower

    def __post_init__(self) -> None:
        whole_number("draws", self.draws, most=MOST_DRAWS)

    @property
    def system(self) -> System:
        """What is scheduled."""
        return self.power.system

    @abstractmethod
    def choose(self, context: Context) -> Choice:
        """Who takes part, with which weight."""

    def start(self, devices: int) -> PolicyState:
        """The rule's own memory before the first round."""
        del devices
        return {}

    @property
    def own_shared_state(self) -> frozenset[str]:
        """Names of the rule's own memory that belong to no single device."""
        return frozenset()

    @property
    def shared_state(self) -> frozenset[str]:
        """The rule's own, and that of its power rule."""
        return self.own_shared_state | self.power.shared_state

    def expected_probability(self, devices: int) -> PerDevice:
        """What the powers are planned with: whom a ranking takes takes part for sure."""
        return np.ones(devices)

    def init(self, devices: int) -> PolicyState:
        """Its own memory and that of its power rule."""
        whole_number("devices", devices)
        return {**self.start(devices), **self.power.init(devices)}

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """The powers, then the choice; the power rule counts what is spent."""
        gain, devices = observed.gain, len(observed.gain)
        reachable, _ = reachable_gains(gain)
        share = self.system.shares(devices)
        answers = self._checked(observed.answers, reachable)
        offered_w = self.power.offered_w(gain, state)
        offered_w = self.power.allowed_w(offered_w, state, self.expected_probability(devices))
        if not reachable.any():
            nothing = nobody(devices)
            plan = replace(nothing.plan, power_w=offered_w)
            spent = self.power.advance(state, gain, plan, nothing.probability, self.system.common_s)
            return nothing, {**state, **spent}
        choice = self.choose(
            Context(
                gain=gain,
                reach=np.flatnonzero(reachable).astype(np.int64),
                plan=self.system.plan(gain, offered_w),
                share=share,
                state=state,
                chance=chance_of(observed),
                answers=answers,
            )
        )
        decision = self._decision(choice, observed, offered_w, state)
        round_s = self.system.round_s(decision.plan, decision.cohort)
        spent = self.power.advance(state, gain, decision.plan, decision.probability, round_s)
        return decision, {**state, **choice.state, **spent}

    def _decision(
        self, choice: Choice, observed: Observation, offered_w: PerDevice, state: PolicyState
    ) -> Decision:
        order = np.argsort(choice.device, kind="stable")
        cohort = Cohort(device=choice.device[order], weight=choice.weight[order])
        q = choice.probability
        if q is None:
            q = np.zeros(len(observed.gain))
            q[cohort.device] = 1.0
        power_w = self.power.allowed_w(offered_w, state, q)
        return Decision(
            plan=self.system.plan(observed.gain, power_w),
            probability=q,
            cohort=cohort,
            deterministic=choice.probability is None,
        )

    def _checked(self, answers: Answers, reachable: NDArray[np.bool_]) -> Answers:
        devices = len(reachable)
        if answers is NO_ANSWERS and Need.CURRENT in self.needs and reachable.any():
            raise InputError(
                f"policy {self.name!r} cannot decide on gains alone; give the observation the "
                "answers of the devices that ask() names"
            )
        finite_array("answers.value", answers.value, allow_zero=True)
        known = (answers.device >= 0) & (answers.device < devices)
        if answers.device.shape != answers.value.shape or not known.all():
            raise InputError(
                f"answers.device must name one of {devices} devices for each of "
                f"{len(answers.value)} values, got {answers.device.tolist()}"
            )
        if not reachable[answers.device].all():
            raise InputError("answers.device names a device out of reach; ask only others")
        return answers


@dataclass(frozen=True, kw_only=True)
class AbstractTossedPolicy(AbstractChoicePolicy):
    """A rule that tosses for its cohort, with probabilities it knows once it has chosen."""

    def expected_probability(self, devices: int) -> PerDevice:
        """Not known before the choice: powers are planned as if nothing were spent."""
        return np.zeros(devices)


def chance_of(observed: Observation) -> NDArray[np.float64]:
    """Three rows of uniform numbers, the same whenever they are asked for in a round."""
    return observed.luck.stream("policy").random((_CHANCES, len(observed.gain)))


def average(device: NDArray[np.int64], share: PerDevice) -> PerDevice:
    """Weights of the plain average over a cohort: each member's share among the members."""
    own = share[device]
    return np.asarray(own / own.sum()) if len(own) else own


def smallest(value: PerDevice, count: int) -> NDArray[np.int64]:
    """Places of the ``count`` smallest values, best first; of equal ones the first."""
    return np.argsort(value, kind="stable")[:count].astype(np.int64)


def generator(chance: NDArray[np.float64]) -> np.random.Generator:
    """A generator that is a function of the chance of a round, for those who need many numbers."""
    return np.random.Generator(np.random.PCG64([int(row[0] * 2**53) for row in chance]))


def draw_counted(
    omega: PerDevice, draws: int, context: Context
) -> tuple[NDArray[np.int64], PerDevice, PerDevice]:
    """Devices, weights count p / (m omega) and probabilities of m draws with replacement."""
    edges = np.cumsum(omega)
    luck = generator(context.chance).random(draws)
    drawn = np.searchsorted(edges, luck * edges[-1], side="right")
    place, counts = np.unique(drawn, return_counts=True)
    device = context.reach[place]
    q = np.zeros(len(context.gain))
    q[context.reach] = -np.expm1(draws * np.log1p(-np.minimum(omega, 1.0 - 1e-15)))
    return device, context.share[device] * counts / (draws * omega[place]), q
