from itertools import permutations

import numpy as np
import pytest
from tests.policies import slow_twins

from fedsched.errors import InputError
from fedsched.policies.successive import (
    des_raj_weights,
    inclusion_probabilities,
    successive,
)
from fedsched.randomness import stream

WEIGHTS = [
    np.array([0.5, 0.3, 0.2]),
    np.array([1.0, 1.0, 1.0, 1.0, 1.0]),
    np.array([0.9, 1e-9, 0.05, 0.04, 3.0, 1e-9]),  # fewer large ones than draws
    stream(1, "data").lognormal(0.0, 2.0, 6),
]


def orders(weight, count):
    """Every ordered draw and its probability."""
    for drawn in permutations(range(len(weight)), count):
        probability, left = 1.0, weight.sum()
        for place in drawn:
            probability *= weight[place] / left
            left -= weight[place]
        yield np.array(drawn), probability


@pytest.mark.slow
def test_successive_draws_have_the_odds_of_what_is_left():
    weight = np.array([0.5, 0.3, 0.2, 0.0])
    first, pairs = np.zeros(4), np.zeros((4, 4))
    for t in range(20_000):
        a, b = successive(weight, 2, stream(5, "policy", t).random(4))
        first[a] += 1 / 20_000
        pairs[a, b] += 1 / 20_000
    assert first == pytest.approx(weight, abs=0.015)
    assert pairs[0, 1] == pytest.approx(0.5 * 0.3 / 0.5, abs=0.015)
    assert pairs[2, 0] == pytest.approx(0.2 * 0.5 / 0.8, abs=0.015)


@pytest.mark.parametrize("weight", WEIGHTS, ids=range(len(WEIGHTS)))
def test_inclusion_probabilities_are_those_of_all_orders(weight):
    for count in range(1, len(weight)):
        wanted = np.zeros(len(weight))
        for drawn, probability in orders(weight, count):
            wanted[drawn] += probability
        found = inclusion_probabilities(weight, count)
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-10)
        assert found.sum() == pytest.approx(count, abs=1e-9)
    assert inclusion_probabilities(weight, len(weight)).tolist() == [1.0] * len(weight)


def test_inclusion_probabilities_hold_up_for_many_places():
    weight = stream(2, "data").lognormal(0.0, 1.5, 300)
    found = inclusion_probabilities(weight, 40)
    assert found.sum() == pytest.approx(40.0, abs=1e-6)
    assert np.all(np.diff(found[np.argsort(weight)]) > 0.0)
    with pytest.raises(InputError, match=r"weight\[1\] must be"):
        inclusion_probabilities(np.array([1.0, 0.0]), 1)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("count", [2, 3, 10, 40])
def test_inclusion_probabilities_are_those_of_the_slow_twin(count, spread):
    for devices in (count + 1, 2 * count, 120):
        weight = stream(devices, "data").lognormal(0.0, spread, devices)
        wanted = slow_twins.inclusion_probabilities(weight, count)
        assert inclusion_probabilities(weight, count) == pytest.approx(wanted, rel=1e-13, abs=0)


@pytest.mark.parametrize("weight", WEIGHTS[:2] + WEIGHTS[3:], ids=range(3))
def test_the_mean_of_des_raj_over_all_orders_is_the_whole_sum(weight):
    value = stream(3, "data").normal(1.0, 2.0, len(weight))
    for count in range(1, len(weight) + 1):
        mean = sum(
            probability * (des_raj_weights(weight, drawn) * value[drawn]).sum()
            for drawn, probability in orders(weight, count)
        )
        assert mean == pytest.approx(value.sum(), rel=1e-9)


def test_des_raj_weights_by_hand():
    # The first: 1 / 0.4, and counted once more in the second estimate. The second: (1 - 0.4) / 0.2.
    weights = des_raj_weights(np.array([0.2, 0.4, 0.3, 0.1]), np.array([1, 0]))
    assert weights == pytest.approx([(2.5 + 1.0) / 2, 3.0 / 2])
    assert des_raj_weights(np.array([1.0]), np.empty(0, np.int64)).tolist() == []
