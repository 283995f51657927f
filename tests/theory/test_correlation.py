"""The kappa of a schedule is the largest eigenvalue of what enumerating all draws gives."""

from itertools import product

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.theory import correlation_factor, variance_factor


def enumerated(p, draws):
    """Over all sequences of draws, by their chances."""
    devices = len(p)
    mean, both = np.zeros(devices), np.zeros((devices, devices))
    for drawn in product(range(devices), repeat=draws):
        inside = np.isin(np.arange(devices), drawn).astype(float)
        chance = np.prod(p[list(drawn)])
        mean += chance * inside
        both += chance * np.outer(inside, inside)
    covariance = both - np.outer(mean, mean)
    deviation = np.sqrt(np.diag(covariance))
    return mean, np.linalg.eigvalsh(covariance / np.outer(deviation, deviation))[-1]


@pytest.mark.parametrize("draws", [1, 2, 4])
@pytest.mark.parametrize("p", [[0.5, 0.5], [0.7, 0.2, 0.1], [0.4, 0.3, 0.2, 0.05, 0.05]])
def test_it_is_what_enumerating_all_draws_gives(p, draws):
    q, largest = enumerated(np.array(p), draws)
    assert correlation_factor([q], draws) == pytest.approx(largest, rel=1e-9)
    assert largest <= variance_factor("with-replacement", len(p)) + 1e-12


def test_it_is_the_largest_of_the_rounds_and_certain_devices_do_not_count():
    few, many = enumerated(np.array([0.9, 0.1]), 1), enumerated(np.array([0.5, 0.5]), 3)
    assert correlation_factor([few[0]], 1) == pytest.approx(2.0)
    assert correlation_factor([many[0], [0.2, 0.3]], 3) == pytest.approx(many[1])
    assert correlation_factor([[1.0, 1.0]], 2) == 0.0


def test_what_is_no_schedule_is_refused():
    with pytest.raises(InputError, match="probability"):
        correlation_factor([[0.5, 1.5]], 2)
    with pytest.raises(InputError, match="draws"):
        correlation_factor([[0.5, 0.5]], 0)
