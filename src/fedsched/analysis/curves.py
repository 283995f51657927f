"""From logs to answers, by the paper's protocol: curves, means over seeds, time to a target.

The clock of a run is its airtime plus computation time times rounds, so one run serves every
computation time: whatever is said of time here takes ``computation_s`` as an argument.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.core.checks import whole_number
from fedsched.runs.runlog import RunLog

__all__ = [
    "ACCURACY",
    "TRAINING_LOSS",
    "Curve",
    "Measure",
    "Reach",
    "Speedup",
    "curve_of",
    "mean_curve",
    "reach",
    "rolling_mean",
    "speedup",
    "time_to_target",
    "training_loss",
]

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """A quantity at the rounds where it was measured."""

    rounds: Values  # rounds done
    airtime_s: Values  # seconds on air until then
    value: Values

    def time_s(self, computation_s: float) -> Values:
        """The clock at each point, for any computation time a round."""
        return np.asarray(self.airtime_s + computation_s * self.rounds)


def curve_of(log: RunLog, column: str = "test_accuracy") -> Curve:
    """A column of a log at the rounds where it was measured (is not NaN)."""
    value = log.column(column)
    measured = np.flatnonzero(~np.isnan(value))
    airtime_s = np.cumsum(log.column("airtime_s"))
    return Curve(
        rounds=(measured + 1).astype(np.float64),
        airtime_s=airtime_s[measured],
        value=value[measured],
    )


def training_loss(log: RunLog) -> Curve:
    r"""The training loss where the accuracy was measured, each of the rounds since the one before.

    A round logs :math:`\sum_n w_n f_n` over its cohort. That is unbiased, but it has the noise of
    :math:`\sum_n w_n`, whose mean is 1: with few devices and unlike weights it is often half or
    twice that. Over the rounds T since the last measurement,

    .. math:: \sum_{t \in T} \sum_n w_n f_n \Big/ \sum_{t \in T} \sum_n w_n

    has little of it. Rounds without a finite loss, and those that lost an update, are passed over.
    """
    at = curve_of(log)
    loss = log.column("train_loss")
    sound = np.isfinite(loss)
    if log.has("rejected"):
        sound &= log.column("rejected") == 0

    def since_before(value: Values) -> Values:
        until = np.cumsum(np.where(sound, value, 0.0))[at.rounds.astype(np.int64) - 1]
        return np.diff(until, prepend=0.0)

    weight = since_before(log.sums("weight"))
    known = weight > 0.0
    return Curve(
        rounds=at.rounds[known],
        airtime_s=at.airtime_s[known],
        value=since_before(loss)[known] / weight[known],
    )


def rolling_mean(value: Values, window: int) -> Values:
    """The mean of up to ``window`` values that end at each place.

    It looks back only, so that a smoothed curve never knows the future.

    Example:
        >>> rolling_mean(np.array([1.0, 2.0, 6.0]), 2).tolist()
        [1.0, 1.5, 4.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(value)])
    end = np.arange(1, len(value) + 1)
    begin = np.maximum(end - window, 0)
    return np.asarray((sums[end] - sums[begin]) / (end - begin))


def mean_curve(
    curves: Sequence[Curve],
    *,
    computation_s: float = 0.0,
    points: int = 400,
    window: int = 1,
    over: str = "time",
) -> tuple[Values, Values]:
    """Curves of several seeds on one grid, averaged, then smoothed: the paper's protocol.

    Each curve is interpolated linearly at ``points`` uniform times (or rounds), from the latest
    first measurement to the earliest last one, so that every seed speaks at every point.
    """
    places = [curve.time_s(computation_s) if over == "time" else curve.rounds for curve in curves]
    begin = max(float(place[0]) for place in places)
    end = min(float(place[-1]) for place in places)
    grid = np.linspace(begin, max(begin, end), points)
    each = [
        np.interp(grid, place, curve.value) for place, curve in zip(places, curves, strict=True)
    ]
    return grid, rolling_mean(np.mean(each, axis=0), window)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """When a target was reached: a straight line in the computation time."""

    airtime_s: float
    rounds: float

    def time_s(self, computation_s: float) -> float:
        """The clock at that moment."""
        return self.airtime_s + computation_s * self.rounds


def reach(curve: Curve, target: float, *, patience: int = 1, falls: bool = False) -> Reach | None:
    """The first crossing of ``target`` that lasts ``patience`` measurements; None if there is none.

    A noisy curve passes a target and falls back; a crossing counts if the next ``patience``
    measurements, itself included, are all at or above it (at or below, of one that ``falls``). It
    is dated at the first of them.

    Example:
        >>> curve = Curve(rounds=np.array([1.0, 2, 3, 4]), airtime_s=np.array([2.0, 4, 6, 8]),
        ...               value=np.array([0.5, 0.9, 0.7, 0.9]))
        >>> reach(curve, 0.8)
        Reach(airtime_s=4.0, rounds=2.0)
        >>> reach(curve, 0.8, patience=2) is None
        True
    """
    whole_number("patience", patience)
    there = curve.value <= target if falls else curve.value >= target
    if len(there) < patience:
        return None
    lasting = np.lib.stride_tricks.sliding_window_view(there, patience).all(axis=1)
    if not lasting.any():
        return None
    first = int(np.argmax(lasting))
    return Reach(airtime_s=float(curve.airtime_s[first]), rounds=float(curve.rounds[first]))


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a run is to reach: a curve of its log, and the way it goes."""

    name: str
    curve: Callable[[RunLog], Curve]
    falls: bool = False

    def reach(self, log: RunLog, target: float, *, patience: int = 1) -> Reach | None:
        """When a run reached a target for good; None if it never did."""
        return reach(self.curve(log), target, patience=patience, falls=self.falls)


ACCURACY = Measure(name="test accuracy", curve=curve_of)
TRAINING_LOSS = Measure(name="training loss", curve=training_loss, falls=True)


def time_to_target(
    curve: Curve, target: float, *, computation_s: float = 0.0, patience: int = 1
) -> float | None:
    """The clock at which a target was reached for good; None if it never was."""
    reached = reach(curve, target, patience=patience)
    return None if reached is None else reached.time_s(computation_s)


@dataclass(frozen=True, kw_only=True)
class Speedup:
    """How many times sooner, with a 95 % interval where there are two seeds or more."""

    ratio: float
    low: float | None
    high: float | None
    seeds: int


def speedup(baseline_s: Sequence[float], ours_s: Sequence[float]) -> Speedup:
    """The ratio of times of paired seeds: the geometric mean, with Student's interval of its log.

    Example:
        >>> speedup([8.0, 18.0], [4.0, 6.0])
        Speedup(ratio=2.449..., low=0.186..., high=32.1..., seeds=2)
    """
    logs = np.log(np.asarray(baseline_s) / np.asarray(ours_s))
    mean, seeds = float(logs.mean()), len(logs)
    if seeds < 2:
        return Speedup(ratio=math.exp(mean), low=None, high=None, seeds=seeds)
    reachable = _student_975(seeds - 1) * float(logs.std(ddof=1)) / math.sqrt(seeds)
    return Speedup(
        ratio=math.exp(mean),
        low=math.exp(mean - reachable),
        high=math.exp(mean + reachable),
        seeds=seeds,
    )


def _student_975(freedom: int) -> float:
    """The 97.5 % point of Student's distribution, from its finite series for whole freedom."""
    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _student_cdf(middle, freedom) < 0.975 else (low, middle)
    return high


def _student_cdf(t: float, freedom: int) -> float:
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    if freedom % 2:
        term, total = cosine, cosine if freedom > 1 else 0.0
        for k in range(3, freedom, 2):
            term *= cosine**2 * (k - 1) / k
            total += term
        within = 2.0 / math.pi * (angle + math.sin(angle) * total)
    else:
        term = total = 1.0
        for k in range(2, freedom, 2):
            term *= cosine**2 * (k - 1) / k
            total += term
        within = math.sin(angle) * total
    return 0.5 + 0.5 * within
