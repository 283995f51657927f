"""Rules that read the channel, or nothing: whose turn it is, who is fast, who has waited."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.policies.base import Need, PolicyState
from fedsched.policies.choice import (
    AbstractChoicePolicy,
    AbstractTossedPolicy,
    Choice,
    Context,
    draw_counted,
    smallest,
)
from fedsched.values import Experience, PerDevice

__all__ = [
    "AdaptiveSampling",
    "BestChannel",
    "FairnessQueue",
    "FedCS",
    "ProportionalFair",
    "RoundRobin",
    "adaptive_probabilities",
    "deadline_greedy",
]


@final
@dataclass(frozen=True, kw_only=True)
class RoundRobin(AbstractChoicePolicy):
    """The next m devices in turn; who is out of reach is passed over until the next turn."""

    needs: ClassVar[frozenset[Need]] = frozenset()

    name = "round-robin"
    own_shared_state = frozenset({"turns"})  # how many there were

    def start(self, devices: int) -> PolicyState:
        """Nobody has had a turn; device 0 begins."""
        # By device and not one place in the circle: where devices come and go, places shift.
        return {"turn": np.zeros(devices), "turns": np.zeros(())}

    def choose(self, context: Context) -> Choice:
        """The m reachable devices whose last turn is longest ago, those without one first."""
        turn, turns = context.state["turn"].copy(), float(context.state["turns"])
        order = smallest(turn, len(turn))
        place = np.flatnonzero(~np.isnan(context.gain[order]))[: self.draws]
        device = order[place]
        passed = order[: place[-1] + 1]  # who is out of reach has had its turn too
        turn[passed] = turns + 1.0 + np.arange(len(passed))
        return context.average(device, turn=turn, turns=np.array(turns + len(passed)))


@final
@dataclass(frozen=True, kw_only=True)
class BestChannel(AbstractChoicePolicy):
    """The m devices with the largest gains."""

    name = "best-channel"

    def choose(self, context: Context) -> Choice:
        """Top m by gain."""
        device = context.reach[smallest(-context.gain[context.reach], self.draws)]
        return context.average(device)


@final
@dataclass(frozen=True, kw_only=True)
class ProportionalFair(AbstractChoicePolicy):
    """The m devices whose gains are largest against their own average.

    Attributes:
        window: rounds the average looks back; fewer while fewer have been seen.
    """

    window: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("window", self.window)

    name = "proportional-fair"

    def start(self, devices: int) -> PolicyState:
        """No gain has been seen."""
        return {"mean_gain": np.zeros(devices), "seen": np.zeros(devices)}

    def choose(self, context: Context) -> Choice:
        """Top m by gain over mean gain, the present one included."""
        mean, rate = _running(context.state, "mean_gain", context.gain, context.reach, self.window)
        ratio = context.gain[context.reach] / mean[context.reach]
        device = context.reach[smallest(-ratio, self.draws)]
        return context.average(device, mean_gain=mean, seen=rate)


def deadline_greedy(upload_s: PerDevice, *, deadline_s: float) -> NDArray[np.int64]:
    """FedCS: take the device that adds least to the round while the deadline holds.

    Uploads follow each other (TDMA) and all compute equally long, so this is the longest run of
    smallest uploads that ends before the deadline.

    Returns:
        Places in the order taken.

    Example:
        >>> deadline_greedy(np.array([3.0, 1.0, 2.0]), deadline_s=4.0).tolist()
        [1, 2]
    """
    order = smallest(upload_s, len(upload_s))
    return order[np.cumsum(upload_s[order]) < deadline_s]


@final
@dataclass(frozen=True, kw_only=True)
class FedCS(AbstractChoicePolicy):
    """As many devices as can upload before a deadline (Nishio and Yonetani).

    Attributes:
        deadline_s: of all uploads of a round; None: m uploads at 4 bit/s/Hz.
        candidates: how many random devices are considered; None: all, and the weak starve.
    """

    deadline_s: float | None = None
    candidates: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deadline_s is not None:
            positive_number("deadline_s", self.deadline_s)
        if self.candidates is not None:
            whole_number("candidates", self.candidates)

    name = "fedcs"

    def choose(self, context: Context) -> Choice:
        """The greedy choice among the candidates; nobody, if not even one upload fits."""
        link, reach = self.system.link, context.reach
        if self.candidates is not None:
            reach = reach[smallest(context.chance[0, reach], self.candidates)]
        deadline_s = self.deadline_s or self.draws * link.nominal_s
        upload_s = context.plan.upload_s[reach]
        device = reach[deadline_greedy(upload_s, deadline_s=deadline_s)]
        return context.average(device)


@final
@dataclass(frozen=True, kw_only=True)
class FairnessQueue(AbstractChoicePolicy):
    r"""Fast devices, and those that have waited (Huang et al., RBCS-F, for TDMA).

    Each device has a queue :math:`Y \leftarrow \max(Y + \beta - I, 0)`; the m smallest
    :math:`v \tau_n - Y_n` take part, so that each does so in a fraction beta of the rounds. A
    round that reaches nobody leaves the queues as they are.

    Attributes:
        tradeoff: v, the price of a second of airtime against waiting.
        least: beta; None: half of what everybody would get, m / (2 N).
    """

    tradeoff: float = 10.0
    least: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("tradeoff", self.tradeoff, allow_zero=True)
        if self.least is not None:
            positive_number("least", self.least)

    name = "fairness-queue"

    def start(self, devices: int) -> PolicyState:
        """Nobody has waited."""
        return {"waiting": np.zeros(devices)}

    def choose(self, context: Context) -> Choice:
        """The m smallest prices; queues of the others grow."""
        devices, waiting = len(context.gain), context.state["waiting"]
        upload_s = context.plan.upload_s[context.reach]
        price = self.tradeoff * upload_s - waiting[context.reach]
        device = context.reach[smallest(price, self.draws)]
        least = min(1.0, self.draws / (2.0 * devices)) if self.least is None else self.least
        queue = waiting + least
        queue[device] -= 1.0
        return context.average(device, waiting=np.maximum(queue, 0.0))


def adaptive_probabilities(
    importance: PerDevice, upload_s: PerDevice, *, ratio: float = 0.0
) -> PerDevice:
    r"""Draw probabilities that minimise (time of a round) x (rounds needed) (Luo et al.).

    .. math:: \min_\omega \Big(\sum_n \omega_n t_n\Big)
              \Big(\sum_n \frac{c_n^2}{\omega_n} + r\Big), \quad \sum \omega = 1

    Stationarity gives :math:`\omega_n \propto c_n / \sqrt{t_n - x}` with
    :math:`x = r M / B` for the values M and B of the two brackets; x lies in
    :math:`[0, \min t)` and is found by bisection. At r = 0, :math:`\omega \propto c / \sqrt t`.

    Example:
        >>> adaptive_probabilities(np.array([1.0, 1.0]), np.array([1.0, 4.0])).round(4).tolist()
        [0.6667, 0.3333]
    """

    def omega(x: float) -> PerDevice:
        w = importance / np.sqrt(upload_s - x)
        return np.asarray(w / w.sum())

    low, high = 0.0, float(upload_s.min()) * (1.0 - 1e-12)
    if ratio > 0.0:
        for _ in range(100):
            middle = 0.5 * (low + high)
            w = omega(middle)
            wanted = ratio * float((w * upload_s).sum())
            wanted /= float((importance**2 / w).sum()) + ratio
            low, high = (middle, high) if wanted > middle else (low, middle)
    return omega(low)


@final
@dataclass(frozen=True, kw_only=True)
class AdaptiveSampling(AbstractTossedPolicy):
    """m draws with replacement, by importance over the root of the mean upload time (Luo et al.).

    Every draw counts: a device drawn k times has weight k p / (m omega) and sends once. The mean
    upload time is the running mean of what the device would have needed so far. The importance of
    a device is p G, where G, a bound on its gradients, is learned while training as the largest
    update it has sent; who has sent none counts as the mean of those who have.

    Attributes:
        bound: G, if it is known beforehand; then nothing is learned.
        ratio: beta / alpha of the convergence bound in the units of G^2, from pilot runs; 0 if not
            known.
    """

    bound: PerDevice | None = field(default=None, compare=False)
    ratio: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("ratio", self.ratio, allow_zero=True)
        if self.bound is not None:
            object.__setattr__(
                self, "bound", finite_array("bound", self.bound, allow_zero=False).copy()
            )

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """The norms of updates, unless their bounds are known."""
        return frozenset({Need.GAIN} if self.bound is not None else {Need.GAIN, Need.STALE})

    name = "adaptive-sampling"

    def start(self, devices: int) -> PolicyState:
        """No upload time is known, nor any update."""
        if self.bound is not None and self.bound.shape != (devices,):
            raise InputError(
                f"bound must have one number for each of the {devices} devices, got shape "
                f"{self.bound.shape}"
            )
        return {
            "mean_upload_s": np.zeros(devices),
            "seen": np.zeros(devices),
            "largest": np.full(devices, np.nan),
        }

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """The largest update of each device."""
        largest = state["largest"].copy()
        largest[experience.device] = np.fmax(largest[experience.device], experience.norm)
        return {**state, "largest": largest}

    def choose(self, context: Context) -> Choice:
        """Draw from the mean times, the present one included."""
        reach, now = context.reach, np.zeros(len(context.gain))
        now[reach] = context.plan.upload_s[reach]
        mean, count = _running(context.state, "mean_upload_s", now, reach, None)
        importance = context.share * (
            _known_or_mean(context.state["largest"]) if self.bound is None else self.bound
        )
        omega = adaptive_probabilities(importance[reach], mean[reach], ratio=self.ratio)
        device, weight, q = draw_counted(omega, self.draws, context)
        return Choice(
            device=device,
            weight=weight,
            probability=q,
            state={"mean_upload_s": mean, "seen": count},
        )


def _known_or_mean(value: PerDevice) -> PerDevice:
    """Values, where NaN the mean of the others; all 1 if there are none or one is 0."""
    known = value[~np.isnan(value)]
    if len(known) == 0 or known.min() <= 0.0:
        return np.ones(len(value))
    return np.where(np.isnan(value), known.mean(), value)


def _running(
    state: Mapping[str, PerDevice],
    name: str,
    now: PerDevice,
    reach: NDArray[np.int64],
    window: int | None,
) -> tuple[PerDevice, PerDevice]:
    """The running mean of the reachable devices with the present value, and how many it holds."""
    count = state["seen"].copy()
    count[reach] += 1.0
    held = count if window is None else np.minimum(count, float(window))
    mean = state[name].copy()
    mean[reach] += (now[reach] - mean[reach]) / held[reach]
    return mean, count
