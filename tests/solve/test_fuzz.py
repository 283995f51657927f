"""A share of ``make fuzz`` in every test run."""

from dataclasses import replace

import numpy as np
import pytest
from tests.solve import fuzz
from tests.solve.problems import TWO_MINIMA_ON_ONE_BRANCH


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_problems_of_every_kind(seed):
    counts = fuzz.run(2_000, seed, 0.01)
    assert min(counts[kind.__name__] for kind in fuzz.KINDS) > 100
    assert min(counts["twin"], counts["grid"]) > 5


def test_two_minima_on_one_branch_are_told_apart():
    fuzz.check_draws(TWO_MINIMA_ON_ONE_BRANCH, fuzz.sampled, others=[fuzz.twin])


def test_a_wrong_answer_would_be_noticed(monkeypatch):
    right = fuzz.optimal_probabilities

    def wrong(*args, **kwargs):
        found = right(*args, **kwargs)
        return replace(found, probability=np.minimum(found.probability * 1.01, 1.0))

    monkeypatch.setattr(fuzz, "optimal_probabilities", wrong)
    with pytest.raises(AssertionError, match="objective"):
        fuzz.run(50, 3, 0.0)


def test_devices_that_are_sated_and_others_that_are_not_meet_the_bound_of_duality():
    random = np.random.default_rng(4)
    for devices in [2, 8, 50, 200] * 25:
        problem = fuzz.sated(random, devices, equal=bool(devices % 3))
        fuzz.check_draws(problem, fuzz.sated, dual=True)


def test_an_answer_above_the_bound_of_duality_would_be_noticed(monkeypatch):
    monkeypatch.setattr(fuzz, "EXCESS", -1e-6)
    with pytest.raises(AssertionError, match="bound of duality"):
        fuzz.run(200, 5, 0.0)
