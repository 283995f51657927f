"""Fewer points of a curve, for drawing."""

import numpy as np

from fedsched.analysis.curves import Curve

__all__ = ["averaged", "thinned"]


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
