"""Kappa, against the one that runs with different Q tell on a problem made for it."""

import numpy as np
import pytest

from fedsched.learning.course import begin_course, follow_course
from fedsched.policies.kappa import begin_kappa, learn_kappa
from fedsched.values import Experience

DEVICES, DIMENSION, STEP = 20, 300, 0.5
CURVATURE = 1.0 / np.arange(1.0, DIMENSION + 1)  # ill-conditioned: stiff and flat directions


def descend(size, seed, rounds=256, spread=0.15):
    """Losses of a descent with that many devices a round, and kappa as it was learnt."""
    rng = np.random.default_rng(seed)
    own = spread * rng.normal(size=(DEVICES, DIMENSION)) * np.sqrt(CURVATURE)
    own -= own.mean(axis=0)  # the gradients of devices differ from the mean by this
    x, course, state, losses = np.ones(DIMENSION), begin_course(DIMENSION), begin_kappa(), []
    for t in range(1, rounds + 1):
        cohort = rng.permutation(DEVICES)[:size]
        updates = -STEP * (CURVATURE * x + own[cohort])
        weight = np.full(size, 1.0 / size)
        x = x + weight @ updates
        product = follow_course(course, x.astype(np.float32), t)
        norm = np.sqrt(np.square(updates).sum(axis=1))
        seen = Experience(
            device=cohort, loss=norm, square_loss=norm, norm=norm, update=None, weight=weight,
            course=product,
        )  # fmt: skip
        state = learn_kappa(state, seen, DEVICES, DEVICES / size)
        losses.append(0.5 * CURVATURE @ x**2)
    return np.array(losses), float(state["kappa"][0])


def test_it_is_within_a_factor_of_two_of_the_one_that_is_fitted():
    # The loss at a time is affine in Q: f = d(t) + c Q, and kappa = t |d'| / c. With cohorts of a
    # fixed size the noise is that of Q - 1.
    sizes = (1, 2, 5)
    runs = {size: [descend(size, seed) for seed in range(12)] for size in sizes}
    curves = np.array([np.mean([losses for losses, _ in runs[size]], axis=0) for size in sizes])
    inverse = DEVICES / np.array(sizes)
    slope, at_zero = np.polyfit(inverse, curves, 1)
    window = slice(128, 256)
    fall = -np.polyfit(np.log(np.arange(129.0, 257.0)), at_zero[window], 1)[0]
    fitted = fall / slope[window].mean()
    for size in sizes:
        learnt = np.exp(np.mean([np.log(kappa) for _, kappa in runs[size]]))
        assert 0.5 < learnt / fitted < 2.0


def seen(norm, course=np.nan):
    one = np.array([norm])
    return Experience(
        device=np.array([0]), loss=one, square_loss=one, norm=one, update=None,
        weight=np.ones(1), course=course,
    )  # fmt: skip


def after(rounds, course, state=None, norm=2.0, inverse=5.0):
    """Kappa of ten devices after so many more rounds, the last of which ends a window."""
    state = begin_kappa() if state is None else state
    for _ in range(rounds - 1):
        state = learn_kappa(state, seen(norm), 10, inverse)
    return learn_kappa(state, seen(norm, course=course), 10, inverse)


def test_it_begins_with_the_number_of_devices_and_weighs_what_is_measured_by_what_is_known():
    state = after(4, 6.4)  # too soon
    assert np.isnan(state["kappa"]).all()
    state = after(8, 12.8, state)
    measured = 16.0 / np.log(2.0)  # 4 * 10 * 12.8 / (8 * 2^2 ln 2)
    gain = 20.0**2 / (20.0**2 + 5.0**2)
    first = 10.0 + gain * (measured - 10.0)
    np.testing.assert_allclose(state["kappa"], [first, (1.0 - gain) * 20.0**2])
    variance = (1.0 - gain) * 20.0**2 + (first / 2.0) ** 2
    gain = variance / (variance + 5.0**2)
    state = after(16, 6.4, state)
    np.testing.assert_allclose(state["kappa"][0], first + gain * (measured / 4.0 - first))


def test_the_noisier_the_rounds_the_less_a_measurement_counts():
    steps = [after(8, 12.8, inverse=inverse)["kappa"][0] - 10.0 for inverse in (1.0, 10.0, 100.0)]
    assert steps[0] > 1.2 * steps[1] > 10.0 * steps[2] > 0.0


def test_a_kappa_that_has_changed_is_forgotten_by_the_next_measurements():
    state = after(8, 1280.0)  # 2,300, where a quarter of the devices takes part
    for _ in range(8):
        state = after(16, 25.6, state)  # 23
    assert state["kappa"][0] == pytest.approx(16.0 / np.log(2.0), rel=0.05)


@pytest.mark.parametrize(("course", "bound"), [(-500.0, 1.0), (1e9, 1000.0)])
def test_no_kappa_is_less_than_a_tenth_or_more_than_a_hundred_devices(course, bound):
    assert after(8, course)["kappa"][0] == bound


def test_updates_that_are_all_zero_teach_nothing():
    assert np.isnan(after(8, 0.0, norm=0.0)["kappa"]).all()
