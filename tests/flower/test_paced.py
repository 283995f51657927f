"""Least time with nested cohorts: against brute force, and within its bounds whatever the times."""

import itertools
import math

import numpy as np
import pytest

from fedsched.flower.paced import MOST_WEIGHT, SURE, Paced, slope_blocks
from fedsched.randomness import Luck
from fedsched.values import Observation

RNG = np.random.default_rng(0)


def paced(devices, **options):
    return Paced(bits=1.0, work_s=np.zeros(devices), **options)


def mean_time_s(q, time_s):
    order = np.argsort(time_s)
    return float((np.diff(time_s[order], prepend=0.0) * q[order]).sum())


def decided(time_s, t=0, **options):
    policy = paced(len(time_s), **options)
    return policy.decide(Observation(gain=1.0 / time_s, luck=Luck(1, t)), {})[0]


def test_slopes_do_not_fall_and_keep_the_sum():
    for _ in range(200):
        gap = RNG.exponential(size=int(RNG.integers(1, 30))) * (RNG.random() < 0.9)
        slope = slope_blocks(gap)
        assert (np.diff(slope) >= -1e-12).all()
        assert slope.sum() == pytest.approx(gap.sum())
        # The greatest convex minorant lies below, and touches at the end.
        assert (slope.cumsum() <= gap.cumsum() + 1e-9).all()


@pytest.mark.parametrize("overhead_s", [0.0, 5.0])
@pytest.mark.parametrize("kappa", [2.0, 40.0])
def test_no_probabilities_of_a_grid_are_better(overhead_s, kappa):
    """Ten nodes: the eight fastest always, the others on a grid of 200 each."""
    grid = np.linspace(0.05, 1.0, 200)
    for _ in range(3):
        time_s = np.sort(RNG.lognormal(sigma=1.5, size=10))
        policy = paced(10, overhead_s=overhead_s, kappa=kappa)

        def cost(q, time_s=time_s):
            return (kappa + (1.0 / q).mean()) * (overhead_s + mean_time_s(q, time_s))

        ours = policy.probability(time_s)
        best = min(
            cost(np.array([*np.ones(8), *tail]))
            for tail in itertools.product(grid, repeat=2)
            if tail[0] >= tail[1] and 8.0 + sum(1.0 / q for q in tail) <= 12.5
        )
        assert (np.diff(ours) <= 1e-12).all()
        assert cost(ours) <= best * 1.01


@pytest.mark.slow
def test_the_mean_time_of_a_round_is_that_of_the_formula():
    time_s = RNG.lognormal(sigma=1.5, size=8)
    rounds = [decided(time_s, t) for t in range(4000)]
    q = rounds[0].probability
    found = np.mean([time_s[each.cohort.device].max() for each in rounds])
    assert found == pytest.approx(mean_time_s(q, time_s), rel=0.05)
    part = np.mean([np.isin(np.arange(8), each.cohort.device) for each in rounds], axis=0)
    assert np.abs(part - q).max() < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_the_weights_of_every_round_add_up_to_nearly_one(devices, spread):
    sums = []
    for t in range(300):
        time_s = np.exp(spread * np.random.default_rng(t % 7).normal(size=devices))
        made = decided(time_s, t)
        assert made.cohort.weight == pytest.approx(
            1.0 / (devices * made.probability[made.cohort.device])
        )
        sums.append(made.cohort.weight.sum())
    assert min(sums) >= SURE - 1e-12
    assert max(sums) <= MOST_WEIGHT + 1e-9
    if spread == 0.0:
        assert sums == pytest.approx([1.0] * 300)  # equal nodes all take part, as in FedAvg


def test_so_many_take_part_in_every_round():
    time_s = np.geomspace(1.0, 1e4, 10)
    sizes = {decided(time_s, t, least=9).cohort.size for t in range(60)}
    assert min(sizes) == 9
    assert max(sizes) == 10
    assert min(decided(time_s, t).cohort.size for t in range(60)) == math.ceil(SURE * 10)


def test_a_node_without_a_rate_is_left_out():
    made = decided(np.array([1.0, np.nan, 2.0]))
    assert made.probability[1] == 0.0
    assert made.cohort.device.tolist() == [0, 2]
