import numpy as np
import pytest

from fedsched.learning.course import begin_course, follow_course


def products(way):
    """The square of the way after each round that has one, for a way from round 1 on."""
    memory, found = begin_course(way.shape[1]), {}
    for rounds, model in enumerate(way, 1):
        product = follow_course(memory, model.astype(np.float32), rounds)
        if not np.isnan(product):
            found[rounds] = product
    return found


def test_the_quarters_are_those_of_the_last_half():
    way = np.random.default_rng(1).normal(size=(40, 3)).cumsum(axis=0).astype(np.float32)
    found = products(way)
    assert list(found) == [1, 2, 4, 8, 16, 32]
    assert found[1] == found[2] == found[4] == 0.0
    for t, square in list(found.items())[3:]:
        a, b, c, d = (way[t // 8 * k - 1] - way[t // 8 * (k - 1) - 1] for k in (5, 6, 7, 8))
        assert square == pytest.approx(16.0 / 3.0 * (a @ c + a @ d + b @ d), rel=1e-4)


def test_noise_that_is_new_each_round_adds_nothing_on_average():
    rng = np.random.default_rng(2)
    speed, noise = 0.1, 1.0  # the noise of the square is 3 % of it: 16 sqrt(3 * 4000) * 32 / 3
    steps = np.full((256, 4000), speed) + noise * rng.normal(size=(256, 4000))
    square = products(steps.cumsum(axis=0))[256]
    progress = 128.0**2 * speed**2 * 4000
    assert square == pytest.approx(progress, rel=0.1)
    moved = np.square(steps[128:].sum(axis=0)).sum()
    assert moved > 1.5 * progress  # which the length of the way alone does not tell


def test_noise_that_is_taken_back_within_a_quarter_adds_nothing_on_average():
    rng = np.random.default_rng(2)
    aside = [np.zeros(4000)]
    for _ in range(256):
        aside.append(0.7 * aside[-1] + rng.normal(size=4000))
    way = 0.02 * np.arange(257)[:, None] + np.array(aside)
    square = products(way[1:])[256]
    assert square == pytest.approx(128.0**2 * 0.02**2 * 4000, rel=0.1)
    first, second = (way[t] - way[t - 64] for t in (192, 256))
    assert 4.0 * first @ second < 0.8 * square  # halves that meet take the way back for the way


def test_a_course_that_goes_on_is_the_same():
    way = np.random.default_rng(3).normal(size=(16, 2)).astype(np.float32)
    memory = begin_course(2)
    for rounds in range(1, 12):
        follow_course(memory, way[rounds - 1], rounds)
    memory = {name: value.copy() for name, value in memory.items()}  # as a checkpoint would
    for rounds in range(12, 17):
        product = follow_course(memory, way[rounds - 1], rounds)
    assert product == products(way)[16]
