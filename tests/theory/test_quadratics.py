import numpy as np
import pytest
from tests.theory.designs import fixed_size, independent

from fedsched.errors import InputError
from fedsched.policies.designs import make_design
from fedsched.theory.quadratics import (
    TWO_QUADRATICS,
    Participation,
    Quadratics,
    gradient_path,
    stationary_gradient_norm,
    with_replacement,
)

OMEGA = np.array([0.1, 0.2, 0.3, 0.4])
Q = np.array([0.2, 0.5, 0.6, 0.7])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "draws", "exact"),
    [
        ("with-replacement", 3, with_replacement(OMEGA, 3)),
        ("independent", 2, independent(Q)),
        ("fixed-size", 2, fixed_size(Q)),
    ],
)
def test_the_exact_covariances_are_those_of_the_designs(name, draws, exact):
    rng, count = np.random.default_rng(4), 20_000
    design = make_design(name, draws)
    omega = OMEGA if name == "with-replacement" else None
    indicator = np.zeros((count, 4))
    for row in indicator:
        row[design.members(exact.probability, omega, rng)] = 1.0
    assert np.abs(indicator.mean(axis=0) - exact.probability).max() < 5 * 0.5 / count**0.5
    assert np.abs(np.cov(indicator.T, ddof=0) - exact.covariance).max() < 5 * 0.5 / count**0.5


def test_the_recursion_agrees_with_algorithm_1_played_out():
    rng = np.random.default_rng(5)
    problem = Quadratics(
        curvature=np.array([0.5, 2.0]), minimum=rng.normal(size=(4, 2)), noise_sq=0.3
    )
    gamma, steps, start, runs = 0.15, 3, np.array([1.0, -2.0]), 40_000
    exact = with_replacement(OMEGA, 3)
    path = gradient_path(problem, [exact] * 4, start=start, learning_rate=gamma, steps=steps)
    x = np.tile(start, (runs, 1))
    for t in range(4):
        gradient = problem.curvature * (x - problem.minimum.mean(axis=0))
        square = (gradient**2).sum(axis=1)
        assert abs(square.mean() - path.gradient_sq[t]) <= 5 * square.std() / runs**0.5 + 1e-12
        drawn = rng.choice(4, size=(runs, 3), p=OMEGA)
        change = np.zeros_like(x)
        for n in range(4):
            y = x.copy()
            for _ in range(steps):
                noise = rng.normal(scale=(0.3 / 2) ** 0.5, size=y.shape)
                y -= gamma * (problem.curvature * (y - problem.minimum[n]) + noise)
            takes_part = (drawn == n).any(axis=1)[:, None]
            change += takes_part / exact.probability[n] * (y - x) / 4
        x = x + change


def test_a_long_path_ends_in_the_stationary_value():
    half = with_replacement([0.5, 0.5], 1)
    path = gradient_path(TWO_QUADRATICS, [half] * 400, start=[3.0], learning_rate=0.1, steps=2)
    limit = stationary_gradient_norm(TWO_QUADRATICS, half, learning_rate=0.1, steps=2)
    assert path.gradient_sq[-1] == pytest.approx(limit, rel=1e-12)
    assert path.final_gap == pytest.approx(limit / 2, rel=1e-12)
    assert path.start_gap == pytest.approx(4.5)


def test_a_step_that_diverges_has_no_stationary_value():
    rare = independent(np.array([0.01, 0.01]))
    assert stationary_gradient_norm(
        TWO_QUADRATICS, rare, learning_rate=0.5, steps=1
    ) == float("inf")  # fmt: skip


def test_everybody_taking_part_without_noise_is_gradient_descent():
    everybody = Participation(probability=np.ones(2), covariance=np.zeros((2, 2)))
    path = gradient_path(TWO_QUADRATICS, [everybody] * 5, start=[2.0], learning_rate=0.5, steps=1)
    assert path.gradient_sq.tolist() == [4.0 * 0.25**t for t in range(5)]


def test_shapes_and_probabilities_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"minimum must have shape \(devices, 1\)"):
        Quadratics(curvature=np.ones(1), minimum=np.ones(3))
    with pytest.raises(InputError, match="probability must hold 2 values"):
        gradient_path(
            TWO_QUADRATICS, [independent(np.array([0.5, 0.0]))], start=[0.0], learning_rate=0.1,
            steps=1,
        )  # fmt: skip
