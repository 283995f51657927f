import numpy as np
import pytest

from fedsched.randomness import stream
from fedsched.solve.probabilities import fixed_size_probabilities


def solve(price, weight, size, floor):
    found = fixed_size_probabilities(
        price, weight=np.broadcast_to(weight, price.shape), size=size, floor=floor
    )
    return found.probability, found.multiplier


def rows(*, spread, count=40, devices=9):
    random = stream(21, "sampling", int(spread * 10))
    return 10.0 ** random.uniform(-spread, spread, (count, devices))


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.5, 15.0])
@pytest.mark.parametrize("size", [0.3, 1.0, 2.0, 4.7, 8.0, 8.999])
@pytest.mark.parametrize("floor", [0.0, 0.03])
def test_the_size_is_met_and_every_device_pays_the_multiplier_or_sits_at_a_bound(
    spread, size, floor
):
    price, weight = rows(spread=spread), rows(spread=0.5) if spread > 1 else np.ones((1, 1))
    q, nu = solve(price, weight, size, floor)
    assert q.sum(axis=1) == pytest.approx(np.full(len(q), size), rel=1e-13)
    assert np.all((q >= floor) & (q <= 1.0))
    slope = price - weight / q**2
    # In units of the terms, of which the difference is taken.
    off = (slope - nu[:, None]) / (price + weight / q**2 + np.abs(nu[:, None]))
    assert np.all(off[(q > floor) & (q < 1.0)] == pytest.approx(0.0, abs=1e-13))
    assert np.all(off[q <= floor] >= -1e-13)
    assert np.all(off[q >= 1.0] <= 1e-13)


def test_a_size_of_all_devices_takes_all():
    price = rows(spread=2.0)
    q, nu = solve(price, np.ones((1, 1)), 9.0, 0.0)
    assert np.all(q == 1.0)
    assert np.array_equal(nu, (price - 1.0).max(axis=1))


def test_equal_devices_share_equally():
    q, nu = solve(np.full((1, 4), 3.0), np.ones((1, 1)), 2.0, 0.0)
    assert q == pytest.approx(np.full((1, 4), 0.5), rel=1e-15)
    assert nu == pytest.approx(-1.0)


def test_digits_survive_prices_that_dwarf_the_weights():
    price = np.array([[2249815524.0958915, 80547968045003.1]])
    q, _ = solve(price, np.ones((1, 1)), 1.0, 0.0)
    # The dear device is far from 1: it pays the difference of prices, to rounding.
    dear = (np.diff(price)[0, 0] + 1.0) ** -0.5
    assert q[0, 1] == pytest.approx(dear, rel=1e-12)
    assert q[0, 0] == pytest.approx(1.0 - dear, rel=1e-15)


def test_a_device_that_takes_nearly_all_leaves_the_other_what_it_pays_for():
    price = np.array([0.04201587940715174, 1919.238570735071])
    weight = np.array([2.410284753786761e-30, 2.783712304224136e-28])
    found = fixed_size_probabilities(price, weight=weight, size=1.0).raise_for_status()
    q, nu = found.probability, float(found.multiplier)
    # The first is at 1 to the last bit, where any multiplier from its price on is one.
    assert q[0] == 1.0
    assert nu >= price[0] * (1 - 1e-14)
    assert q[1] == pytest.approx(np.sqrt(weight[1] / (price[1] - nu)), rel=1e-12)
