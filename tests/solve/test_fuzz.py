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
    assert counts["twin"] > 5


def test_two_minima_on_one_branch_are_told_apart():
    fuzz.check_draws(TWO_MINIMA_ON_ONE_BRANCH, fuzz.sampled, True)


def test_a_wrong_answer_would_be_noticed(monkeypatch):
    right = fuzz.optimal_probabilities

    def wrong(*args, **kwargs):
        found = right(*args, **kwargs)
        return replace(found, probability=np.minimum(found.probability * 1.01, 1.0))

    monkeypatch.setattr(fuzz, "optimal_probabilities", wrong)
    with pytest.raises(AssertionError, match="objective"):
        fuzz.run(50, 3, 0.0)
