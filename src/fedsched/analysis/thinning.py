"""Fewer points of a curve: without loss for the time to a target, with care for drawing."""

import numpy as np

from fedsched.analysis.curves import Curve
from fedsched.core.checks import whole_number

__all__ = ["averaged", "reach_steps", "thinned"]


def reach_steps(curve: Curve, patience: int) -> Curve:
    r"""The points of a curve that decide when it reached any target.

    With :math:`w_i = \min(v_i, \dots, v_{i+p-1})` for patience p, a target is reached at the first
    i with :math:`w_i` at or above it, and that is always a place where w is higher than ever
    before. These places, with w as their value, thus answer for every target without loss.

    Example:
        >>> curve = Curve(rounds=np.array([1.0, 2, 3, 4]), airtime_s=np.array([2.0, 4, 6, 8]),
        ...               value=np.array([0.5, 0.9, 0.7, 0.8]))
        >>> steps = reach_steps(curve, 2)
        >>> steps.rounds.tolist(), steps.value.tolist()
        ([1.0, 2.0], [0.5, 0.7])
    """
    whole_number("patience", patience)
    if len(curve.value) < patience:
        none = np.empty(0)
        return Curve(rounds=none, airtime_s=none, value=none)
    lasting = np.lib.stride_tricks.sliding_window_view(curve.value, patience).min(axis=1)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(lasting)[:-1]])
    steps = np.flatnonzero(lasting > before)
    return Curve(rounds=curve.rounds[steps], airtime_s=curve.airtime_s[steps], value=lasting[steps])


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
    chosen = np.array([*kept, size - 1])
    return Curve(
        rounds=curve.rounds[chosen], airtime_s=curve.airtime_s[chosen], value=curve.value[chosen]
    )


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
