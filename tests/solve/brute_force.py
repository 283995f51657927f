"""The draw-probability problem on a grid: what the slow twin itself is checked against.

It knows the objective and nothing else: no stationarity, no branches, no multiplier.
"""

import itertools

import numpy as np
from numpy.typing import ArrayLike
from tests.solve.reference import Array, ReferenceSolution
from tests.solve.reference_draws import DrawnProblem, best_point, objective_of

from fedsched.errors import InputError

__all__ = ["brute_force_probabilities"]


def brute_force_probabilities(
    price: ArrayLike, *, weight: ArrayLike, draws: int, floor: ArrayLike = 0.0
) -> ReferenceSolution:
    """The same minimum for two or three devices, by a grid over the simplex and zooming.

    The grid is even in the logarithms of the ratios of omega (above the floors), so it reaches
    shares of 1e-17. Grid points not above their neighbours are zoomed into, best first, save those
    close to a better one.

    Example:
        >>> solution = brute_force_probabilities([1.0, 4.0], weight=1.0, draws=1)
        >>> [round(float(q), 4) for q in solution.probability]
        [0.588, 0.412]
    """
    problem = DrawnProblem.checked(price, weight=weight, draws=draws, floor=floor)
    if problem.size not in (2, 3):
        raise InputError(
            f"price has {problem.size} entries; the grid is meant for 2 or 3, "
            "use reference_probabilities for other sizes"
        )
    axis = np.linspace(-40.0, 40.0, 4001 if problem.size == 2 else 321)
    logs = _mesh([axis] * (problem.size - 1) + [np.zeros(1)])[..., 0, :]
    values = objective_of(problem, _t_of_shares(problem, logs))
    lowest = np.ones_like(values, dtype=bool)
    padded = np.pad(values, 1, constant_values=np.inf)
    for shift in itertools.product((0, 1, 2), repeat=values.ndim):
        lowest &= values <= padded[tuple(slice(s, s + len(axis)) for s in shift)]
    starts = logs[lowest][np.argsort(values[lowest], kind="stable")]
    found = []
    for start in _apart(starts, distance=2.0, most=16):
        order = np.argsort(start)
        centre, half = _splits(start[order]), 2.0 * float(axis[1] - axis[0])
        for _ in range(60):
            mesh = _mesh([np.linspace(c - half, c + half, 9) for c in centre])
            t = _t_of_shares(problem, _logs_of_splits(mesh)[..., np.argsort(order)])
            best = np.unravel_index(int(np.argmin(objective_of(problem, t))), t.shape[:-1])
            centre, half = mesh[best], 0.7 * half
        found.append((True, t[best]))
    return best_point(problem, found)


def _mesh(axes: list[Array]) -> Array:
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def _apart(points: Array, *, distance: float, most: int) -> list[Array]:
    """The first points that keep their distance: on a plateau of equal values many are lowest."""
    kept: list[Array] = []
    for point in points:
        if len(kept) < most and all(np.max(np.abs(point - x)) >= distance for x in kept):
            kept.append(point)
    return kept


def _splits(logs: Array) -> Array:
    """Logit of the first share in the whole, of the second in what is left, and so on.

    With the smallest share first, long narrow valleys of the objective run along an axis.
    """
    rest = np.logaddexp.accumulate(logs[::-1])[::-1]
    return logs[:-1] - rest[1:]


def _logs_of_splits(splits: Array) -> Array:
    """The inverse of ``_splits``: logarithms of the shares."""
    left = np.zeros((*splits.shape[:-1], 1))
    logs = -np.logaddexp(0.0, -splits)
    rests = np.concatenate([left, np.cumsum(-np.logaddexp(0.0, splits), axis=-1)], axis=-1)
    return np.asarray(rests + np.concatenate([logs, left], axis=-1))


def _t_of_shares(problem: DrawnProblem, logs: Array) -> Array:
    """Points given by the logarithms of the shares above the floors, up to a constant; as t."""
    part = np.exp(logs - np.max(logs, axis=-1, keepdims=True))
    share = part / np.sum(part, axis=-1, keepdims=True)
    omega = -np.expm1(-problem.floor_t / problem.m) + problem.slack * share
    rest = omega @ (1.0 - np.eye(problem.size))  # 1 - omega with all its digits
    small = omega < 0.5
    return -problem.m * np.where(small, np.log1p(-np.where(small, omega, 0.0)), np.log(rest))
