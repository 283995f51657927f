"""The scan that counts stationary points, against a response computed point by point."""

import numpy as np
import pytest

import fedsched.solve.blocks
import fedsched.solve.uniqueness
from fedsched.randomness import stream
from fedsched.solve.response import Cheapest
from fedsched.solve.uniqueness import count_falling

DEVICES, DRAWS = 60, 5


def problem():
    """Prices over one and a half magnitudes, of which k has the least."""
    price = 150.0 * 10.0 ** (1.5 * stream(5, "channel").random(DEVICES))
    return Cheapest.of(price, DRAWS)


def taken_by_bisection(k, floor, rest):
    """What the others take: each device's q, on its rising branch, where F equals F_k."""
    nu, _ = k.price_of(rest)
    low = np.maximum(1.0 / np.sqrt(k.others), floor)
    high = np.full_like(k.others, k.q_turn)
    for _ in range(200):
        q = 0.5 * (low + high)
        slope = k.m * (1.0 - q) ** ((k.m - 1) / k.m) * (k.others - 1.0 / q**2)
        low, high = np.where(slope < nu, q, low), np.where(slope < nu, high, q)
    return float((1.0 - (1.0 - low) ** (1.0 / k.m)).sum())


@pytest.mark.parametrize("floor", [0.0, 0.03])
@pytest.mark.parametrize("length", [1 << 13, 200, 16])
def test_points_of_a_scan_respond_as_each_would_alone(monkeypatch, floor, length):
    monkeypatch.setattr(fedsched.solve.blocks, "_LENGTH", length)  # many points, few, a part of one
    k = problem()
    rest = np.linspace(0.3, 0.95 * k.rest_turn, 7)
    others, slope = fedsched.solve.uniqueness._responses(k, floor, rest)
    wanted = [taken_by_bisection(k, floor, each) for each in rest]
    assert others == pytest.approx(wanted, rel=1e-10)
    width = 1e-5
    for each, found in zip(rest, slope, strict=True):
        ends = [taken_by_bisection(k, floor, each + side * width) for side in (-1, 1)]
        prices = [k.price_of(each + side * width)[0] for side in (-1, 1)]
        assert found == pytest.approx((ends[1] - ends[0]) / (prices[1] - prices[0]), rel=1e-5)


def test_a_point_that_has_not_settled_proves_nothing(monkeypatch):
    k = problem()
    assert count_falling(k, 0.0, 0.3) is not None
    monkeypatch.setattr(fedsched.solve.uniqueness, "_SWEEPS", 1)
    others, slope = fedsched.solve.uniqueness._responses(k, 0.0, np.array([0.5, 0.6]))
    assert np.isnan(others).all()
    assert np.isnan(slope).all()
    assert count_falling(k, 0.0, 0.3) is None
