"""The minima that one device leads."""

import math

import numpy as np
import pytest

from fedsched.solve.branches import Branches
from fedsched.solve.leader import Leader, Minimum
from fedsched.solve.reference_draws import reference_probabilities
from fedsched.solve.search import search


def test_of_minima_that_cost_the_same_one_is_taken():
    """Arrays have no order, so the objective alone must decide, also where it ties."""
    omega = np.array([0.25, 0.75])
    tied = [Minimum(3.0, nu, omega) for nu in (2.0, 1.0)]
    assert min(tied).objective == max(tied).objective == 3.0
    assert min([*tied, Minimum(2.0, 5.0, omega)]).nu == 5.0


def test_a_saddle_is_not_counted_among_the_minima():
    price, draws = np.array([6.07, 6.10, 6.12, 6.15, 6.17, 6.19]), 5
    twin = reference_probabilities(price, weight=1.0, draws=draws)
    assert len(twin.candidates) > len(twin.minima)  # there are saddles
    problem = Branches.of(price, np.ones(6), draws, 0.0)
    most = float(problem.slope(problem.t_turn).min())
    # Without an all-rising minimum to compare with, the saddle beside it is met.
    minima, _, complete = Leader(branches=problem, k=0, nu_most=most).minima(math.inf, 4_000)
    assert complete
    assert [each.objective for each in minima] == pytest.approx(twin.minima[:1], rel=1e-12)
    assert search(price, np.ones(6), draws, 0.0).minima == 2  # and the one with all rising
