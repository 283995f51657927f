r"""The convex problem with a linear constraint: :math:`\sum q = s`, floor <= q <= 1.

.. math:: \min_q \sum_n \frac{a_n}{q_n} + b_n q_n \;\Rightarrow\;
          q_n = \min\{1, \max\{q_{\min}, \sqrt{a_n / (b_n - \nu)}\}\} .

The sum rises with nu. Newton's method on :math:`(\sum q)^{-2}`, which is nearly linear in nu, with
a bracket that only shrinks, so it cannot fail.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedsched.records import PerDevice

__all__ = ["waterfill"]

_STEPS = 250


def waterfill(
    price: PerDevice, weight: PerDevice, size: float, floor: float
) -> tuple[PerDevice, NDArray[np.float64]]:
    """Probabilities and multiplier for each row; ``weight`` broadcasts, 0 < size <= devices.

    The multiplier is below every price whose device is not at 1.
    """
    devices = price.shape[-1]
    if size >= devices:
        return np.ones_like(price), (price - weight).max(axis=1)
    # At b - a / q^2 a device asks for q. With every device asking for size / devices or more the
    # sum is at least the size, with every one asking for that or less it is at most the size.
    even = price - weight * (devices / size) ** 2
    low = even.min(axis=1, keepdims=True)
    high = even.max(axis=1, keepdims=True)
    # Fewer devices than the size are at 1, which they reach at b - a: the rest takes something.
    last = math.ceil(size) - 1
    full = np.partition(price - weight, last, axis=1)[:, [last]]
    high = np.maximum(np.minimum(high, full), low)
    q, nu, low, high = _solve(price, weight, size, floor, low, high)
    if np.any(np.abs(q.sum(axis=1) - size) > 1e-14 * size):
        # b - nu has lost its digits to a large price; measured from the nearest price it has all.
        nearest = np.argmin(np.abs(price - nu), axis=1)
        origin = price[np.arange(len(price)), nearest][:, None]
        spare = 1e-15 * np.maximum(np.abs(low), np.abs(high))
        low, high = (low - origin) - spare, (high - origin) + spare
        q, offset, _, _ = _solve(price - origin, weight, size, floor, low, high)
        nu = origin + offset
    return q, nu[:, 0]


def _solve(
    price: PerDevice,
    weight: PerDevice,
    size: float,
    floor: float,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> tuple[PerDevice, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities, multiplier and its last bracket, all but the first of shape (rows, 1)."""
    nu = 0.5 * (low + high)
    q = np.empty_like(price)
    for _ in range(_STEPS):
        gap = np.maximum(price - nu, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            q = np.sqrt(weight / gap)
        free = (q > floor) & (q < 1.0)
        np.clip(q, floor, 1.0, out=q)
        total = q.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moving = q * free
            held = total - moving.sum(axis=1, keepdims=True)
            slope = 0.5 * (moving**3 / weight).sum(axis=1, keepdims=True)
            share = total - held
            goal = size - held
            # Newton on share^-2 = goal^-2; share - goal is total - size.
            step = 0.5 * share * (1.0 - (share / goal) ** 2) / slope
            guess = nu + step
        below = total < size
        low = np.where(below, nu, low)
        high = np.where(below, high, nu)
        met = np.abs(total - size) <= 1e-14 * size
        stalled = (np.abs(step) <= 4e-16 * np.abs(nu)) & (goal > 0.0)
        if np.all(met | stalled | (high - low <= 4e-16 * np.abs(high))):
            break
        inside = (guess > low) & (guess < high) & (goal > 0.0)
        nu = np.where(inside, guess, 0.5 * (low + high))
    return q, nu, low, high
