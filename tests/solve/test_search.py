"""The complete search against the slow twin and a local solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize
from tests.solve.problems import DrawProblem, draw_problems, objective, sample_problem

import fedsched.solve.search
from fedsched.randomness import stream
from fedsched.solve.brute_force import brute_force_probabilities
from fedsched.solve.probabilities import _summing_to_one
from fedsched.solve.reference_draws import reference_probabilities
from fedsched.solve.search import search


def searched(problem):
    weight = np.broadcast_to(np.asarray(problem.weight, dtype=float), problem.price.shape)
    result = search(problem.price, weight, problem.draws, problem.floor)
    # Made to sum to 1, as whoever asks for a search does. Where minima merge, the last digit of nu
    # moves the sum by the root of a digit, more on one processor than on another.
    assert result.draw_probability.sum() == pytest.approx(1.0, abs=1e-7)
    least = -np.expm1(np.log1p(-problem.floor) / problem.draws)
    omega = _summing_to_one(result.draw_probability, least)
    q = -np.expm1(problem.draws * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
    return result, objective(problem.price, weight, np.maximum(q, problem.floor))


@given(draw_problems(min_devices=2, max_devices=5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_search_ends_in_the_global_minimum_and_knows_it(problem):
    if problem.draws == 1:
        return
    result, value = searched(problem)
    assert result.certified
    assert value <= reference_probabilities(**problem.arguments).objective * (1 + 1e-11)
    assert result.draw_probability.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("equal_weights", [True, False])
def test_no_grid_point_is_better(equal_weights):
    random = stream(41, "sampling", int(equal_weights))
    several = 0
    for _ in range(20):
        problem = sample_problem(random, devices=2, equal_weights=equal_weights)
        if problem.draws == 1:
            continue
        _, value = searched(problem)
        grid = brute_force_probabilities(**problem.arguments)
        several += len(grid.minima) > 1
        assert value <= grid.objective * (1 + 1e-12)
    assert several >= 3


@pytest.mark.parametrize(
    ("price", "weight", "draws"),
    [
        ([40.0, 44.0], 1.0, 5),
        ([12.0, 12.5], 1.0, 10),
        ([30.0, 33.0, 31.0], 1.0, 5),
        ([25.0, 22.0, 40.0], 1.0, 10),
        ([20.0, 22.0], [0.01, 0.2], 10),
        ([35.0, 30.0, 32.0], [1.0, 0.5, 2.0], 5),
    ],
)
def test_of_two_leaders_the_better_one_leads(price, weight, draws):
    problem = DrawProblem(price=np.array(price), weight=np.array(weight), draws=draws)
    twin = reference_probabilities(**problem.arguments)
    result, value = searched(problem)
    ends = [local_minimum(problem, leader) for leader in range(len(price))]
    best = int(np.argmax(result.draw_probability))
    assert len(twin.minima) == len(price)
    assert value == pytest.approx(twin.minima[0], rel=1e-12)
    # A local solver keeps whichever leader it is given, and pays for it.
    assert sorted(ends) == pytest.approx(twin.minima, rel=1e-6)
    assert ends[best] == pytest.approx(value, rel=1e-6)
    assert sorted(ends)[1] > value * (1 + 1e-4)


@pytest.mark.parametrize(
    ("price", "weight"),
    [
        ([21.5, 17.3], [2.4, 0.94]),
        ([55.0, 145.8, 53.4], [0.97, 2.85, 0.73]),
        ([14.5, 16.0, 37.0], [1.67, 2.3, 3.13]),
    ],
)
def test_the_leader_with_the_lowest_bound_need_not_win(price, weight):
    problem = DrawProblem(price=np.array(price), weight=np.array(weight), draws=2)
    result, value = searched(problem)
    assert result.certified
    assert value <= reference_probabilities(**problem.arguments).objective * (1 + 1e-12)


def local_minimum(problem, leader):
    """Objective at which a local solver ends that starts with most for one device."""
    size, m, scale = len(problem.price), problem.draws, problem.price.sum()
    start = np.full(size, 0.1 / (size - 1))
    start[leader] = 0.9

    def value(omega):
        q = -np.expm1(m * np.log1p(-np.minimum(omega, 1.0 - 1e-15)))
        return objective(problem.price, problem.weight, q) / scale

    constraint = {"type": "eq", "fun": lambda omega: omega.sum() - 1.0, "jac": np.ones_like}
    options = {"ftol": 1e-14, "maxiter": 500}
    found = minimize(
        value, start, bounds=[(1e-6, 1.0)] * size, constraints=constraint, options=options
    )
    return found.fun * scale


# With two draws from two equal devices the even point turns into a saddle at b = 112 a / 27.
MERGING = 112.0 / 27.0


@pytest.mark.parametrize(
    "nudge",
    [
        -1e-4,
        0.0,
        1e-14,
        1e-12,
        1e-10,
        1e-8,
        1e-6,
        1e-4,
    ],
)
def test_minima_about_to_merge_are_certified_and_counted_once(nudge):
    result = search(np.full(2, MERGING * (1.0 + nudge)), np.ones(2), 2, 0.0)
    assert result.certified
    assert result.minima == 1


def merging(draws):
    """The price at which the even point of two equal devices of weight 1 turns into a saddle."""
    rest = 0.5 ** (draws - 2)
    q = 1.0 - rest / 4.0
    return 1.0 / q**2 + 2.0 * draws / (draws - 1.0) * (rest / 4.0) / q**3


@pytest.mark.parametrize("draws", [2, 3, 5, 10])
@pytest.mark.parametrize(
    ("first", "second"),
    [(-1e-8, -1e-8), (-1e-9, -1e-9), (1e-9, 1e-9), (1e-8, 1e-8), (1e-11, 0.0), (-1e-12, 1e-12)],
)
def test_a_pair_of_prices_close_to_the_merger_is_certified_at_once(
    monkeypatch, draws, first, second
):
    assert merging(2) == pytest.approx(MERGING)
    monkeypatch.setattr(fedsched.solve.search, "_MOST_RESPONSES", 400)  # a tenth of the budget
    price = merging(draws) * (1.0 + np.array([first, second]))
    problem = DrawProblem(price=price, weight=1.0, draws=draws)
    result, value = searched(problem)
    assert result.certified
    assert value <= reference_probabilities(**problem.arguments).objective * (1 + 1e-11)


@pytest.mark.parametrize("nudge", [0.0, 1e-12, 1e-8, 1e-4])
def test_the_value_is_right_where_minima_are_about_to_merge(nudge):
    problem = DrawProblem(price=np.full(2, MERGING * (1.0 + nudge)), weight=1.0, draws=2)
    _, value = searched(problem)
    assert value <= reference_probabilities(**problem.arguments).objective * (1 + 1e-12)


@pytest.mark.parametrize(
    ("price", "weight", "draws", "floor"),
    [
        # one takes what the floors of the others leave: nu is its slope
        ([0.0207] * 4, [0.022, 83.7, 0.022, 0.022], 5, 0.487091064453125),
        ([70.23771847955196] * 3, [2.8, 20.7, 20.7], 5, 0.5981224279835391),
        # b barely above a: q is as close to 1 as b / a is
        (
            [3.976612214733963, 3.874743008919426, 7.7327762126688935],
            [0.6113447384726374, 3.8747430089075503, 0.14731189121678961],
            10,
            0.0,
        ),
        # the same for the leader on its falling branch
        (
            [4.350107378716678, 4.378465866701127],
            [4.350107378716672, 0.2584374592553089],
            10,
            0.0,
        ),
        # weights that vanish beside the prices
        ([53134.67344024766, 516738.89242157113], [6.85e-31, 1.88e-29], 2, 0.0),
        ([6.9e34, 1.2e33, 7.1e34], [1.2e-22, 7.5e-24, 5.3e-23], 2, 0.0),
    ],
)
def test_the_multiplier_is_the_slope_of_every_device_above_its_floor(price, weight, draws, floor):
    b, a = np.array(price), np.array(weight)
    result = search(b, a, draws, floor)
    omega = result.draw_probability
    rest = omega @ (1.0 - np.eye(len(b)))  # 1 - omega with all its digits
    q = np.where(omega < 0.5, -np.expm1(draws * np.log1p(-np.minimum(omega, 0.5))), 1 - rest**draws)
    slope = draws * rest ** (draws - 1) * (b - a / q**2)
    free = q > floor * (1.0 + 1e-9)
    scale = np.sum(a / q + b * q)
    assert result.certified
    assert omega.sum() == pytest.approx(1.0, abs=1e-13)
    assert np.abs((slope - result.multiplier) * omega)[free].sum() <= 1e-12 * scale


def test_a_search_cut_short_does_not_claim_to_be_complete(monkeypatch):
    price, weight = np.array([30.0, 33.0, 31.0]), np.ones(3)
    assert search(price, weight, 5, 0.0).certified
    monkeypatch.setattr(fedsched.solve.search, "_MOST_RESPONSES", 0)
    assert not search(price, weight, 5, 0.0).certified
