"""The slow twin against even more obvious searches."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize, minimize_scalar
from tests.solve.brute_force import brute_force_probabilities
from tests.solve.problems import (
    TWO_MINIMA_ON_ONE_BRANCH,
    DrawProblem,
    draw_problems,
    objective,
)
from tests.solve.reference import (
    reference_fixed_size,
    reference_independent,
    reference_power,
)
from tests.solve.reference_draws import reference_probabilities

from fedsched.errors import InputError
from fedsched.randomness import stream

POWER = {"cost": 8e5, "noise": 1.0, "max_power": 10**3.5}


def cost_of_power(power, gain, queue, *, cost, noise, **_):
    return cost * math.log(2.0) / math.log1p(gain * power / noise) + queue * power


@pytest.mark.parametrize("gain", [1e-30, 1e-12, 1e-3, 1.0, 2e2, 1e12, 1e30])
@pytest.mark.parametrize("queue", [1e-9, 0.3, 7.0, 3e3, 1e9])
def test_the_power_is_where_a_generic_search_finds_it(gain, queue):
    power = reference_power(gain, queue, **POWER)
    top = math.log(POWER["max_power"])
    found = minimize_scalar(
        lambda x: math.log(cost_of_power(math.exp(x), gain, queue, **POWER)),
        bounds=(top - 90.0, top),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 2000},
    )
    best = cost_of_power(math.exp(found.x), gain, queue, **POWER)
    assert cost_of_power(power, gain, queue, **POWER) <= best * (1 + 1e-14)
    # a flat minimum hides the square root of the rounding from a search by values
    assert math.log(power) == pytest.approx(found.x, abs=1e-6)


def test_without_a_queue_the_power_is_the_peak():
    assert reference_power(1e-3, 0.0, **POWER) == POWER["max_power"]


def test_the_derivative_vanishes_at_the_power():
    power = reference_power(0.7, 40.0, **POWER)
    x = 0.7 * power
    slope = -8e5 * math.log(2.0) * 0.7 / ((1 + x) * math.log1p(x) ** 2)
    assert slope == pytest.approx(-40.0, rel=1e-12)


@pytest.mark.parametrize("gain", [1e-3, 0.02, 1.0, 200.0])
def test_the_printed_square_of_ln_2_gives_too_little_power(gain):
    queue, unbounded = 50.0, POWER | {"max_power": 1e9}
    power = reference_power(gain, queue, **unbounded)
    # Scaling the cost by ln 2 turns the factor ln 2 into the printed (ln 2)^2.
    printed = reference_power(gain, queue, **unbounded | {"cost": 8e5 * math.log(2.0)})
    assert math.log(2.0) < printed / power < math.sqrt(math.log(2.0))
    loss = cost_of_power(printed, gain, queue, **POWER) / cost_of_power(power, gain, queue, **POWER)
    assert loss > 1.003


@pytest.mark.parametrize(
    ("field", "value"), [("gain", 0.0), ("queue", -1.0), ("cost", math.nan), ("max_power", 0.0)]
)
def test_impossible_powers_are_refused_by_name(field, value):
    arguments = {"gain": 1.0, "queue": 1.0, **POWER, field: value}
    with pytest.raises(InputError, match=f"{field} must be .* got {value}"):
        reference_power(**arguments)


@pytest.mark.slow
@given(draw_problems())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_answer_is_feasible_and_its_objective_is_its_own(problem):
    solution = reference_probabilities(**problem.arguments)
    q, omega = solution.probability, solution.draw_probability
    assert np.sum(omega) == pytest.approx(1.0, abs=1e-14)
    assert np.all(q >= problem.floor) and np.all(q <= 1.0)
    if len(q) > 1:
        with np.errstate(divide="ignore"):
            again = -np.expm1(problem.draws * np.log1p(-omega))
        assert q == pytest.approx(again, rel=1e-12 * problem.draws, abs=1e-14)
    assert solution.objective == pytest.approx(
        objective(problem.price, problem.weight, q), rel=1e-13
    )
    assert solution.objective == solution.minima[0] == solution.candidates[0]


@pytest.mark.slow
@given(draw_problems(min_devices=2, max_devices=6, floors=False))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_moving_a_little_probability_never_helps(problem):
    solution = reference_probabilities(**problem.arguments)
    omega = solution.draw_probability
    for giver in range(len(omega)):
        for taker in set(range(len(omega))) - {giver}:
            moved = omega.copy()
            step = 1e-3 * omega[[giver, taker]].min()
            moved[giver] -= step
            moved[taker] += step
            q = -np.expm1(problem.draws * np.log1p(-np.minimum(moved, 1 - 1e-16)))
            assert objective(problem.price, problem.weight, q) >= solution.objective * (1 - 1e-12)


@pytest.mark.slow
@given(draw_problems(min_devices=2, max_devices=5, equal_weights=True))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_with_equal_weights_only_the_cheapest_device_is_beyond_its_inflection(problem):
    solution = reference_probabilities(**problem.arguments)
    assert not beyond_inflection(problem, solution.probability)[dearer(problem)].any()


def test_with_unequal_weights_a_dearer_device_can_lead():
    problem = DrawProblem(price=np.array([20.0, 22.0]), weight=np.array([0.01, 0.2]), draws=10)
    q = reference_probabilities(**problem.arguments).probability
    assert beyond_inflection(problem, q).tolist() == [False, True]


def beyond_inflection(problem, q):
    """Where r b q^3 + (2 - r) a q - 2 a is positive, strictly inside the floor and clear of 0."""
    r, a, b = (problem.draws - 1) / problem.draws, problem.weight, problem.price
    cubic = r * b * q**3 + (2 - r) * a * q - 2 * a
    return (cubic > 1e-9 * (b + a)) & (q > problem.floor * (1 + 1e-9))


def dearer(problem):
    return problem.price > problem.price.min()


@pytest.mark.slow
def test_a_tie_of_several_devices_has_one_minimum_for_each_leader():
    solution = reference_probabilities(np.full(5, 20.0), weight=0.01, draws=10)
    assert len(solution.minima) == 5
    assert np.ptp(solution.minima) <= 1e-14 * solution.objective
    assert np.sort(solution.probability)[-1] > 0.9 > 0.1 > np.sort(solution.probability)[-2]


def test_one_falling_branch_can_hold_two_minima_and_the_nearer_can_be_the_best():
    problem = TWO_MINIMA_ON_ONE_BRANCH
    solution = reference_probabilities(**problem.arguments)
    assert beyond_inflection(problem, solution.probability).tolist() == [True] + [False] * 3
    assert solution.draw_probability[0] == pytest.approx(0.287, abs=1e-3)
    runner_up = next(x for x in solution.minima if x > solution.objective * (1 + 1e-9))
    assert runner_up == pytest.approx(solution.objective * (1 + 1e-7), rel=1e-8)
    assert len(solution.candidates) > len(solution.minima)


def test_one_device_takes_part_for_certain():
    solution = reference_probabilities([3.0], weight=2.0, draws=4)
    assert solution.probability.tolist() == solution.draw_probability.tolist() == [1.0]
    assert solution.objective == 5.0


def test_one_draw_has_the_closed_form_with_one_multiplier():
    price = np.array([0.5, 3.0, 40.0, 1e4])
    solution = reference_probabilities(price, weight=2.0, draws=1)
    nu = price - 2.0 / solution.probability**2
    assert nu == pytest.approx(np.full(4, nu[0]), rel=1e-9)
    assert len(solution.candidates) == 1


def test_floors_that_fill_the_simplex_leave_no_choice():
    floor = -np.expm1(5 * np.log1p(-0.25))
    solution = reference_probabilities([1.0, 2.0, 3.0, 4.0], weight=1.0, draws=5, floor=floor)
    assert solution.draw_probability == pytest.approx(np.full(4, 0.25), rel=1e-12)


@pytest.mark.parametrize("solve", [reference_probabilities, brute_force_probabilities])
def test_floors_beyond_the_simplex_are_refused(solve):
    with pytest.raises(InputError, match="floor needs draw probabilities that sum to"):
        solve([1.0, 2.0], weight=1.0, draws=2, floor=0.9)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"price": [1.0, 0.0]}, "price must be positive"),
        ({"price": 1.0}, "price must be a list"),
        ({"weight": [1.0, math.inf]}, "weight must be positive"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"floor": 1.5}, "floor must lie in"),
    ],
)
def test_impossible_problems_are_refused_by_name(changed, message):
    with pytest.raises(InputError, match=message):
        reference_probabilities(**{"price": [1.0, 2.0], "weight": 1.0, "draws": 2} | changed)


def test_independent_devices_have_the_closed_form():
    price = np.array([1e-6, 0.5, 2.0, 3.0, 4e8])
    weight = np.array([1.0, 1.0, 2.0, 1.0, 1.0])
    q = reference_independent(price, weight=weight, floor=1e-3).probability
    expected = np.clip(np.sqrt(weight / price), 1e-3, 1.0)
    assert q == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("index", range(12))
def test_a_fixed_size_is_met_at_the_cost_a_generic_solver_finds(index):
    random = stream(11, "sampling", index)
    devices = int(random.integers(2, 7))
    price, weight = 10.0 ** random.uniform(-1, 1, devices), 10.0 ** random.uniform(-1, 1, devices)
    floor = 0.05 * float(random.integers(2))
    size = float(random.uniform(0.3, 0.95)) * devices
    solution = reference_fixed_size(price, weight=weight, size=size, floor=floor)
    found = minimize(
        lambda q: objective(price, weight, q),
        np.full(devices, size / devices),
        jac=lambda q: price - weight / q**2,
        bounds=[(max(floor, 1e-3), 1.0)] * devices,
        constraints={"type": "eq", "fun": lambda q: q.sum() - size, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert solution.probability.sum() == pytest.approx(size, rel=1e-14)
    assert np.all((solution.probability >= floor) & (solution.probability <= 1.0))
    assert solution.objective <= found.fun * (1 + 1e-12)
    assert found.fun <= solution.objective * (1 + 1e-7)


def test_a_fixed_size_respects_its_floor():
    solution = reference_fixed_size([1.0, 1.0, 100.0], weight=1.0, size=1.5, floor=0.2)
    assert solution.probability == pytest.approx([0.65, 0.65, 0.2], rel=1e-13)


def test_a_fixed_size_keeps_its_digits_when_prices_dwarf_the_weights():
    price = np.array([1e-3, 1e9, 1e9 * (1 + 1e-9)])
    solution = reference_fixed_size(price, weight=1.0, size=1.5)
    assert solution.probability.sum() == pytest.approx(1.5, rel=1e-14)
    first, second, third = solution.probability
    assert first == 1.0
    assert 1.0 / second**2 + 1.0 == pytest.approx(1.0 / third**2, rel=1e-6)


@pytest.mark.parametrize("size", [0.5, 3.5, math.nan])
def test_sizes_that_cannot_be_met_are_refused(size):
    with pytest.raises(InputError, match=f"size must lie between .* got {size}"):
        reference_fixed_size([1.0, 1.0, 1.0], weight=1.0, size=size, floor=0.2)
