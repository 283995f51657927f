import dataclasses

import numpy as np
import pytest

from fedsched.errors import SolveError
from fedsched.solve.probabilities import optimal_probabilities
from fedsched.solve.solution import Status


def solution():
    return optimal_probabilities([[1.0, 2.0], [3.0, 40.0]], weight=1.0, draws=3)


def test_a_solved_problem_returns_itself():
    solved = solution()
    assert solved.raise_for_status() is solved


def test_a_doubted_problem_raises_with_its_sentence_and_its_numbers():
    doubted = dataclasses.replace(solution(), gap=np.array([0.0, 0.25]))
    assert doubted.status is Status.NOT_CERTIFIED
    with pytest.raises(SolveError, match="please report the prices, weights and draws") as caught:
        doubted.raise_for_status()
    assert "largest gap 0.25; 1 of 2 problems not certified" in str(caught.value)


def test_a_gap_that_is_no_number_proves_nothing():
    assert dataclasses.replace(solution(), gap=np.array(np.nan)).status is Status.NOT_CERTIFIED


def test_a_solution_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution().gap = np.array(0.0)
