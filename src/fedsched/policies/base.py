"""What all policies share: the interface, the checks, and the template of those that choose."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsched.core.checks import finite_array, whole_number
from fedsched.errors import InputError
from fedsched.policies.powers import AbstractPower
from fedsched.values import Cohort, Decision, Experience, Feedback, PerDevice

__all__ = [
    "CHANCES",
    "AbstractChoicePolicy",
    "AbstractPolicy",
    "Choice",
    "Need",
    "PolicyState",
    "Seen",
    "average",
    "check_shares",
    "draw_counted",
    "generator",
    "nobody",
    "reachable_gains",
    "shares_of",
    "smallest",
    "spread",
]

PolicyState = Mapping[str, NDArray[np.float64]]  # arrays by name, so that it can be saved


CHANCES = 3  # rows of uniform numbers a policy is given each round


class Need(Enum):
    """What a policy reads. The value is what tables call it."""

    GAIN = "gains"
    STALE = "stale feedback"  # of devices that took part, from when they did
    CURRENT = "current feedback"  # of devices it may not select: their reports cost airtime


class AbstractPolicy(ABC):
    """Decides, from the gains of one round and its own state, who takes part and at what power."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GAIN})

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables and figures call it."""

    @abstractmethod
    def init(self, devices: int) -> PolicyState:
        """The state before the first round."""

    @abstractmethod
    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Probabilities and powers for gains > 0 (NaN: unreachable), and the next state."""

    @abstractmethod
    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """The cohort of a decision, each member with its weight."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What a rule chooses by, of one round in which somebody can be reached."""

    gain: PerDevice  # NaN where unreachable
    reach: NDArray[np.int64]  # who can be reached, ascending
    power_w: PerDevice  # what each would send with
    share: PerDevice  # each device's share of the data
    state: PolicyState
    feedback: Feedback  # without devices if nobody was asked


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The devices a rule takes, their weights, and the probabilities if it knows them."""

    device: NDArray[np.int64]
    weight: PerDevice  # in the model update, shape as device
    probability: PerDevice | None = None  # of all devices; None: the choice has none
    state: PolicyState = field(default_factory=dict)  # what of the rule's own state has changed


@dataclass(frozen=True, kw_only=True)
class AbstractChoicePolicy(AbstractPolicy):
    """A rule that takes its cohort at once: ranked, drawn from clusters, or tossed for.

    Attributes:
        draws: m, the devices a round it aims at.
        power: how much each device sends with; it keeps the average budget.
        data_weight: p, each device's share of the data; equal shares if None.
    """

    draws: int
    power: AbstractPower
    data_weight: PerDevice | None = field(default=None, compare=False)

    informed: ClassVar[bool] = False  # whether it cannot decide without feedback or chance
    asks: ClassVar[str | None] = None  # "loss", "batch-loss" or "norm", at the present model
    tosses: ClassVar[bool] = False  # whether its choices have probabilities other than 0 and 1
    charged: ClassVar[bool] = True  # whether its reports are sent; a test on the device is not
    keeps_updates: ClassVar[bool] = False
    learns_losses: ClassVar[bool] = True  # False: a device without a finite loss still teaches it

    def __post_init__(self) -> None:
        whole_number("draws", self.draws)
        object.__setattr__(self, "data_weight", check_shares(self.data_weight))

    @abstractmethod
    def choose(self, seen: Seen) -> Choice:
        """Who takes part, with which weight."""

    def start(self, devices: int) -> PolicyState:
        """The rule's own memory before the first round."""
        del devices
        return {}

    def ask(
        self, gain: PerDevice, state: PolicyState, chance: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Whose current feedback is wanted, by index; asking costs airtime."""
        del gain, state, chance
        return np.empty(0, dtype=np.int64)

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """The state after a cohort was trained."""
        del experience
        return state

    def init(self, devices: int) -> PolicyState:
        """Its own memory and that of its power rule."""
        whole_number("devices", devices)
        return {**self.start(devices), **self.power.init(devices)}

    def decide(
        self, gain: PerDevice, state: PolicyState, feedback: Feedback | None = None
    ) -> tuple[Decision, PolicyState]:
        """The powers, then the choice; the power rule counts what is spent."""
        devices = len(gain)
        reachable, _ = reachable_gains(gain)
        share = shares_of(self.data_weight, devices)
        told = self._checked(feedback, reachable)
        power_w = self.power.power_w(gain, state)
        if not self.tosses:  # whom it takes takes part for sure
            power_w = self.power.settled(power_w, state, np.ones(devices))
        if not reachable.any():
            nothing = nobody(devices)
            return nothing, {**state, **self.power.after(state, gain, power_w, nothing.probability)}
        choice = self.choose(
            Seen(
                gain=gain,
                reach=np.flatnonzero(reachable).astype(np.int64),
                power_w=power_w,
                share=share,
                state=state,
                feedback=told,
            )
        )
        order = np.argsort(choice.device, kind="stable")
        cohort = Cohort(device=choice.device[order], weight=choice.weight[order])
        q = choice.probability
        if q is None:
            q = np.zeros(devices)
            q[cohort.device] = 1.0
        power_w = self.power.settled(power_w, state, q)
        decision = Decision(
            probability=q,
            draw_probability=None,
            power_w=power_w,
            residual=0.0,
            cohort=cohort,
            deterministic=choice.probability is None,
        )
        return decision, {**state, **choice.state, **self.power.after(state, gain, power_w, q)}

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """The cohort that was chosen with the decision."""
        del rng  # all its luck was in the feedback
        if decision.cohort is None:
            return Cohort(device=np.empty(0, dtype=np.int64), weight=np.empty(0))
        return decision.cohort

    def _checked(self, feedback: Feedback | None, reachable: NDArray[np.bool_]) -> Feedback:
        devices = len(reachable)
        if feedback is None:
            if self.informed:
                raise InputError(
                    f"policy {self.name!r} cannot decide on gains alone; give decide() the "
                    "feedback of the devices that ask() names"
                )
            nobody_asked = np.empty(0, dtype=np.int64)
            luck = np.zeros((CHANCES, devices))
            return Feedback(chance=luck, device=nobody_asked, value=np.empty(0))
        if feedback.chance.shape != (CHANCES, devices):
            raise InputError(
                f"feedback.chance has shape {feedback.chance.shape}; give {CHANCES} rows of "
                f"uniform numbers for {devices} devices"
            )
        finite_array("feedback.value", feedback.value, allow_zero=True)
        known = (feedback.device >= 0) & (feedback.device < devices)
        if feedback.device.shape != feedback.value.shape or not known.all():
            raise InputError(
                f"feedback.device must name one of {devices} devices for each of "
                f"{len(feedback.value)} values, got {feedback.device.tolist()}"
            )
        if not reachable[feedback.device].all():
            raise InputError("feedback.device names a device out of reach; ask only others")
        return feedback


def average(device: NDArray[np.int64], share: PerDevice) -> PerDevice:
    """Weights of the plain average over a cohort: each member's share among the members."""
    own = share[device]
    return np.asarray(own / own.sum()) if len(own) else own


def smallest(value: PerDevice, count: int) -> NDArray[np.int64]:
    """Places of the ``count`` smallest values, best first; of equal ones the first."""
    return np.argsort(value, kind="stable")[:count].astype(np.int64)


def check_shares(data_weight: PerDevice | None) -> PerDevice | None:
    """A read-only copy of the shares of the data, refused unless they are shares."""
    if data_weight is None:
        return None
    shares = finite_array("data_weight", data_weight, allow_zero=False).copy()
    if shares.ndim != 1 or abs(shares.sum() - 1.0) > 1e-9:
        raise InputError(
            f"data_weight must hold one share per device that together make 1, got shape "
            f"{shares.shape} and sum {shares.sum():.12g}; divide the data sizes by their sum"
        )
    shares.setflags(write=False)
    return shares


def shares_of(data_weight: PerDevice | None, devices: int) -> PerDevice:
    """Each device's share of the data: 1/N unless given."""
    if data_weight is None:
        return np.full(devices, 1.0 / devices)
    if len(data_weight) != devices:
        raise InputError(
            f"data_weight has {len(data_weight)} values for {devices} devices; give one per device"
        )
    return data_weight


def reachable_gains(gain: PerDevice) -> tuple[NDArray[np.bool_], PerDevice]:
    """Which devices can be reached, and their gains, refused unless positive and finite."""
    reachable = gain == gain  # not NaN
    known = gain if reachable.all() else gain[reachable]
    if len(known) and not (known.min() > 0.0 and known.max() < np.inf):
        bad = int(np.flatnonzero(reachable & ~((gain > 0.0) & (gain < np.inf)))[0])
        raise InputError(
            f"gain[{bad}] must be positive and finite, or NaN for a device out of reach, "
            f"got {gain[bad]}"
        )
    return reachable, known


def nobody(devices: int) -> Decision:
    """A round in which no device can be reached."""
    nothing = np.zeros(devices)
    return Decision(
        probability=nothing, draw_probability=nothing, power_w=nothing.copy(), residual=0.0
    )


def spread(values: PerDevice, reachable: NDArray[np.bool_], everyone: bool) -> PerDevice:
    """Values of the reachable devices among all, 0 elsewhere."""
    if everyone:
        return values
    full = np.zeros(len(reachable))
    full[reachable] = values
    return full


def generator(chance: NDArray[np.float64]) -> np.random.Generator:
    """A generator that is a function of the chance of a round, for those who need many numbers."""
    return np.random.Generator(np.random.PCG64([int(row[0] * 2**53) for row in chance]))


def draw_counted(
    omega: PerDevice, draws: int, seen: Seen
) -> tuple[NDArray[np.int64], PerDevice, PerDevice]:
    """Devices, weights count p / (m omega) and probabilities of m draws with replacement."""
    edges = np.cumsum(omega)
    luck = generator(seen.feedback.chance).random(draws)
    drawn = np.searchsorted(edges, luck * edges[-1], side="right")
    place, counts = np.unique(drawn, return_counts=True)
    device = seen.reach[place]
    q = np.zeros(len(seen.gain))
    q[seen.reach] = -np.expm1(draws * np.log1p(-np.minimum(omega, 1.0 - 1e-15)))
    return device, seen.share[device] * counts / (draws * omega[place]), q
