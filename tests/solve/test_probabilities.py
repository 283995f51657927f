"""The public solvers, in every regime, against the slow twin and generic solvers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.solve.problems import DrawProblem, draw_problems, objective, prices, weights
from tests.solve.reference import (
    reference_fixed_size,
    reference_independent,
)
from tests.solve.reference_draws import reference_probabilities

from fedsched.errors import InputError
from fedsched.randomness import stream
from fedsched.solve.power import optimal_power
from fedsched.solve.probabilities import (
    fixed_size_probabilities,
    independent_probabilities,
    optimal_probabilities,
)
from fedsched.solve.solution import Status
from fedsched.solve.uplink import PAPER_UPLINK

# A hundred times stricter than what is promised.
EXCESS = 1e-11


def assert_feasible_and_certified(problem, solution):
    omega, q = solution.draw_probability, solution.probability
    assert solution.status is Status.OPTIMAL
    assert np.all(solution.gap <= 1e-9)
    assert omega.sum(axis=-1) == pytest.approx(np.ones(omega.shape[:-1]), abs=1e-14)
    assert np.all(omega > 0.0)
    assert np.all(q >= problem.floor)
    assert np.all(q <= 1.0)
    expected = -np.expm1(problem.draws * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
    assert q == pytest.approx(expected, rel=1e-12, abs=1e-15)


def assert_optimal(problem):
    solution = optimal_probabilities(**problem.arguments)
    assert_feasible_and_certified(problem, solution)
    value = objective(problem.price, problem.weight, solution.probability)
    assert float(solution.objective) == pytest.approx(value, rel=1e-13)
    assert value <= reference_probabilities(**problem.arguments).objective * (1 + EXCESS)
    return solution


@pytest.mark.slow
@given(draw_problems())
@settings(max_examples=90, deadline=None, derandomize=True)
def test_the_answer_is_the_global_minimum_and_certifies_itself(problem):
    assert_optimal(problem)


@pytest.mark.slow
@given(
    draws=st.sampled_from([1, 2, 5, 10, 1000]),
    exponents=st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=5),
    queues=st.lists(st.sampled_from([0.0, 1e-6, 1.0, 1e3, 1e9]), min_size=5, max_size=5),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_gain_and_queue_give_a_certified_minimum(draws, exponents, queues):
    gain, queue = 10.0 ** np.array(exponents), np.array(queues[: len(exponents)])
    price = prices_of(gain, queue)
    assert np.all(np.isfinite(price) & (price > 0.0))
    assert_optimal(DrawProblem(price=price, weight=100.0 / len(gain), draws=draws))


def prices_of(gain, queue, *, v=100.0, lam=100.0):
    link = PAPER_UPLINK
    cost = v * lam * link.bits / link.bandwidth_hz
    power = optimal_power(gain, queue, cost=cost, noise=link.noise_w, max_power=link.max_power_w)
    return v * lam * link.airtime_s(gain, power) + queue * power


@pytest.mark.slow
@pytest.mark.parametrize("draws", [2, 3, 5, 10, 100])
@pytest.mark.parametrize("nudge", [0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-3, -1e-3])
@pytest.mark.parametrize("weight", [1.0, np.array([1.0, 0.5, 2.0])], ids=["one", "each"])
def test_nothing_is_lost_where_the_devices_want_just_what_there_is(draws, nudge, weight):
    shape = np.array([1.0, 1.7, 6.0]) * weight
    low, high = 1e-9, 1e9
    for _ in range(200):
        scale = math.sqrt(low * high)
        q = np.minimum(np.sqrt(weight / (scale * shape)), 1.0 - 1e-16)
        low, high = (scale, high) if -np.expm1(np.log1p(-q) / draws).sum() > 1 else (low, scale)
    price = shape * low * (1.0 + nudge)
    solution = assert_optimal(DrawProblem(price=price, weight=weight, draws=draws))
    if nudge == 0.0:
        expected = np.minimum(np.sqrt(weight / price), 1.0)
        assert solution.probability == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("price", "weight", "draws", "floor"),
    [
        ([2090.0], 100.0, 1, 0.0),
        ([0.27], 1.0, 7, 0.2),
        ([3.0, 5.0], 1.0, 1000, 0.0),
        ([3000.0, 5000.0], 1.0, 1000, 0.0),
        ([1e-30, 1e-30], 1.0, 5, 0.0),
        ([2249815524.0958915, 80547968045003.1], 1.0, 1, 0.0),
        ([5.0, 5.0, 5.0, 5.0], 1.0, 10, 0.0),
        ([1e9, 1e9, 1e9], 1.0, 3, 0.0),
        ([2.569085626537265e34, 7.30851593901699e33], 5.95994639966768e-27, 1000, 0.0),
        ([1.95e32, 8.67e34, 1.07e27], 2.98e-26, 100, 0.0),
        ([20.0] * 4, 1.0, 5, -math.expm1(5 * math.log1p(-0.25 * (1 - 1e-13)))),
        ([1.0, 20.0, 9.0, 3.0], 1.0, 5, -math.expm1(5 * math.log1p(-0.25))),
    ],
)
def test_edges_are_solved_and_certified(price, weight, draws, floor):
    assert_optimal(DrawProblem(price=np.array(price), weight=weight, draws=draws, floor=floor))


@pytest.mark.parametrize("draws", [1, 2, 10])
def test_free_devices_are_the_limit_of_cheap_ones(draws):
    for price in ([0.0, 0.0, 0.0], [0.0, 3.0, 300.0]):
        solution = optimal_probabilities(price, weight=1.0, draws=draws).raise_for_status()
        cheap = reference_probabilities(np.maximum(price, 1e-30), weight=1.0, draws=draws)
        assert float(solution.objective) == pytest.approx(cheap.objective, rel=1e-12)


def test_one_device_is_always_drawn():
    solution = optimal_probabilities([[3.0], [0.0]], weight=2.0, draws=4).raise_for_status()
    assert solution.draw_probability.tolist() == [[1.0], [1.0]]
    assert solution.objective.tolist() == [5.0, 2.0]


# Problems with two local minima -----------------------------------------------------------------


def local_solver(price, weight, draws):
    """Where SLSQP ends that starts at uniform, and its objective."""
    devices, scale = len(price), price.sum()

    def value(omega):
        q = -np.expm1(draws * np.log1p(-np.minimum(omega, 1.0 - 1e-15)))
        return objective(price, weight, q) / scale

    def slope(omega):
        rest = 1.0 - np.minimum(omega, 1.0 - 1e-15)
        return draws * rest ** (draws - 1) * (price - weight / (1.0 - rest**draws) ** 2) / scale

    found = minimize(
        value,
        np.full(devices, 1.0 / devices),
        jac=slope,
        bounds=[(1e-9, 1.0)] * devices,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 300},
    )
    return found.x, found.fun * scale


@pytest.mark.slow
@pytest.mark.parametrize(
    ("price", "draws"),
    [
        (np.linspace(6.07, 6.19, 6), 5),
        (np.linspace(11.72, 11.95, 8), 5),
        (np.linspace(2.81, 2.87, 8), 10),
    ],
)
def test_the_better_of_two_minima_is_found_where_a_local_solver_ends_in_the_other(price, draws):
    solution = assert_optimal(DrawProblem(price=price, weight=1.0, draws=draws))
    twin = reference_probabilities(price, weight=1.0, draws=draws)
    local, value = local_solver(price, 1.0, draws)
    assert len(twin.minima) >= 2
    assert solution.draw_probability[0] > 2.5 * solution.draw_probability[1]
    # The other minimum is nearly even, and a true one: the twin has found it too.
    assert np.ptp(local) < 0.05
    assert value > float(solution.objective) * 1.005
    assert np.min(np.abs(np.array(twin.minima) / value - 1.0)) < 1e-6


@pytest.mark.slow
def test_devices_that_would_all_rest_on_their_floor_may_rather_share():
    # Alone all want less than the floor; one leader and the even point are both minima.
    price = 3.5 + 0.08 * stream(52, "sampling").random((6, 10))
    floor = -math.expm1(10 * math.log1p(-0.09))
    for row in price:
        problem = DrawProblem(price=row, weight=1.0, draws=10, floor=floor)
        solution = assert_optimal(problem)
        lead = -np.expm1(10 * np.log1p(-np.where(row == row.min(), 0.19, 0.09)))
        assert float(solution.objective) < objective(row, 1.0, lead) * (1 - 1e-4)


@pytest.fixture(scope="module")
def paper_rounds():
    """Prices of 60 rounds of the paper's heterogeneous setting with m = 5, queues warmed up."""
    sigma, random = np.linspace(0.1, 10.0, 100), stream(51, "channel")
    queue, rounds = np.zeros(100), []
    for _ in range(360):
        gain = np.maximum(random.rayleigh(sigma) ** 2, 1e-3)
        price = prices_of(gain, queue)
        rounds.append(price)
        q = optimal_probabilities(price, weight=1.0, draws=5).probability
        link = PAPER_UPLINK
        power = optimal_power(
            gain,
            queue,
            cost=1e4 * link.bits / link.bandwidth_hz,
            noise=link.noise_w,
            max_power=link.max_power_w,
        )
        queue = np.maximum(queue + power * q - 1.0, 0.0)
    return np.array(rounds[300:])


def test_the_papers_rounds_are_certified(paper_rounds):
    solution = optimal_probabilities(paper_rounds, weight=1.0, draws=5)
    assert_feasible_and_certified(
        DrawProblem(price=paper_rounds, weight=1.0, draws=5, floor=0.0), solution
    )


@pytest.mark.slow
def test_a_local_solver_loses_a_per_cent_in_a_round_of_the_paper(paper_rounds):
    solution = optimal_probabilities(paper_rounds, weight=1.0, draws=5)
    lost = [
        local_solver(row, 1.0, 5)[1] / float(value) - 1.0
        for row, value in zip(paper_rounds[:8], solution.objective, strict=False)
    ]
    assert max(lost) > 0.005
    assert min(lost) > -1e-12


# Large problems and batches ---------------------------------------------------------------------


@pytest.mark.parametrize("draws", [1, 2, 10, 1000])
def test_two_thousand_devices_over_nine_decades_are_certified(draws):
    price = 10.0 ** stream(61, "channel", draws).uniform(-4.0, 5.0, 2000)
    problem = DrawProblem(price=price, weight=1.0, draws=draws)
    solution = optimal_probabilities(**problem.arguments)
    assert_feasible_and_certified(problem, solution)
    assert_no_trade_helps(problem, solution)


def assert_no_trade_helps(problem, solution):
    random, omega = stream(62, "sampling"), solution.draw_probability
    for scale in (1e-1, 1e-3, 1e-5):
        for _ in range(10):
            moved = omega * np.exp(scale * random.standard_normal(omega.shape))
            moved /= moved.sum()
            q = -np.expm1(problem.draws * np.log1p(-np.minimum(moved, 1.0 - 1e-16)))
            value = objective(problem.price, problem.weight, q)
            assert value >= float(solution.objective) * (1 - 1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1e2, 1e6, 1e9], ids=["convex", "between", "falling"])
@pytest.mark.parametrize("each", [False, True], ids=["one", "each"])
def test_threads_do_not_change_a_bit(level, each):
    random = stream(63, "channel")
    price = level * random.uniform(1.0, 3.0, 40_000)
    weight = random.choice([0.5, 1.0, 2.0], 40_000) if each else 1.0
    problem = DrawProblem(price=price, weight=weight, draws=10)
    alone = optimal_probabilities(**problem.arguments)
    assert_feasible_and_certified(problem, alone)
    for threads in (2, 5):
        shared = optimal_probabilities(**problem.arguments, threads=threads)
        assert np.array_equal(shared.draw_probability, alone.draw_probability)
        assert np.array_equal(shared.probability, alone.probability)
        assert (shared.objective, shared.multiplier) == (alone.objective, alone.multiplier)


@pytest.mark.parametrize("weight", [1.0, np.array([1.0, 2.0, 1.0, 0.5, 1.0])], ids=["one", "each"])
@pytest.mark.parametrize("floor", [0.0, 0.02])
@pytest.mark.parametrize("draws", [1, 4])
def test_a_batch_of_all_regimes_equals_its_rows_solved_alone(weight, floor, draws):
    random = stream(64, "sampling")
    level = np.repeat(10.0 ** np.array([-3.0, 0.0, 0.4, 0.8, 1.2, 3.0]), 3)[:, None]
    price = level * 10.0 ** (random.random((18, 5)) * random.choice([0.0, 0.1, 2.0], (18, 1)))
    batch = optimal_probabilities(price, weight=weight, draws=draws, floor=floor)
    stacked = optimal_probabilities(price.reshape(2, 9, 5), weight=weight, draws=draws, floor=floor)
    assert batch.status is Status.OPTIMAL
    assert stacked.probability.shape == (2, 9, 5)
    assert np.array_equal(stacked.probability.reshape(18, 5), batch.probability)
    if draws > 1:
        assert batch.multiplier.min() < 0.0 < batch.multiplier.max()
    for row in range(18):
        alone = optimal_probabilities(price[row], weight=weight, draws=draws, floor=floor)
        assert alone.objective.shape == ()
        assert batch.probability[row] == pytest.approx(alone.probability, rel=1e-12)
        assert float(batch.objective[row]) == pytest.approx(float(alone.objective), rel=1e-12)


def test_each_row_may_have_its_own_weights():
    price = np.array([[1.0, 5.0], [30.0, 40.0]])
    weight = np.array([[1.0, 2.0], [0.1, 3.0]])
    batch = optimal_probabilities(price, weight=weight, draws=3).raise_for_status()
    for row in range(2):
        alone = optimal_probabilities(price[row], weight=weight[row], draws=3)
        assert batch.probability[row] == pytest.approx(alone.probability, rel=1e-12)


def test_inputs_are_left_as_they_are():
    price, weight = np.array([[3.0, 50.0], [1.0, 1.0]]), np.array([1.0, 2.0])
    before = price.copy(), weight.copy()
    for solve in (
        lambda: optimal_probabilities(price, weight=weight, draws=3, floor=0.1),
        lambda: independent_probabilities(price, weight=weight),
        lambda: fixed_size_probabilities(price, weight=weight, size=1),
    ):
        solve()
        assert np.array_equal(price, before[0])
        assert np.array_equal(weight, before[1])


@pytest.mark.parametrize("draws", [100, 353, 1000])
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_devices_that_want_to_be_sure_leave_the_others_what_they_want(draws, floor):
    price = np.array([3.0, 0.5, 10.0, 100.0, 100.0, 1.0, 1.0, 1.0])
    solution = optimal_probabilities(price, weight=1.0, draws=draws, floor=floor)
    wanted = np.maximum(np.minimum(1.0, 1.0 / np.sqrt(price)), floor)
    assert solution.raise_for_status().probability == pytest.approx(wanted, rel=1e-4)
    assert solution.draw_probability.sum() == pytest.approx(1.0, abs=1e-12)


# Certificates -----------------------------------------------------------------------------------


@given(draw_problems(min_devices=2, max_devices=6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_gap_is_what_the_definitions_say(problem):
    """The residual of the answer, from the paper's formulas, is no larger than the gap."""
    solution = optimal_probabilities(**problem.arguments)
    omega, q, m = solution.draw_probability, solution.probability, problem.draws
    slope = m * (1.0 - omega) ** (m - 1) * (problem.price - problem.weight / q**2)
    off = slope - float(solution.multiplier)
    off = np.where(q <= problem.floor * (1 + 1e-9), np.minimum(off, 0.0), off)
    # Rounding of the formula itself: both parts of a slope can be far larger than it.
    rounding = 1e-14 * m * (1.0 - omega) ** (m - 1) * (problem.price + problem.weight / q**2)
    residual = float(((np.abs(off) - rounding) * omega).sum()) / float(solution.objective)
    assert residual <= float(solution.gap) + 1e-13
    assert float(solution.gap) <= 1e-9


@given(draw_problems(min_devices=2, max_devices=6, floors=False))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_moved_answer_costs_more(problem):
    solution = optimal_probabilities(**problem.arguments)
    moved = solution.draw_probability * np.where(np.arange(len(problem.price)) % 2, 1.01, 0.99)
    moved /= moved.sum()
    q = -np.expm1(problem.draws * np.log1p(-np.minimum(moved, 1.0 - 1e-16)))
    value = objective(problem.price, problem.weight, q)
    assert value >= float(solution.objective) * (1.0 - 1e-12)


# Independent participation and a fixed size -----------------------------------------------------


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(prices(n), weights(n))), st.floats(0.0, 0.99))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_independent_devices_choose_each_for_itself(price_and_weight, floor):
    price, weight = price_and_weight
    solution = independent_probabilities(price, weight=weight, floor=floor).raise_for_status()
    expected = np.minimum(1.0, np.maximum(floor, np.sqrt(weight / price)))
    twin = reference_independent(price, weight=weight, floor=floor)
    assert solution.probability == pytest.approx(expected, rel=1e-14)
    assert float(solution.objective) == pytest.approx(twin.objective, rel=1e-12)
    assert solution.draw_probability is None


def test_an_independent_device_that_costs_nothing_always_takes_part():
    assert independent_probabilities([0.0, 4.0], weight=1.0).probability.tolist() == [1.0, 0.5]


@pytest.mark.slow
@given(
    st.integers(1, 8).flatmap(lambda n: st.tuples(prices(n), weights(n))),
    st.floats(0.01, 1.0),
    st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.999]),
)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_a_fixed_size_is_met_exactly_and_at_least_cost(price_and_weight, share, floor_share):
    price, weight = price_and_weight
    size = share * len(price)
    floor = min(floor_share * share, 0.999)
    solution = fixed_size_probabilities(price, weight=weight, size=size, floor=floor)
    q, nu = solution.raise_for_status().probability, float(solution.multiplier)
    twin = reference_fixed_size(price, weight=weight, size=size, floor=floor)
    assert q.sum() == pytest.approx(size, rel=1e-12)
    assert np.all((q >= floor) & (q <= 1.0))
    assert float(solution.objective) <= twin.objective * (1 + EXCESS)
    off = (price - weight / q**2 - nu) / (price + weight / q**2 + abs(nu))
    assert np.all(np.abs(off[(q > floor) & (q < 1.0)]) <= 1e-12)
    assert np.all(off[q <= floor] >= -1e-12)
    assert np.all(off[q >= 1.0] <= 1e-12)


@pytest.mark.parametrize("index", range(6))
def test_a_generic_solver_finds_no_better_fixed_size(index):
    random = stream(71, "sampling", index)
    devices = int(random.integers(2, 7))
    price, weight = 10.0 ** random.uniform(-1, 1, (2, devices))
    floor, size = 0.05 * (index % 2), float(random.uniform(0.3, 0.95)) * devices
    solution = fixed_size_probabilities(price, weight=weight, size=size, floor=floor)
    found = minimize(
        lambda q: objective(price, weight, q),
        np.full(devices, size / devices),
        jac=lambda q: price - weight / q**2,
        bounds=[(max(floor, 1e-3), 1.0)] * devices,
        constraints={"type": "eq", "fun": lambda q: q.sum() - size, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert float(solution.objective) <= found.fun * (1 + 1e-12)
    assert found.fun <= float(solution.objective) * (1 + 1e-7)


def test_a_size_of_all_devices_or_more_takes_all():
    for size in (3, 4, math.inf):
        solution = fixed_size_probabilities([1.0, 50.0, 0.0], weight=1.0, size=size)
        assert solution.raise_for_status().probability.tolist() == [1.0, 1.0, 1.0]


def test_a_fixed_size_keeps_the_shape_of_a_batch():
    price = stream(72, "sampling").uniform(1.0, 100.0, (2, 3, 7))
    solution = fixed_size_probabilities(price, weight=1.0, size=2.5).raise_for_status()
    assert solution.probability.shape == (2, 3, 7)
    assert solution.objective.shape == (2, 3)
    alone = fixed_size_probabilities(price[1, 2], weight=1.0, size=2.5)
    assert solution.probability[1, 2] == pytest.approx(alone.probability, rel=1e-12)


# Refusals ---------------------------------------------------------------------------------------

THREE = {
    optimal_probabilities: {"draws": 2},
    independent_probabilities: {},
    fixed_size_probabilities: {"size": 2},
}


@pytest.mark.parametrize("solve", THREE, ids=lambda solve: solve.__name__)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"price": [1.0, math.nan]}, r"price\[1\] must be finite and not negative, got nan"),
        ({"price": [1.0, -1.0]}, r"price\[1\] must be finite and not negative, got -1.0"),
        ({"price": 1.0}, "price must hold at least one device"),
        ({"price": []}, "price must hold at least one device"),
        ({"weight": 0.0}, "weight must be finite and positive, got 0.0"),
        ({"weight": [1.0, 1.0, 2.0]}, "one per device: price has 2 devices"),
        ({"floor": 1.0}, r"floor must lie in \[0, 1\), got 1.0"),
        ({"floor": -0.1}, r"floor must lie in \[0, 1\), got -0.1"),
        ({"floor": math.nan}, r"floor must lie in \[0, 1\), got nan"),
    ],
)
def test_impossible_problems_are_refused_by_name(solve, changed, message):
    with pytest.raises(InputError, match=message):
        solve(**{"price": [1.0, 2.0], "weight": 1.0, **THREE[solve]} | changed)


@pytest.mark.parametrize("draws", [0, -1, 2.5, True])
def test_draws_that_are_no_whole_number_are_refused(draws):
    with pytest.raises(InputError, match=f"draws must be a whole number of at least 1, .*{draws}"):
        optimal_probabilities([1.0, 2.0], weight=1.0, draws=draws)


@pytest.mark.parametrize("size", [0, -2, math.nan])
def test_sizes_that_are_not_positive_are_refused(size):
    with pytest.raises(InputError, match=f"size must be positive, got {size}"):
        fixed_size_probabilities([1.0, 2.0], weight=1.0, size=size)


def test_where_a_double_holds_too_little_the_answer_is_allowed_and_says_what_it_is_worth():
    rng = np.random.default_rng(1)
    for _ in range(400):
        price, weight = 10.0 ** rng.uniform(-140, 140, 6), 10.0 ** rng.uniform(-140, 140)
        for solution, total in (
            (fixed_size_probabilities(price, weight=weight, size=2), None),
            (optimal_probabilities(price, weight=weight, draws=3), 1.0),
            (optimal_probabilities(price, weight=10.0 ** rng.uniform(-140, 140, 6), draws=3), 1.0),
        ):
            q, omega = solution.probability, solution.draw_probability
            assert np.all((q > 0.0) & (q <= 1.0))
            shared = q.sum() / 2 if total is None else omega.sum()
            assert shared == pytest.approx(1.0, abs=1e-12)
            assert float(solution.gap) >= 0.0
            assert not math.isnan(float(solution.gap))


def test_unequal_data_with_nearly_equal_gains_stays_within_bounds_and_is_certified():
    # All weights distinct within 1.5 %: a thousand leaders that cost almost the same.
    random = stream(73, "sampling")
    for draws, level in ((5, 2.0), (10, 3.0), (50, 30.0)):
        share = 1.0 + 0.015 * random.random(1000)
        weight = share**2
        price = weight.mean() * (1000 / draws) ** 2 * level * (1.0 + 1e-3 * random.random(1000))
        problem = DrawProblem(price=price, weight=weight, draws=draws)
        assert_feasible_and_certified(problem, optimal_probabilities(**problem.arguments))


def test_floors_that_do_not_fit_are_refused_with_what_to_do():
    message = r"floor \(qmin\) 0.9 asks too much: .*lower it, or raise draws or size"
    with pytest.raises(InputError, match=message):
        optimal_probabilities([1.0, 2.0], weight=1.0, draws=2, floor=0.9)
    with pytest.raises(InputError, match=message):
        fixed_size_probabilities([1.0, 2.0], weight=1.0, size=1, floor=0.9)


def test_weights_of_another_batch_and_empty_batches_are_refused():
    with pytest.raises(InputError, match=r"devices and shape \(2, 3\), weight has shape \(4, 3\)"):
        optimal_probabilities(np.ones((2, 3)), weight=np.ones((4, 3)), draws=2)
    with pytest.raises(InputError, match="price must hold at least one device"):
        optimal_probabilities(np.ones((0, 3)), weight=1.0, draws=2)
