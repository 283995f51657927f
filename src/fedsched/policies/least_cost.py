"""The probability of least cost, for each device by itself, and what it costs."""

import numpy as np

from fedsched.values import PerDevice

__all__ = ["price_of_time", "probability_of_least_cost", "worth"]


def price_of_time(kappa: float, inverse: float, compute_s: float, airtime_s: float) -> float:
    """Lambda: to minimise Q + lambda tau with it lowers (kappa + Q)(c + tau)."""
    return (kappa + inverse) / (compute_s + airtime_s)


def probability_of_least_cost(weight: PerDevice, price: PerDevice, floor: PerDevice) -> PerDevice:
    """The q that minimises weight / q + price q, at least the floor and at most 1."""
    return np.clip(np.sqrt(weight / price), floor, 1.0)


def worth(weight: PerDevice, floor: PerDevice, factor: PerDevice, price: PerDevice) -> PerDevice:
    """The least of weight (1 + omega) / q + price q."""
    q = probability_of_least_cost(weight * factor, price, floor)
    return weight * factor / q + price * q
