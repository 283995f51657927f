"""The solver to the last digits, against arithmetic with fifty of them."""

import numpy as np
import pytest
from tests.solve.digits import apart, exact
from tests.solve.problems import DrawProblem

from fedsched.randomness import stream
from fedsched.solve.probabilities import optimal_probabilities


@pytest.mark.parametrize("draws", [2, 5, 10, 100])
@pytest.mark.parametrize("equal", [True, False])
def test_probabilities_are_right_to_the_last_digits(draws, equal):
    random = stream(93, "sampling", draws, int(equal))
    weight = 1.0 if equal else random.uniform(0.5, 2.0, 40)
    price = weight * 10.0 ** random.uniform(0.5, 3.0, 40)
    problem = DrawProblem(price=price, weight=weight, draws=draws)
    solution = optimal_probabilities(**problem.arguments).raise_for_status()
    assert apart(solution.probability, exact(problem, solution)) < 2e-14


def test_a_wrong_digit_would_be_seen():
    problem = DrawProblem(price=np.array([40.0, 2.0, 2.0]), weight=1.0, draws=2)
    solution = optimal_probabilities(**problem.arguments)
    right = exact(problem, solution)
    assert apart(solution.probability, right) < 1e-15
    assert apart(solution.probability * (1.0 + 1e-14), right) > 5e-15
