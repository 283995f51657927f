"""The fast tier against the complete search and the slow twin."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from tests.solve.problems import draw_problems, objective

import fedsched.solve.blocks
import fedsched.solve.uniqueness
from fedsched.randomness import stream
from fedsched.solve.newton import newton
from fedsched.solve.reference_draws import reference_probabilities
from fedsched.solve.search import search


@dataclass
class Solved:
    draw_probability: np.ndarray
    multiplier: np.ndarray
    minima: np.ndarray
    certified: np.ndarray


def solve_rows(price, weight, draws, floor):
    """Each row by itself; what is not certified is NaN."""
    results = [newton(row, weight[0], draws, floor) for row in price]
    nothing = np.full(price.shape[1], np.nan)
    return Solved(
        draw_probability=np.array([nothing if r is None else r.draw_probability for r in results]),
        multiplier=np.array([np.nan if r is None else r.multiplier for r in results]),
        minima=np.array([0 if r is None else r.minima for r in results]),
        certified=np.array([r is not None for r in results]),
    )


def value_of(price, weight, draws, omega):
    q = -np.expm1(draws * np.log1p(-np.minimum(omega / omega.sum(), 1.0 - 1e-16)))
    return objective(price, weight, q)


def sampled_rows(*, devices, draws, count, index):
    """Prices from where all want too much to where one leads, with narrow and wide spreads."""
    random = stream(31, "sampling", index)
    least = max(1.0, (devices / draws) ** 2)
    level = 10.0 ** random.uniform(-1.0, 2.0, (count, 1))
    spread = random.choice([0.0, 1e-9, 0.05, 0.5, 2.0], (count, 1))
    return least * level * 10.0 ** (spread * random.random((count, devices)))


@pytest.mark.parametrize(
    ("devices", "draws"), [(2, 2), (2, 10), (3, 5), (5, 1000), (6, 5), (8, 10), (30, 3), (100, 5)]
)
def test_what_is_certified_is_what_the_complete_search_finds(devices, draws):
    price = sampled_rows(devices=devices, draws=draws, count=24, index=devices * draws)
    fast = solve_rows(price, np.ones((1, 1)), draws, 0.0)
    assert fast.certified.sum() >= 12
    for row in np.flatnonzero(fast.certified):
        slow = search(price[row], np.ones(devices), draws, 0.0)
        assert slow.certified
        omega = fast.draw_probability[row]
        assert value_of(price[row], 1.0, draws, omega) == pytest.approx(
            value_of(price[row], 1.0, draws, slow.draw_probability), rel=1e-12
        )
        assert omega.sum() == pytest.approx(1.0, abs=1e-10)


@given(draw_problems(min_devices=2, max_devices=6, equal_weights=True))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_what_is_certified_is_the_global_minimum(problem):
    if problem.draws == 1:
        return
    price, weight = problem.price[None, :], np.full((1, 1), problem.weight)
    fast = solve_rows(price, weight, problem.draws, problem.floor)
    if fast.certified[0]:
        slow = reference_probabilities(**problem.arguments)
        value = value_of(problem.price, problem.weight, problem.draws, fast.draw_probability[0])
        assert value <= slow.objective * (1 + 1e-11)


def test_each_regime_is_certified_where_it_is_plain():
    convex, falling, rising = [1.2, 1.4, 2.0, 4.0], [50.0, 90.0, 90.0, 95.0], [1.8, 1.8, 1.8, 1.8]
    fast = solve_rows(np.array([convex, falling, rising]), np.ones((1, 1)), 5, 0.0)
    assert fast.certified.all()
    assert fast.multiplier[0] < 0.0 < min(fast.multiplier[1:])
    assert fast.draw_probability[1, 0] > 0.9
    assert fast.draw_probability[2] == pytest.approx(np.full(4, 0.25))


def test_both_minima_are_compared_where_the_cheapest_may_fall_or_rise():
    price = np.array([[6.07, 6.10, 6.12, 6.15, 6.17, 6.19], [5.0, 5.01, 5.02, 5.03, 5.04, 5.05]])
    fast = solve_rows(price, np.ones((1, 1)), 5, 0.0)
    assert fast.certified.all()
    assert fast.minima[0] == 2
    for row in range(2):
        slow = reference_probabilities(price[row], weight=1.0, draws=5)
        value = value_of(price[row], 1.0, 5, fast.draw_probability[row])
        assert value == pytest.approx(slow.objective, rel=1e-12)


def test_one_weight_each_is_certified_only_where_the_problem_is_convex():
    price = np.array([[2.0, 3.0, 4.0], [50.0, 90.0, 90.0]])
    fast = solve_rows(price, np.array([[1.0, 1.1, 1.2]]), 2, 0.0)
    assert fast.certified.tolist() == [True, False]


def test_the_unit_of_prices_and_weights_does_not_matter():
    price = sampled_rows(devices=5, draws=4, count=20, index=1)
    one = solve_rows(price, np.ones((1, 1)), 4, 0.0)
    many = solve_rows(price * 1e12, np.full((1, 1), 1e12), 4, 0.0)
    assert np.array_equal(one.certified, many.certified)
    sure = one.certified
    assert many.draw_probability[sure] == pytest.approx(one.draw_probability[sure], rel=1e-9)
    assert many.multiplier[sure] == pytest.approx(1e12 * one.multiplier[sure], rel=1e-6, abs=1.0)


@pytest.mark.parametrize("level", [1e-2, 1.0, 30.0])
def test_blocks_change_nothing_but_the_order_of_sums(monkeypatch, level):
    price = level * 1e4 * stream(33, "channel").uniform(1.0, 3.0, (2, 1000))
    whole = solve_rows(price, np.ones((1, 1)), 10, 0.0)
    monkeypatch.setattr(fedsched.solve.blocks, "_LENGTH", 96)
    parts = solve_rows(price, np.ones((1, 1)), 10, 0.0)
    assert whole.certified.all()
    assert parts.certified.all()
    assert parts.draw_probability == pytest.approx(whole.draw_probability, rel=1e-10)


def test_where_minima_merge_the_scan_gives_up_early(monkeypatch):
    scanned = []
    responses = fedsched.solve.uniqueness._responses

    def counted(k, floor, rest):
        scanned.append(len(rest))
        return responses(k, floor, rest)

    monkeypatch.setattr(fedsched.solve.uniqueness, "_responses", counted)
    assert newton(np.full(2, 112.0 / 27.0), np.ones(1), 2, 0.0) is None
    assert 0 < sum(scanned) < 1_000


def test_prices_are_left_as_they_are():
    price = sampled_rows(devices=5, draws=4, count=8, index=2)
    before = price.copy()
    solve_rows(price, np.ones((1, 1)), 4, 0.01)
    assert np.array_equal(price, before)
