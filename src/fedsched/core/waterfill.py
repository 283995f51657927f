r"""The convex problem with a linear constraint: :math:`\sum q = s`, floor <= q <= 1.

.. math:: \min_q \sum_n \frac{a_n}{q_n} + b_n q_n \;\Rightarrow\;
          q_n = \min\{1, \max\{q_{\min}, \sqrt{a_n / (b_n - \nu)}\}\} .

The sum rises with nu. Newton's method on :math:`(\sum q)^{-2}`, which is nearly linear in nu, with
a bracket that only shrinks, so it cannot fail.
"""

import numpy as np
from numpy.typing import NDArray

from fedsched.records import PerDevice

__all__ = ["waterfill"]

_STEPS = 120


def waterfill(
    price: PerDevice, weight: PerDevice, size: float, floor: float
) -> tuple[PerDevice, NDArray[np.float64]]:
    """Probabilities and multiplier for each row; ``weight`` broadcasts, 0 < size <= devices.

    The multiplier is below every price whose device is not at 1.
    """
    devices = price.shape[-1]
    if size >= devices:
        return np.ones_like(price), np.zeros(price.shape[0])
    # At b - a / q^2 a device asks for q. With every device asking for size / devices or more the
    # sum is at least the size, with every one asking for that or less it is at most the size.
    even = price - weight * (devices / size) ** 2
    low = even.min(axis=1, keepdims=True)
    high = even.max(axis=1, keepdims=True)
    nu = 0.5 * (low + high)
    q = np.empty_like(price)
    for _ in range(_STEPS):
        gap = np.maximum(price - nu, 0.0)
        with np.errstate(divide="ignore"):
            q = np.sqrt(weight / gap)
        free = (q > floor) & (q < 1.0)
        np.clip(q, floor, 1.0, out=q)
        total = q.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
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
        if np.all((np.abs(total - size) <= 1e-14 * size) | (high - low <= 4e-16 * np.abs(high))):
            break
        inside = (guess > low) & (guess < high) & (goal > 0.0)
        nu = np.where(inside, guess, 0.5 * (low + high))
    return q, nu[:, 0]
