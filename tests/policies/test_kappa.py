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
        state = learn_kappa(state, seen, DEVICES)
        losses.append(0.5 * CURVATURE @ x**2)
    return np.array(losses), float(state["kappa"])


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


def test_it_begins_with_the_number_of_devices_and_goes_half_way_in_the_logarithm():
    state = begin_kappa()
    for _ in range(3):
        state = learn_kappa(state, seen(2.0), 10)
    state = learn_kappa(state, seen(2.0, course=1.6), 10)  # too soon
    assert np.isnan(state["kappa"])
    for _ in range(7):
        state = learn_kappa(state, seen(2.0), 10)
    state = learn_kappa(state, seen(2.0, course=3.2), 10)  # 16 * 10 * 3.2 / (32 ln 2)
    measured = 16.0 / np.log(2.0)
    assert state["kappa"] == pytest.approx(np.sqrt(10.0 * measured))
    for _ in range(15):
        state = learn_kappa(state, seen(2.0), 10)
    state = learn_kappa(state, seen(2.0, course=6.4), 10)
    assert state["kappa"] == pytest.approx(np.sqrt(np.sqrt(10.0 * measured) * measured))


@pytest.mark.parametrize(("course", "bound"), [(-5.0, 1.0), (0.0, 1.0), (1e9, 1000.0)])
def test_no_measurement_counts_for_less_than_a_tenth_or_more_than_a_hundred_devices(course, bound):
    state = begin_kappa()
    for _ in range(7):
        state = learn_kappa(state, seen(1.0), 10)
    state = learn_kappa(state, seen(1.0, course=course), 10)
    assert state["kappa"] == pytest.approx(np.sqrt(10.0 * bound))


def test_updates_that_are_all_zero_teach_nothing():
    state = begin_kappa()
    for _ in range(7):
        state = learn_kappa(state, seen(0.0), 10)
    assert np.isnan(learn_kappa(state, seen(0.0, course=0.0), 10)["kappa"])
