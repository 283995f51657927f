import numpy as np
import pytest

from fedsched.learning.course import begin_course, follow_course


def products(way):
    """The inner product after each round that has one, for a way from round 1 on."""
    memory, found = begin_course(way.shape[1]), {}
    for rounds, model in enumerate(way, 1):
        product = follow_course(memory, model.astype(np.float32), rounds)
        if not np.isnan(product):
            found[rounds] = product
    return found


def test_the_halves_are_those_of_the_last_half():
    way = np.random.default_rng(1).normal(size=(40, 3)).cumsum(axis=0).astype(np.float32)
    found = products(way)
    assert list(found) == [1, 2, 4, 8, 16, 32]
    assert found[1] == found[2] == 0.0
    for t, product in list(found.items())[2:]:
        first = way[3 * t // 4 - 1] - way[t // 2 - 1]
        second = way[t - 1] - way[3 * t // 4 - 1]
        assert product == pytest.approx(float(first @ second), rel=1e-5)


def test_noise_that_is_new_each_round_adds_nothing_on_average():
    rng = np.random.default_rng(2)
    speed, noise = 0.02, 1.0
    steps = np.full((256, 4000), speed) + noise * rng.normal(size=(256, 4000))
    product = products(steps.cumsum(axis=0))[256]
    progress = 64.0**2 * speed**2 * 4000  # of either half
    assert product == pytest.approx(progress, rel=0.2)
    moved = np.square(steps[128:].sum(axis=0)).sum() / 4.0
    assert moved > 1.5 * progress  # which the length of the way alone does not tell


def test_a_course_that_goes_on_is_the_same():
    way = np.random.default_rng(3).normal(size=(16, 2)).astype(np.float32)
    memory = begin_course(2)
    for rounds in range(1, 12):
        follow_course(memory, way[rounds - 1], rounds)
    memory = {name: value.copy() for name, value in memory.items()}  # as a checkpoint would
    for rounds in range(12, 17):
        product = follow_course(memory, way[rounds - 1], rounds)
    assert product == products(way)[16]
