import numpy as np
import pytest
from scipy.optimize import minimize

from fedsched.policies.least_cost import probability_of_least_cost

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("least", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("case", range(6))
def test_it_is_what_a_general_solver_finds(least, case):
    devices = 6
    weight = RNG.uniform(0.1, 1.0, devices) / devices
    price = np.exp(RNG.normal(size=devices, scale=2.0)) * [1.0, 30.0, 300.0][case % 3]
    floor = RNG.uniform(0.01, 0.05, devices)
    q = probability_of_least_cost(weight, price, floor, least)
    assert np.all((q >= floor) & (q <= 1.0))
    assert q.sum() >= least - 1e-12
    found = minimize(
        lambda q: (weight / q + price * q).sum(), np.full(devices, 0.5),
        jac=lambda q: price - weight / q**2, method="SLSQP",
        bounds=list(zip(floor, np.ones(devices), strict=True)),
        constraints={"type": "ineq", "fun": lambda q: q.sum() - least},
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert (weight / q + price * q).sum() <= found.fun * (1.0 + 1e-7)


def test_those_that_cannot_be_reached_stay_out():
    weight, floor = np.full(3, 1.0 / 3.0), np.array([0.1, 0.1, 0.0])
    price = np.array([100.0, 900.0, np.inf])
    q = probability_of_least_cost(weight, price, floor, 2.0 / 3.0)
    assert q[2] == 0.0
    assert q.sum() == pytest.approx(2.0 / 3.0)
    assert q[0] > q[1] == 0.1
