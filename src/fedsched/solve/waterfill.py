r"""The convex problem with a linear constraint: :math:`\sum q = s`, floor <= q <= 1.

.. math:: \min_q \sum_n \frac{a_n}{q_n} + b_n q_n \;\Rightarrow\;
          q_n = \min\{1, \max\{q_{\min}, \sqrt{a_n / (b_n - \nu)}\}\} .

The sum rises with nu. Newton's method on :math:`(\sum q)^{-2}`, which is nearly linear in nu, with
a bracket that only shrinks, so it cannot fail.
"""

import math

import numpy as np

from fedsched.solve.blocks import blocks
from fedsched.values import PerDevice

__all__ = ["waterfill"]

_STEPS = 250


def waterfill(
    price: PerDevice, weight: PerDevice, size: float, floor: float
) -> tuple[PerDevice, float]:
    """Probabilities and multiplier of one problem; ``weight`` has shape (devices,) or (1,).

    The multiplier is below every price whose device is not at 1.
    """
    devices = len(price)
    if size >= devices:
        return np.ones_like(price), float((price - weight).max())
    # At b - a / q^2 a device asks for q. With every device asking for size / devices or more the
    # sum is at least the size, with every one asking for that or less it is at most the size.
    even = price - weight * (devices / size) ** 2
    low, high, start = float(even.min()), float(even.max()), float(even.mean())
    # Fewer devices than the size are at 1, which they reach at b - a: the rest takes something.
    last = math.ceil(size) - 1
    ends = price - weight
    high = max(min(high, float(np.partition(ends, last)[last] if last else ends.min())), low)
    with np.errstate(over="ignore"):
        q, nu, low, high = _solve(price, weight, size, floor, low, start, high)
        if abs(float(q.sum()) - size) > 1e-14 * size:
            # b - nu lost its digits to a large price; measured from the nearest one it has all.
            origin = float(price[np.argmin(np.abs(price - nu))])
            spare = 1e-15 * max(abs(low), abs(high))
            low, high = (low - origin) - spare, (high - origin) + spare
            q, offset, _, _ = _solve(price - origin, weight, size, floor, low, nu - origin, high)
            nu = origin + offset
    return q, nu


def _solve(
    price: PerDevice,
    weight: PerDevice,
    size: float,
    floor: float,
    low: float,
    start: float,
    high: float,
) -> tuple[PerDevice, float, float, float]:
    """Probabilities, multiplier and its last bracket."""
    nu = start if low < start < high else 0.5 * (low + high)
    q = np.empty_like(price)
    for _ in range(_STEPS):
        total, held, slope = _respond(price, weight, nu, floor, q)
        if abs(total - size) <= 1e-14 * size:
            break
        if total < size:
            low = nu
        else:
            high = nu
        # Newton on share^-2 = goal^-2, of those that are neither at 1 nor at their floor.
        share, goal, guess = total - held, size - held, math.nan
        if slope > 0.0 and goal > 0.0:
            ratio = share / goal
            guess = nu + 0.5 * share * (1.0 - ratio * ratio) / slope
        if high - low <= 4e-16 * abs(high) or abs(guess - nu) <= 4e-16 * abs(nu):
            break
        nu = guess if low < guess < high else 0.5 * (low + high)
    return q, nu, low, high


def _respond(
    price: PerDevice, weight: PerDevice, nu: float, floor: float, q: PerDevice
) -> tuple[float, float, float]:
    """Write q at nu; return its sum, the part of it that is held at an end, and d sum / d nu."""
    total = held = slope = 0.0
    for block in blocks(len(price)):
        a = weight if len(weight) == 1 else weight[block]
        gap = price[block] - nu
        q_b = q[block]
        # 1e-300: a device whose price is not above nu asks for more than 1, and gets 1.
        np.maximum(gap, 1e-300, out=gap)
        np.divide(a, gap, out=q_b)
        np.sqrt(q_b, out=q_b)
        if float(q_b.max()) < 1.0 and (floor == 0.0 or float(q_b.min()) > floor):
            slope += 0.5 * float((q_b / gap).sum())
        else:
            free = (q_b > floor) & (q_b < 1.0)
            np.minimum(q_b, 1.0, out=q_b)
            np.maximum(q_b, floor, out=q_b)
            slope += 0.5 * float((q_b / gap).dot(free))
            held += float(q_b.dot(~free))
        total += float(q_b.sum())
    return total, held, slope
