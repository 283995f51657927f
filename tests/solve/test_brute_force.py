"""The grid against the slow twin."""

import numpy as np
import pytest
from tests.solve.brute_force import brute_force_probabilities
from tests.solve.problems import sample_problem
from tests.solve.reference_draws import reference_probabilities

from fedsched.errors import InputError
from fedsched.randomness import stream


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "count"), [(2, 80), (3, 20)])
@pytest.mark.parametrize("equal_weights", [True, False])
def test_no_grid_point_is_better_and_the_grid_comes_close(devices, count, equal_weights):
    random = stream(7, "sampling", devices, int(equal_weights))
    several = 0
    for _ in range(count):
        problem = sample_problem(random, devices=devices, equal_weights=equal_weights)
        solution = reference_probabilities(**problem.arguments)
        grid = brute_force_probabilities(**problem.arguments)
        several += len(solution.minima) > 1
        assert solution.objective <= grid.objective * (1 + 1e-13), problem
        # on the floor the grid, even in logarithms, only creeps to the edge
        assert grid.objective <= solution.objective * (1 + (1e-9 if not problem.floor else 1e-6))
    assert several >= count // 8


def test_the_grid_is_refused_for_more_than_three_devices():
    with pytest.raises(InputError, match="price has 4 entries"):
        brute_force_probabilities(np.ones(4), weight=1.0, draws=2)
