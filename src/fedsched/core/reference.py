"""The slow, obvious twin of the solvers: what the fast code is checked against.

Nothing here is used while scheduling. Every root is found by a dense scan and repeated bisection,
no device is excluded by an argument, and no formula is shared with the fast code. Probabilities are
held as t = -log(1 - q), so that q = 1 - exp(-t) and omega = 1 - exp(-t / m) keep their digits near
0 and near 1 alike.

The objectives are good to about 1e-12 relative. Probabilities are as good as the problem is
conditioned: where all prices are alike and far above the weights, many of them cost the same.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.errors import InputError
from fedsched.records import PerDevice

__all__ = [
    "ReferenceSolution",
    "reference_fixed_size",
    "reference_independent",
    "reference_power",
    "reference_probabilities",
]

_HALVINGS = 64  # of an interval on a logarithmic scale: more than a double can tell apart
_FEASIBLE = 1e-12  # by how much the floors may exceed the whole simplex through rounding
_Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ReferenceSolution:
    """The best point found, and the objectives of all points it was compared with.

    Attributes:
        probability: q, shape (devices,).
        draw_probability: omega, shape (devices,); None where nothing is drawn.
        objective: sum of weight / q + price * q.
        minima: objectives of all local minima found, ascending.
        candidates: objectives of all stationary points found, saddles included, ascending.
    """

    probability: PerDevice
    draw_probability: PerDevice | None
    objective: float
    minima: tuple[float, ...]
    candidates: tuple[float, ...]


def reference_power(
    gain: float, queue: float, *, cost: float, noise: float, max_power: float
) -> float:
    r"""Power that minimises cost / log2(1 + gain P / noise) + queue P over (0, max_power].

    The derivative vanishes where :math:`Z (1+x) \ln^2(1+x) = c \ln(2)\, h / N_0` with
    :math:`x = h P / N_0`. The left side rises, so its logarithm is bisected in :math:`\log x`.

    Example:
        >>> round(reference_power(2.0, 3.0, cost=5.0, noise=1.0, max_power=100.0), 6)
        0.788722
        >>> reference_power(2.0, 0.0, cost=5.0, noise=1.0, max_power=100.0)
        100.0
    """
    for name, value in {"gain": gain, "cost": cost, "noise": noise, "max_power": max_power}.items():
        if not 0.0 < value < math.inf:
            raise InputError(f"{name} must be positive and finite, got {value}; check its unit")
    if not 0.0 <= queue < math.inf:
        raise InputError(f"queue must be non-negative and finite, got {queue}; it starts at 0")
    if queue == 0.0:
        return max_power
    log_target = math.log(cost) + math.log(math.log(2.0)) + math.log(gain) - math.log(noise)
    log_target -= math.log(queue)

    def too_small(log_x: float) -> bool:
        # log(1 + x) = x to the last digit below e^-40, where x itself could underflow
        log_of_log = log_x if log_x < -40.0 else math.log(math.log1p(math.exp(log_x)))
        return math.log1p(math.exp(log_x)) + 2.0 * log_of_log < log_target

    high = math.log(gain) - math.log(noise) + math.log(max_power)
    if too_small(high):
        return max_power
    low = min(0.0, 0.5 * (log_target - math.log(2.0)), high)  # (1+x) log(1+x)^2 <= 2 x^2 there
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return min(max_power, math.exp(low + math.log(noise) - math.log(gain)))


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
    problem = _Drawn.checked(price, weight=weight, draws=draws, floor=floor)
    if problem.size == 1:
        return _best(problem, [(True, np.array([math.inf]))])
    if problem.slack <= 0.0:
        return _best(problem, [(True, problem.floor_t)])
    found = _all_rising(problem)
    for leader in range(problem.size):
        found += _one_falling(problem, leader)
    return _best(problem, [(is_minimum, _closed(problem, t)) for is_minimum, t in found])


def reference_independent(
    price: ArrayLike, *, weight: ArrayLike, floor: ArrayLike = 0.0
) -> ReferenceSolution:
    """Minimum of sum weight / q + price q over floor <= q <= 1, each device by itself.

    Bisects the sign of the derivative, price - weight / q^2, in log q.

    Example:
        >>> reference_independent([4.0, 0.5], weight=1.0).probability.round(12).tolist()
        [0.5, 1.0]
    """
    b, a, f = _checked(price, weight, floor)
    log_q = _bisect(
        lambda x: np.log(b) + 2.0 * x < np.log(a),
        np.full(b.shape, -400.0),
        np.full(b.shape, 400.0),
    )
    return _without_draws(b, a, np.clip(np.exp(np.minimum(log_q, 0.0)), f, 1.0))


def reference_fixed_size(
    price: ArrayLike, *, weight: ArrayLike, size: float, floor: ArrayLike = 0.0
) -> ReferenceSolution:
    """Minimum of sum weight / q + price q over sum q = size, floor <= q <= 1 (convex).

    At the minimum price - weight / q^2 = nu for every device strictly between its bounds. Each
    device in turn serves as the yardstick: nu is written as its price minus y, so only differences
    of prices enter; y is bisected on a logarithmic scale, and the yardstick that meets the size
    best is kept.

    Example:
        >>> solution = reference_fixed_size([1.0, 1.0, 9.0], weight=1.0, size=1.5)
        >>> solution.probability.round(3).tolist()
        [0.598, 0.598, 0.304]
    """
    b, a, f = _checked(price, weight, floor)
    if not float(np.sum(f)) <= size * (1.0 + _FEASIBLE) or not 0.0 < size <= b.size:
        raise InputError(
            f"size must lie between the sum of the floors, {float(np.sum(f))}, and the number of "
            f"devices, {b.size}, got {size}; lower the floor or change the size"
        )

    def probability(yardstick: int, log_y: float) -> PerDevice:
        gap = (b - b[yardstick]) + math.exp(log_y)
        safe = np.where(gap > 0.0, gap, 1.0)
        return np.where(gap > 0.0, np.clip(np.sqrt(a / safe), f, 1.0), 1.0)

    trials = []
    for yardstick in range(b.size):
        low, high = -600.0, 600.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            too_many = float(np.sum(probability(yardstick, middle))) > size
            low, high = (middle, high) if too_many else (low, middle)
        trials.append(probability(yardstick, high))
    return _without_draws(b, a, min(trials, key=lambda q: abs(float(np.sum(q)) - size)))


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """One checked problem with draws and what is needed of it again and again."""

    b: _Array
    a: _Array
    m: int
    floor_q: _Array
    floor_t: _Array  # -log(1 - floor)
    slack: float  # what the floors leave of the simplex of omega
    turn_t: _Array  # where F stops rising; infinite if never

    @property
    def top_t(self) -> _Array:
        """The last t on the rising branch, or the floor if that is later."""
        return np.maximum(self.turn_t, self.floor_t)

    @property
    def size(self) -> int:
        return self.b.size

    @classmethod
    def checked(
        cls, price: ArrayLike, *, weight: ArrayLike, draws: int, floor: ArrayLike
    ) -> "_Drawn":
        b, a, f = _checked(price, weight, floor)
        if draws < 1 or draws != int(draws):
            raise InputError(f"draws must be a whole number of at least 1, got {draws}")
        with np.errstate(divide="ignore"):
            floor_t = -np.log1p(-f)
        taken = float(_total(floor_t, draws))
        if taken > 1.0 + _FEASIBLE:
            raise InputError(
                f"floor needs draw probabilities that sum to {taken}, at most 1 is allowed; "
                f"lower the floor or draw more than {draws} times"
            )
        slack = 0.0 if abs(1.0 - taken) <= _FEASIBLE else 1.0 - taken
        turn_t = _inflection(b, a, draws)
        return cls(b=b, a=a, m=draws, floor_q=f, floor_t=floor_t, slack=slack, turn_t=turn_t)


def _checked(
    price: ArrayLike, weight: ArrayLike, floor: ArrayLike
) -> tuple[_Array, _Array, _Array]:
    b = np.asarray(price, dtype=np.float64)
    if b.ndim != 1 or b.size == 0:
        raise InputError(f"price must be a list of one number per device, got shape {b.shape}")
    a, f = (np.broadcast_to(np.asarray(x, dtype=np.float64), b.shape) for x in (weight, floor))
    for name, values in {"price": b, "weight": a}.items():
        if not np.all((values > 0.0) & np.isfinite(values)):
            raise InputError(f"{name} must be positive and finite for every device, got {values}")
    if not np.all((f >= 0.0) & (f <= 1.0)):
        raise InputError(f"floor must lie in [0, 1] for every device, got {f}")
    return b, a, f


def _bisect(below: Callable[[_Array], NDArray[np.bool_]], low: _Array, high: _Array) -> _Array:
    """Element by element, the point where ``below`` turns from true to false."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        left = below(middle)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class _Level:
    """A number as sign and logarithm: close to q = 1 slopes are too small for a double."""

    sign: _Array
    log: _Array

    def __lt__(self, other: "_Level") -> NDArray[np.bool_]:
        closer = (self.sign == other.sign) & (self.sign * self.log < self.sign * other.log)
        return np.asarray((self.sign < other.sign) | closer)

    @property
    def value(self) -> _Array:
        return np.asarray(self.sign * np.exp(self.log))


def _slope(t: _Array, b: _Array, a: _Array, m: int) -> _Level:
    """F: the derivative of a / q + b q by omega."""
    bracket = b - a / np.expm1(-t) ** 2
    size = np.where(bracket == 0.0, np.finfo(np.float64).tiny, np.abs(bracket))
    return _Level(sign=np.sign(bracket), log=math.log(m) - t * ((m - 1) / m) + np.log(size))


def _total(t: _Array, m: int) -> _Array:
    """Sum of omega over the devices, the last axis."""
    return np.asarray(np.sum(-np.expm1(-t / m), axis=-1))


def _inflection(b: _Array, a: _Array, m: int) -> _Array:
    """Where F stops rising, as t; infinite where it never does."""
    falls = (b > a) & (m > 1)
    ratio = np.where(falls, a / b, 0.25)

    def rises(log_t: _Array) -> NDArray[np.bool_]:  # the sign of dF/dq, divided by b and powers
        t = np.exp(log_t)
        q = -np.expm1(-t)
        return 2.0 * ratio * np.exp(-t) > (m - 1) / m * (q * q - ratio) * q

    low = np.log(-np.log1p(-np.sqrt(ratio) * (1.0 - 1e-9)))  # F rises while it is negative
    t = np.exp(_bisect(rises, low, np.full(low.shape, math.log(60.0))))
    return np.where(falls, t, math.inf)


def _rising(problem: _Drawn, nu: _Level, keep: NDArray[np.bool_]) -> _Array:
    """For each nu the t of each kept device on its rising branch or at its floor."""
    b, a, m = problem.b[keep], problem.a[keep], problem.m
    level = _Level(sign=nu.sign[:, np.newaxis], log=nu.log[:, np.newaxis])
    low = np.log(_below(level.value, b, a, m))
    high = np.broadcast_to(np.log(np.minimum(problem.turn_t[keep], 700.0 * m)), low.shape)
    log_t = _bisect(lambda x: _slope(np.exp(x), b, a, m) < level, low, high)
    return np.maximum(np.exp(log_t), problem.floor_t[keep])


def _below(nu: _Array, b: _Array, a: _Array, m: int) -> _Array:
    """Some t with F(t) <= nu: F(q) <= (m / 2) (b - a / q^2) <= -|nu| for small q."""
    return -np.log1p(-np.minimum(0.5, np.sqrt(a / (b + 2.0 * np.abs(nu) / m))))


def _all_rising(problem: _Drawn) -> list[tuple[bool, _Array]]:
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
        high = _bisect(lambda x: _slope(np.exp(x), b, a, m) < end, low, high)
    return _scanned(problem, gauge, others, np.exp(np.linspace(low, high, 129)))


def _one_falling(problem: _Drawn, leader: int) -> list[tuple[bool, _Array]]:
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
        start = np.exp(_bisect(lambda x: ceiling < _slope(np.exp(x), b, a, m), np.log(start), high))
    stop = 1.0 - m * math.log(at_zero)  # beyond the last root: 1 - omega is below the others' sum
    if start >= stop:
        return []
    near = np.geomspace(1e-13, 0.5, 150)
    grid = np.unique(np.concatenate([[0.0], near, np.linspace(0.0, 1.0, 151), 1.0 - near]))
    return _scanned(problem, leader, others, start + (stop - start) * grid)


def _scanned(
    problem: _Drawn, gauge: int, others: NDArray[np.bool_], grid: _Array
) -> list[tuple[bool, _Array]]:
    """Roots of sum(omega) = 1 along the t of one device; the others follow its multiplier."""
    b, a, m = problem.b[gauge], problem.a[gauge], problem.m

    def excess(t: _Array) -> _Array:
        rest = _total(_rising(problem, _slope(t, b, a, m), others), m)
        return np.asarray(rest - np.exp(-np.maximum(t, problem.floor_t[gauge]) / m))

    found = []
    for up, t in _roots(excess, grid):
        point = np.full(problem.size, max(t, problem.floor_t[gauge]))
        point[others] = _rising(problem, _slope(np.array([t]), b, a, m), others)[0]
        found.append((up, point))
    return found


def _roots(function: Callable[[_Array], _Array], grid: _Array) -> list[tuple[bool, float]]:
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


def _changes(grid: _Array, values: _Array) -> list[tuple[bool, float, float]]:
    positive = values >= 0.0
    return [
        (bool(positive[i + 1]), float(grid[i]), float(grid[i + 1]))
        for i in np.flatnonzero(positive[1:] != positive[:-1])
    ]


def _refined(function: Callable[[_Array], _Array], low: float, high: float) -> float:
    """The first root in the bracket, cut into 32 parts until no number is left between."""
    for _ in range(200):
        if np.nextafter(low, high) >= high:
            break
        finer = np.linspace(low, high, 33)
        _, low, high = _changes(finer, function(finer))[0]
    return low


def _closed(problem: _Drawn, t: _Array) -> _Array:
    """The point with sum of omega exactly 1: the largest omega is what the others leave."""
    others = np.arange(problem.size) != int(np.argmax(t))
    left = float(_total(t[others], problem.m))
    return np.where(others, t, -problem.m * math.log(left))


def _objective(problem: _Drawn, t: _Array) -> _Array:
    q = -np.expm1(-t)
    return np.asarray(np.sum(problem.a / q + problem.b * q, axis=-1))


def _best(problem: _Drawn, found: list[tuple[bool, _Array]]) -> ReferenceSolution:
    objectives = [float(_objective(problem, t)) for _, t in found]
    t = found[int(np.argmin(objectives))][1]
    return ReferenceSolution(
        probability=np.maximum(-np.expm1(-t), problem.floor_q),
        draw_probability=-np.expm1(-t / problem.m),
        objective=min(objectives),
        minima=tuple(sorted(x for x, (up, _) in zip(objectives, found, strict=True) if up)),
        candidates=tuple(sorted(objectives)),
    )


def _without_draws(b: _Array, a: _Array, q: PerDevice) -> ReferenceSolution:
    value = float(np.sum(a / q + b * q))
    return ReferenceSolution(
        probability=q, draw_probability=None, objective=value, minima=(value,), candidates=(value,)
    )
