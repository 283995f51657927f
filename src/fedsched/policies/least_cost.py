"""The probability of least cost, for each device by itself, and what it costs."""

import numpy as np

from fedsched.values import PerDevice

__all__ = ["price_of_time", "probability_of_least_cost", "worth"]

_BISECTIONS = 50


def price_of_time(kappa: float, inverse: float, compute_s: float, airtime_s: float) -> float:
    """Lambda: to minimise Q + lambda tau with it lowers (kappa + Q)(c + tau)."""
    return (kappa + inverse) / (compute_s + airtime_s)


def probability_of_least_cost(
    weight: PerDevice, price: PerDevice, floor: PerDevice, least: float = 0.0
) -> PerDevice:
    """The q that minimise the sum of weight / q + price q.

    Each is at least its floor and at most 1, and their sum is at least ``least``, which is at most
    1. Where that binds, each price is lower by the same.

    Example:
        >>> weight, floor = np.ones(2), np.zeros(2)
        >>> probability_of_least_cost(weight, np.array([25.0, 100.0]), floor)
        array([0.2, 0.1])
        >>> probability_of_least_cost(weight, np.array([25.0, 100.0]), floor, 1.0).round(2)
        array([0.89, 0.11])
    """

    def at(off: float) -> PerDevice:
        left = np.maximum(price - off, weight)  # at a price of weight or less, q is 1
        return np.clip(np.sqrt(weight / left), floor, 1.0)

    q = at(0.0)
    if q.sum() >= least:
        return q
    low, high = 0.0, float((price - weight).min())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if at(middle).sum() >= least else (middle, high)
    return at(high)


def worth(weight: PerDevice, floor: PerDevice, factor: PerDevice, price: PerDevice) -> PerDevice:
    """The least of weight (1 + omega) / q + price q."""
    q = probability_of_least_cost(weight * factor, price, floor)
    return weight * factor / q + price * q
