"""The slow, obvious twin of the solvers: what the fast code is checked against.

Nothing here is used while scheduling. Every root is found by repeated bisection, no device is
excluded by an argument, and no formula is shared with the fast code. Draws with replacement, whose
problem has more than one minimum, are in ``reference_draws``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.errors import InputError
from fedsched.values import PerDevice

__all__ = [
    "FEASIBLE",
    "Array",
    "ReferenceSolution",
    "bisect",
    "checked_problem",
    "reference_fixed_size",
    "reference_independent",
    "reference_power",
]

_HALVINGS = 64  # of an interval on a logarithmic scale: more than a double can tell apart
FEASIBLE = 1e-12  # by how much the floors may exceed the whole simplex through rounding
Array = NDArray[np.float64]


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


def reference_independent(
    price: ArrayLike, *, weight: ArrayLike, floor: ArrayLike = 0.0
) -> ReferenceSolution:
    """Minimum of sum weight / q + price q over floor <= q <= 1, each device by itself.

    Bisects the sign of the derivative, price - weight / q^2, in log q.

    Example:
        >>> reference_independent([4.0, 0.5], weight=1.0).probability.round(12).tolist()
        [0.5, 1.0]
    """
    b, a, f = checked_problem(price, weight, floor)
    log_q = bisect(
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
    b, a, f = checked_problem(price, weight, floor)
    if not float(np.sum(f)) <= size * (1.0 + FEASIBLE) or not 0.0 < size <= b.size:
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


def checked_problem(
    price: ArrayLike, weight: ArrayLike, floor: ArrayLike
) -> tuple[Array, Array, Array]:
    """Price, weight and floor with one number for each device, refused where they make no sense."""
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


def bisect(below: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
    """Element by element, the point where ``below`` turns from true to false."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        left = below(middle)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return low


def _without_draws(b: Array, a: Array, q: PerDevice) -> ReferenceSolution:
    value = float(np.sum(a / q + b * q))
    return ReferenceSolution(
        probability=q, draw_probability=None, objective=value, minima=(value,), candidates=(value,)
    )
