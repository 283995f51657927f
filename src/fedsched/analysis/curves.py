"""Curves of a run, and their means over seeds, by the paper's protocol.

One run serves every computation time: whatever is said of time takes ``computation_s`` as an
argument.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsched.clock import elapsed_s
from fedsched.runs.runlog import RunLog

__all__ = [
    "Band",
    "Curve",
    "averaged",
    "curve_of",
    "mean_curve",
    "rolling_mean",
    "seed_band",
    "thinned",
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
        return elapsed_s(self.airtime_s, self.rounds, computation_s)

    def at(self, places: NDArray[np.generic]) -> "Curve":
        """Some of its points, by their numbers or by a mask."""
        return Curve(
            rounds=self.rounds[places], airtime_s=self.airtime_s[places], value=self.value[places]
        )


def curve_of(log: RunLog, column: str = "test_accuracy") -> Curve:
    """A column of a log at the rounds where it was measured (is not NaN)."""
    value = log.column(column)
    rounds, airtime_s = np.arange(1.0, len(value) + 1.0), np.cumsum(log.column("airtime_s"))
    return Curve(rounds=rounds, airtime_s=airtime_s, value=value).at(~np.isnan(value))


def training_loss(log: RunLog) -> Curve:
    r"""The training loss where the accuracy was measured, each of the rounds since the one before.

    A round logs :math:`\sum_n w_n f_n` over its cohort. That is unbiased, but it has the noise of
    :math:`\sum_n w_n`, whose mean is 1: with few devices and unlike weights it is often half or
    twice that. Over the rounds T since the last measurement,

    .. math:: \sum_{t \in T} \sum_n w_n f_n \Big/ \sum_{t \in T} \sum_n w_n

    has little of it. Rounds without a finite loss, and those that lost an update, are passed over.
    """
    accuracy = curve_of(log)
    loss = log.column("train_loss")
    sound = np.isfinite(loss)
    if log.has("rejected"):
        sound &= log.column("rejected") == 0

    def since_before(value: Values) -> Values:
        until = np.cumsum(np.where(sound, value, 0.0))[accuracy.rounds.astype(np.int64) - 1]
        return np.diff(until, prepend=0.0)

    weight = since_before(log.sums("weight"))
    known = weight > 0.0
    return replace(accuracy.at(known), value=since_before(loss)[known] / weight[known])


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Band:
    """The mean of several seeds, and the lowest and the highest of them."""

    where: Values  # seconds, or rounds
    mean: Values
    low: Values
    high: Values


def seed_band(
    curves: Sequence[Curve],
    *,
    computation_s: float = 0.0,
    points: int = 400,
    window: int = 1,
    over: str = "time",
    spaced: Callable[[float, float, int], Values] = np.linspace,
) -> Band:
    """Curves of several seeds on one grid, averaged, then smoothed: the paper's protocol.

    Each curve is interpolated linearly at ``points`` times (or rounds), from the latest first
    measurement to the earliest last one, so that every seed speaks at every point. They are
    uniform, or as ``spaced`` places them. The band is that of the seeds, each smoothed alike.
    """
    places = [curve.time_s(computation_s) if over == "time" else curve.rounds for curve in curves]
    begin = max(float(place[0]) for place in places)
    end = min(float(place[-1]) for place in places)
    grid = spaced(begin, max(begin, end), points)
    each = [
        np.interp(grid, place, curve.value) for place, curve in zip(places, curves, strict=True)
    ]
    smooth = [rolling_mean(value, window) for value in each]
    return Band(
        where=grid,
        mean=rolling_mean(np.mean(each, axis=0), window),
        low=np.min(smooth, axis=0),
        high=np.max(smooth, axis=0),
    )


def mean_curve(
    curves: Sequence[Curve],
    *,
    computation_s: float = 0.0,
    points: int = 400,
    window: int = 1,
    over: str = "time",
) -> tuple[Values, Values]:
    """The places and the mean of :func:`seed_band`."""
    band = seed_band(curves, computation_s=computation_s, points=points, window=window, over=over)
    return band.where, band.mean


def thinned(curve: Curve, points: int) -> Curve:
    """A curve of at most ``points`` points that looks the same, noise included.

    Of each stretch of neighbours the one stays that spans the largest triangle with the point kept
    before it and the mean of the stretch after it; the ends stay.
    """
    size = len(curve.value)
    if size <= points:
        return curve
    edges = [*_edges(size, points), size]
    kept = [0]
    for begin, end, after in zip(edges[:-2], edges[1:-1], edges[2:], strict=True):
        x0, y0 = curve.rounds[kept[-1]], curve.value[kept[-1]]
        x2, y2 = curve.rounds[end:after].mean(), curve.value[end:after].mean()
        x1, y1 = curve.rounds[begin:end], curve.value[begin:end]
        area = np.abs((x0 - x2) * (y1 - y0) - (x0 - x1) * (y2 - y0))
        kept.append(begin + int(np.argmax(area)))
    return curve.at(np.array([*kept, size - 1]))


def averaged(curve: Curve, points: int) -> Curve:
    """A curve of at most ``points`` points, each the mean of a stretch of neighbours."""
    size = len(curve.value)
    if size <= points:
        return curve
    begin = np.array([0, *_edges(size, points)])
    count = np.diff([*begin, size])
    rounds, airtime_s, value = (
        np.add.reduceat(each, begin) / count
        for each in (curve.rounds, curve.airtime_s, curve.value)
    )
    return Curve(rounds=rounds, airtime_s=airtime_s, value=value)


def _edges(size: int, points: int) -> list[int]:
    """Where stretches begin: even on a linear axis and on a logarithmic one."""
    half = points // 2
    both = np.concatenate([np.linspace(1, size - 1, half), np.geomspace(1, size - 1, half)])
    return [int(each) for each in np.unique(both.astype(np.int64))]
