"""Policies: from the gains of one round to probabilities and powers. State in, state out."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.core.checks import finite_array, positive_number, whole_number
from fedsched.core.power import power_unchecked
from fedsched.core.solution import Status
from fedsched.core.uplink import Uplink
from fedsched.errors import InputError, UnknownNameError
from fedsched.records import Cohort, Decision, PerDevice
from fedsched.scheduling.designs import AbstractDesign, make_design
from fedsched.scheduling.queues import advance_queue

__all__ = [
    "POLICIES",
    "READS",
    "AbstractPolicy",
    "Full",
    "Lyapunov",
    "PolicyState",
    "Uniform",
    "make_policy",
]

_log = logging.getLogger(__name__)

PolicyState = Mapping[str, NDArray[np.float64]]  # arrays by name, so that it can be saved


class AbstractPolicy(ABC):
    """Decides, from the gains of one round and its own state, who takes part and at what power."""

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


def _check_shares(data_weight: PerDevice | None) -> PerDevice | None:
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


def _shares(data_weight: PerDevice | None, devices: int) -> PerDevice:
    """Each device's share of the data: 1/N unless given."""
    if data_weight is None:
        return np.full(devices, 1.0 / devices)
    if len(data_weight) != devices:
        raise InputError(
            f"data_weight has {len(data_weight)} values for {devices} devices; give one per device"
        )
    return data_weight


def _reachable(gain: PerDevice) -> tuple[NDArray[np.bool_], PerDevice]:
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


@final
@dataclass(frozen=True, kw_only=True)
class Lyapunov(AbstractPolicy):
    r"""Drift plus penalty: the paper's policy, with any of the three designs.

    Each round it minimises, given the queues Z,

    .. math:: V \sum_n \Big( \frac{N p_n^2}{q_n} + \lambda \tau_n(P_n) q_n \Big)
              + \sum_n Z_n P_n q_n ,

    first over the powers (Theorem 2, independent of q), then over the probabilities its design
    allows, with weight :math:`a_n = V N p_n^2` and price
    :math:`b_n = V \lambda \tau_n + Z_n P_n`. With equal data :math:`a_n = V / N`.

    Attributes:
        design: how cohorts are drawn.
        uplink: the link that is shared.
        v: V, the weight of the objective against the queues.
        lam: lambda, the price of a second of airtime against the convergence term 1/q.
        budget_w: the average power each device may spend, Pbar.
        floor: a least probability for every reachable device.
        data_weight: p, each device's share of the data; equal shares if None.
        as_printed: Theorem 2 with the paper's ln(2)^2.
    """

    design: AbstractDesign
    uplink: Uplink
    v: float
    lam: float
    budget_w: float
    floor: float = 0.0
    data_weight: PerDevice | None = field(default=None, compare=False)
    as_printed: bool = False

    def __post_init__(self) -> None:
        positive_number("v", self.v)
        positive_number("lam", self.lam)
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", _check_shares(self.data_weight))
        if not 0.0 <= self.floor < 1.0:
            raise InputError(f"qmin must lie in [0, 1), got {self.floor}; it is a probability")

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "lyapunov"

    def init(self, devices: int) -> PolicyState:
        """Empty queues."""
        whole_number("devices", devices)
        return {"queue": np.zeros(devices)}

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Powers by Theorem 2, then the probabilities of the design; the queues move on."""
        queue = state["queue"]
        if gain.shape != queue.shape:
            raise InputError(
                f"gain has shape {gain.shape} and the queues {queue.shape}; give one gain per "
                "device the state was made for"
            )
        reachable, g = _reachable(gain)
        everyone = len(g) == len(gain)
        z = queue if everyone else queue[reachable]
        if len(g) == 0:
            decision = _nobody(len(gain))
            return decision, {"queue": self._next(queue, decision)}
        cost = self.v * self.lam * self.uplink.bits / self.uplink.bandwidth_hz
        log2_factor = float(np.log(2.0)) ** (2 if self.as_printed else 1)
        power = power_unchecked(
            g, z, cost, self.uplink.noise_w, self.uplink.max_power_w, log2_factor
        )
        price = (self.v * self.lam) * self.uplink.airtime_s(g, power) + z * power
        weight: float | PerDevice = self.v / len(gain)
        if self.data_weight is not None:
            weight = self.v * len(gain) * _shares(self.data_weight, len(gain))[reachable] ** 2
        solution = self.design.solve(price, weight, self.floor)
        decision = Decision(
            probability=_spread(solution.probability, reachable, everyone),
            draw_probability=None
            if solution.draw_probability is None
            else _spread(solution.draw_probability, reachable, everyone),
            power_w=_spread(power, reachable, everyone),
            residual=float(solution.residual),
        )
        if solution.status is not Status.OPTIMAL:
            # A run of thousands of rounds must survive one that is hard; the log has its residual.
            _log.warning("a round's probabilities are not certified: %s", solution.status.value)
        return decision, {"queue": self._next(queue, decision)}

    def _next(self, queue: PerDevice, decision: Decision) -> PerDevice:
        return advance_queue(
            queue,
            power_w=decision.power_w,
            probability=decision.probability,
            budget_w=self.budget_w,
        )

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """A cohort of the design."""
        devices = len(decision.probability)
        return self.design.draw(decision, _shares(self.data_weight, devices), rng)


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(AbstractPolicy):
    r"""All reachable devices alike, whatever their channel: the baseline.

    The power is constant and spends the budget exactly: :math:`P = \min(P_{\max}, \bar P / q)`.
    (The paper prints :math:`\bar P q` with :math:`q = 1/(1-(1-1/N)^m)`, which is the weight.)
    """

    design: AbstractDesign
    uplink: Uplink
    budget_w: float
    data_weight: PerDevice | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", _check_shares(self.data_weight))

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "uniform"

    def init(self, devices: int) -> PolicyState:
        """Nothing is remembered."""
        whole_number("devices", devices)
        return {}

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """The same probability and power for every reachable device."""
        reachable, known = _reachable(gain)
        if len(known) == 0:
            return _nobody(len(gain)), state
        q, omega = self.design.uniform(len(known))
        power = min(self.uplink.max_power_w, self.budget_w / q)
        alike = reachable.astype(np.float64)
        return Decision(
            probability=q * alike,
            draw_probability=None if omega is None else omega * alike,
            power_w=np.full(len(gain), power),
            residual=0.0,
        ), state

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """A cohort of the design."""
        devices = len(decision.probability)
        return self.design.draw(decision, _shares(self.data_weight, devices), rng)


@final
@dataclass(frozen=True, kw_only=True)
class Full(AbstractPolicy):
    """Every reachable device in every round, at its average budget."""

    uplink: Uplink
    budget_w: float
    data_weight: PerDevice | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        positive_number("budget_w", self.budget_w)
        object.__setattr__(self, "data_weight", _check_shares(self.data_weight))

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "full"

    def init(self, devices: int) -> PolicyState:
        """Nothing is remembered."""
        whole_number("devices", devices)
        return {}

    def decide(self, gain: PerDevice, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Probability 1 for every reachable device."""
        reachable, _ = _reachable(gain)
        power = min(self.uplink.max_power_w, self.budget_w)
        return Decision(
            probability=reachable.astype(np.float64),
            draw_probability=None,
            power_w=np.full(len(gain), power),
            residual=0.0,
        ), state

    def draw(self, decision: Decision, rng: np.random.Generator) -> Cohort:
        """Everybody who can be reached."""
        del rng  # nothing is left to chance
        device = np.flatnonzero(decision.probability).astype(np.int64)
        shares = _shares(self.data_weight, len(decision.probability))
        return Cohort(device=device, weight=shares[device])


def _nobody(devices: int) -> Decision:
    """A round in which no device can be reached."""
    nothing = np.zeros(devices)
    return Decision(
        probability=nothing, draw_probability=nothing, power_w=nothing.copy(), residual=0.0
    )


def _spread(values: PerDevice, reachable: NDArray[np.bool_], everyone: bool) -> PerDevice:
    """Values of the reachable devices among all, 0 elsewhere."""
    if everyone:
        return values
    full = np.zeros(len(reachable))
    full[reachable] = values
    return full


# What each policy reads besides the gains; a sweep over anything else repeats the same run.
READS: Mapping[str, frozenset[str]] = {
    "full": frozenset(),
    "lyapunov": frozenset({"draws", "design", "lam", "v", "qmin", "as_printed"}),
    "uniform": frozenset({"draws", "design"}),
}
POLICIES = tuple(READS)


def make_policy(
    name: str,
    *,
    uplink: Uplink,
    draws: int,
    design: str = "with-replacement",
    v: float = 100.0,
    lam: float = 100.0,
    budget_w: float = 1.0,
    floor: float = 0.0,
    data_weight: PerDevice | None = None,
    as_printed: bool = False,
) -> AbstractPolicy:
    """The policy of that name; the defaults are the paper's.

    Example:
        >>> from fedsched.core.uplink import PAPER_UPLINK
        >>> make_policy("uniform", uplink=PAPER_UPLINK, draws=10).name
        'uniform'
    """
    if name == "full":
        return Full(uplink=uplink, budget_w=budget_w, data_weight=data_weight)
    if name == "uniform":
        return Uniform(
            design=make_design(design, draws),
            uplink=uplink,
            budget_w=budget_w,
            data_weight=data_weight,
        )
    if name == "lyapunov":
        return Lyapunov(
            design=make_design(design, draws),
            uplink=uplink,
            v=v,
            lam=lam,
            budget_w=budget_w,
            floor=floor,
            data_weight=data_weight,
            as_printed=as_printed,
        )
    raise UnknownNameError("policy", name, POLICIES)
