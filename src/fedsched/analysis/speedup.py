"""How many times sooner, over paired seeds, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Speedup", "speedup", "student_975"]


@dataclass(frozen=True, kw_only=True)
class Speedup:
    """How many times sooner, with a 95 % interval where there are two seeds or more."""

    ratio: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its ends, where they say something: none of one seed, nor over more than a hundredfold.

        Example:
            >>> Speedup(ratio=2.0, low=0.001, high=4000.0, seeds=2).interval is None
            True
        """
        if self.low is None or self.high is None or self.high > 100.0 * self.low:
            return None
        return self.low, self.high


Times = Sequence[float] | Sequence[Sequence[float]]


def speedup(baseline_s: Times, ours_s: Times) -> Speedup:
    """The ratio of times of paired seeds: the geometric mean, with Student's interval of its log.

    With a row of times for each seed, one to each target, the interval is the wider of two: that
    of the seeds' means, and that of all ratios. The first alone may be narrow by luck.

    Example:
        >>> speedup([8.0, 18.0], [4.0, 6.0])
        Speedup(ratio=2.449..., low=0.186..., high=32.1..., seeds=2)
    """
    logs = np.log(np.asarray(baseline_s) / np.asarray(ours_s))
    mean, seeds = float(logs.mean()), len(logs)
    if seeds < 2:
        return Speedup(ratio=math.exp(mean), low=None, high=None, seeds=seeds)
    by_seed = logs.reshape(seeds, -1).mean(axis=1)
    reachable = max(_reachable(by_seed), _reachable(logs.ravel()))
    return Speedup(
        ratio=math.exp(mean),
        low=math.exp(mean - reachable),
        high=math.exp(mean + reachable),
        seeds=seeds,
    )


def _reachable(values: NDArray[np.float64]) -> float:
    """Half the width of Student's 95 % interval of a mean."""
    spread = float(values.std(ddof=1)) / math.sqrt(len(values))
    return student_975(len(values) - 1) * spread


def student_975(freedom: int) -> float:
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
