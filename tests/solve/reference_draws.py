"""The slow, obvious twin of the solver for draws with replacement: its problem has many minima.

Nothing here is used while scheduling, and no formula is shared with the fast code. Probabilities
are held as t = -log(1 - q), so that q = 1 - exp(-t) and omega = 1 - exp(-t / m) keep their digits
near 0 and near 1 alike.

The objectives are good to about 1e-12 relative. Probabilities are as good as the problem is
conditioned: where all prices are alike and far above the weights, many of them cost the same.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tests.solve.reference import (
    FEASIBLE,
    Array,
    ReferenceSolution,
    bisect,
    checked_problem,
)

from fedsched.errors import InputError

__all__ = ["DrawnProblem", "best_point", "objective_of", "reference_probabilities"]


def reference_probabilities(
    price: ArrayLike, *, weight: ArrayLike, draws: int, floor: ArrayLike = 0.0
) -> ReferenceSolution:
    r"""Global minimum of the problem with draws, by enumeration.

    .. math:: \min_\omega \sum_n a_n / q_n + b_n q_n, \quad q_n = 1 - (1 - \omega_n)^m,
              \quad \sum_n \omega_n = 1, \quad q_n \ge f_n .

    With the multiplier nu of the sum, :math:`F_n(q) = m (1-q)^{(m-1)/m} (b_n - a_n/q^2) = \nu` for
    every device above its floor and :math:`F_n(f_n) \ge \nu` at the floor. F_n rises up to one
    inflection and falls beyond it; at most one device is on a falling branch at a minimum. So: take
    all devices on their rising branches, then each device in turn on its falling branch and the
    rest on their rising ones; scan; refine every sign change of ``sum(omega) - 1``; compare.

    Args:
        price: b, shape (devices,).
        weight: a, one number or shape (devices,).
        draws: m, at least 1.
        floor: f, smallest q allowed, one number or shape (devices,).

    Returns:
        The best stationary point. A root where the sum of omega falls as the leader's omega rises
        is a saddle: it counts among the candidates, not among the minima.

    Example:
        >>> solution = reference_probabilities([1.0, 4.0], weight=1.0, draws=1)
        >>> [round(float(q), 4) for q in solution.probability], len(solution.minima)
        ([0.588, 0.412], 1)
    """
    problem = DrawnProblem.checked(price, weight=weight, draws=draws, floor=floor)
    if problem.size == 1:
        return best_point(problem, [(True, np.array([math.inf]))])
    if problem.slack <= 0.0:
        return best_point(problem, [(True, problem.floor_t)])
    found = _all_rising(problem)
    for leader in range(problem.size):
        found += _one_falling(problem, leader)
    return best_point(problem, [(is_minimum, _closed(problem, t)) for is_minimum, t in found])


@dataclass(frozen=True, kw_only=True)
class DrawnProblem:
    """One checked problem with draws and what is needed of it again and again."""

    b: Array
    a: Array
    m: int
    floor_q: Array
    floor_t: Array  # -log(1 - floor)
    slack: float  # what the floors leave of the simplex of omega
    turn_t: Array  # where F stops rising; infinite if never

    @property
    def top_t(self) -> Array:
        """The last t on the rising branch, or the floor if that is later."""
        return np.maximum(self.turn_t, self.floor_t)

    @property
    def size(self) -> int:
        """How many devices there are."""
        return self.b.size

    @classmethod
    def checked(
        cls, price: ArrayLike, *, weight: ArrayLike, draws: int, floor: ArrayLike
    ) -> "DrawnProblem":
        """The problem, refused if its numbers make no sense or its floors leave no room."""
        b, a, f = checked_problem(price, weight, floor)
        if draws < 1 or draws != int(draws):
            raise InputError(f"draws must be a whole number of at least 1, got {draws}")
        with np.errstate(divide="ignore"):
            floor_t = -np.log1p(-f)
        taken = float(_total(floor_t, draws))
        if taken > 1.0 + FEASIBLE:
            raise InputError(
                f"floor needs draw probabilities that sum to {taken}, at most 1 is allowed; "
                f"lower the floor or draw more than {draws} times"
            )
        slack = 0.0 if abs(1.0 - taken) <= FEASIBLE else 1.0 - taken
        turn_t = _inflection(b, a, draws)
        return cls(b=b, a=a, m=draws, floor_q=f, floor_t=floor_t, slack=slack, turn_t=turn_t)


@dataclass(frozen=True, kw_only=True)
class _Level:
    """A number as sign and logarithm: close to q = 1 slopes are too small for a double."""

    sign: Array
    log: Array

    def __lt__(self, other: "_Level") -> NDArray[np.bool_]:
        closer = (self.sign == other.sign) & (self.sign * self.log < self.sign * other.log)
        return np.asarray((self.sign < other.sign) | closer)

    @property
    def value(self) -> Array:
        return np.asarray(self.sign * np.exp(self.log))


def _slope(t: Array, b: Array, a: Array, m: int) -> _Level:
    """F: the derivative of a / q + b q by omega."""
    bracket = b - a / np.expm1(-t) ** 2
    size = np.where(bracket == 0.0, np.finfo(np.float64).tiny, np.abs(bracket))
    return _Level(sign=np.sign(bracket), log=math.log(m) - t * ((m - 1) / m) + np.log(size))


def _total(t: Array, m: int) -> Array:
    """Sum of omega over the devices, the last axis."""
    return np.asarray(np.sum(-np.expm1(-t / m), axis=-1))


def _inflection(b: Array, a: Array, m: int) -> Array:
    """Where F stops rising, as t; infinite where it never does."""
    falls = (b > a) & (m > 1)
    ratio = np.where(falls, a / b, 0.25)

    def rises(log_t: Array) -> NDArray[np.bool_]:  # the sign of dF/dq, divided by b and powers
        t = np.exp(log_t)
        q = -np.expm1(-t)
        return 2.0 * ratio * np.exp(-t) > (m - 1) / m * (q * q - ratio) * q

    low = np.log(-np.log1p(-np.sqrt(ratio) * (1.0 - 1e-9)))  # F rises while it is negative
    t = np.exp(bisect(rises, low, np.full(low.shape, math.log(60.0))))
    return np.where(falls, t, math.inf)


def _rising(problem: DrawnProblem, nu: _Level, keep: NDArray[np.bool_]) -> Array:
    """For each nu the t of each kept device on its rising branch or at its floor."""
    b, a, m = problem.b[keep], problem.a[keep], problem.m
    level = _Level(sign=nu.sign[:, np.newaxis], log=nu.log[:, np.newaxis])
    low = np.log(_below(level.value, b, a, m))
    high = np.broadcast_to(np.log(np.minimum(problem.turn_t[keep], 700.0 * m)), low.shape)
    log_t = bisect(lambda x: _slope(np.exp(x), b, a, m) < level, low, high)
    return np.maximum(np.exp(log_t), problem.floor_t[keep])


def _below(nu: Array, b: Array, a: Array, m: int) -> Array:
    """Some t with F(t) <= nu: F(q) <= (m / 2) (b - a / q^2) <= -|nu| for small q."""
    return -np.log1p(-np.minimum(0.5, np.sqrt(a / (b + 2.0 * np.abs(nu) / m))))


def _all_rising(problem: DrawnProblem) -> list[tuple[bool, Array]]:
    """The minimum with every device on its rising branch or at its floor, if there is one.

    The device whose rising branch ends lowest measures nu: its t on that branch runs through all
    nu allowed, whether or not the device itself is at its floor.
    """
    m = problem.m
    share = -np.expm1(-problem.floor_t / m) + problem.slack / problem.size
    # below this multiplier no omega exceeds its share, so their sum is at most 1
    bound = np.minimum(-m * np.log1p(-share), problem.top_t)
    lowest = np.asarray(np.min(_slope(bound, problem.b, problem.a, m).value))
    tops = _slope(np.minimum(problem.top_t, 700.0 * m), problem.b, problem.a, m).value
    gauge = int(np.argmin(tops))
    others = np.arange(problem.size) != gauge
    b, a = problem.b[gauge], problem.a[gauge]
    low = np.log(_below(lowest, b, a, m)) - 1e-6  # a little further, against rounding
    high = np.log(np.minimum(problem.turn_t[gauge], 700.0 * m))
    if problem.floor_t[gauge] > problem.turn_t[gauge]:
        end = _slope(problem.floor_t[gauge], b, a, m)
        high = bisect(lambda x: _slope(np.exp(x), b, a, m) < end, low, high)
    return _scanned(problem, gauge, others, np.exp(np.linspace(low, high, 129)))


def _one_falling(problem: DrawnProblem, leader: int) -> list[tuple[bool, Array]]:
    """All stationary points with the leader on its falling branch, the rest on their rising."""
    b, a, m = problem.b[leader], problem.a[leader], problem.m
    others = np.arange(problem.size) != leader
    ends = _slope(np.minimum(problem.top_t, 700.0 * m), problem.b, problem.a, m)
    zero = _Level(sign=np.zeros(1), log=np.zeros(1))
    at_zero = float(_total(_rising(problem, zero, others), m)[0])
    first = int(np.argmin(np.where(others, ends.value, np.inf)))
    if math.isinf(problem.turn_t[leader]) or ends.sign[first] <= 0.0 or at_zero >= 1.0:
        return []  # on a falling branch nu is positive, and the others then take more than at 0
    start = problem.top_t[leader]
    if ends.value[leader] > ends.value[first]:  # above the lowest end the others have no answer
        ceiling = _Level(sign=ends.sign[first], log=ends.log[first])
        high = np.asarray(math.log(700.0 * m))
        start = np.exp(bisect(lambda x: ceiling < _slope(np.exp(x), b, a, m), np.log(start), high))
    stop = 1.0 - m * math.log(at_zero)  # beyond the last root: 1 - omega is below the others' sum
    if start >= stop:
        return []
    near = np.geomspace(1e-13, 0.5, 150)
    grid = np.unique(np.concatenate([[0.0], near, np.linspace(0.0, 1.0, 151), 1.0 - near]))
    return _scanned(problem, leader, others, start + (stop - start) * grid)


def _scanned(
    problem: DrawnProblem, gauge: int, others: NDArray[np.bool_], grid: Array
) -> list[tuple[bool, Array]]:
    """Roots of sum(omega) = 1 along the t of one device; the others follow its multiplier."""
    b, a, m = problem.b[gauge], problem.a[gauge], problem.m

    def excess(t: Array) -> Array:
        rest = _total(_rising(problem, _slope(t, b, a, m), others), m)
        return np.asarray(rest - np.exp(-np.maximum(t, problem.floor_t[gauge]) / m))

    found = []
    for up, t in _roots(excess, grid):
        point = np.full(problem.size, max(t, problem.floor_t[gauge]))
        point[others] = _rising(problem, _slope(np.array([t]), b, a, m), others)[0]
        found.append((up, point))
    return found


def _roots(function: Callable[[Array], Array], grid: Array) -> list[tuple[bool, float]]:
    """All sign changes on the grid, refined; with whether the function goes up there.

    Where the function comes near zero and turns back between two grid points, a closer look
    decides whether it passes through zero twice.
    """
    values = function(grid)
    brackets = _changes(grid, values)
    size = np.abs(values)
    turns = (size[1:-1] < size[:-2]) & (size[1:-1] <= size[2:])
    for i in np.flatnonzero(turns) + 1:
        low, high = grid[i - 1], grid[i + 1]
        if len(np.unique(values[i - 1 : i + 2] >= 0.0)) > 1:
            continue
        for _ in range(12):
            finer = np.linspace(low, high, 33)
            inner = function(finer)
            if crossed := _changes(finer, inner):
                brackets += crossed
                break
            j = int(np.clip(np.argmin(np.abs(inner)), 1, 31))
            low, high = finer[j - 1], finer[j + 1]
    return [(up, _refined(function, low, high)) for up, low, high in brackets]


def _changes(grid: Array, values: Array) -> list[tuple[bool, float, float]]:
    positive = values >= 0.0
    return [
        (bool(positive[i + 1]), float(grid[i]), float(grid[i + 1]))
        for i in np.flatnonzero(positive[1:] != positive[:-1])
    ]


def _refined(function: Callable[[Array], Array], low: float, high: float) -> float:
    """The first root in the bracket, cut into 32 parts until no number is left between."""
    for _ in range(200):
        if np.nextafter(low, high) >= high:
            break
        finer = np.linspace(low, high, 33)
        _, low, high = _changes(finer, function(finer))[0]
    return low


def _closed(problem: DrawnProblem, t: Array) -> Array:
    """The point with sum of omega exactly 1: the largest omega is what the others leave."""
    others = np.arange(problem.size) != int(np.argmax(t))
    left = float(_total(t[others], problem.m))
    return np.where(others, t, -problem.m * math.log(left))


def objective_of(problem: DrawnProblem, t: Array) -> Array:
    """Sum of a / q + b q over the devices, the last axis."""
    q = -np.expm1(-t)
    return np.asarray(np.sum(problem.a / q + problem.b * q, axis=-1))


def best_point(problem: DrawnProblem, found: list[tuple[bool, Array]]) -> ReferenceSolution:
    """The best of the points found, each with whether it is a minimum."""
    objectives = [float(objective_of(problem, t)) for _, t in found]
    t = found[int(np.argmin(objectives))][1]
    return ReferenceSolution(
        probability=np.maximum(-np.expm1(-t), problem.floor_q),
        draw_probability=-np.expm1(-t / problem.m),
        objective=min(objectives),
        minima=tuple(sorted(x for x, (up, _) in zip(objectives, found, strict=True) if up)),
        candidates=tuple(sorted(objectives)),
    )
