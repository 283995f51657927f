"""What one device can do to the model, and that honest ones are left as they are."""

import math

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning import (
    BoundedInfluence,
    LatestUpdates,
    TrimmedSum,
    Update,
    WeightedSum,
    bounded,
)
from fedsched.learning.influence import BOUNDS, weighted_median

D = 40


def honest(rng, count=10, weight=0.1, spread=0.1):
    way = np.ones(D, np.float32)
    return [
        Update(n, weight, (way + spread * rng.standard_normal(D)).astype(np.float32))
        for n in range(count)
    ]


def norm(delta):
    return float(np.linalg.norm(np.asarray(delta, np.float64)))


def rounds(rule, cohorts):
    """The steps of a rule over cohorts of updates."""
    x, state, steps = np.zeros(D, np.float32), rule.init(100, D), []
    for cohort in cohorts:
        after = rule.step(x, state, iter(cohort))
        steps.append(after.parameters.astype(np.float64) - x)
        x, state = after.parameters, after.state
    return np.array(steps)


@pytest.mark.parametrize("name", BOUNDS)
def test_honest_updates_of_one_length_are_added_up_as_they_are(name):
    rng = np.random.default_rng(1)
    cohorts = [honest(rng, spread=0.01) for _ in range(30)]
    free = rounds(WeightedSum(), cohorts)
    kept = rounds(bounded(name, WeightedSum()), cohorts)
    assert np.abs(kept - free).max() < 0.02


@pytest.mark.parametrize("times", [-1e30, -100.0, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("name", ["clip", "robust"])
@pytest.mark.parametrize("first", [0, 12])
def test_no_device_moves_the_model_by_more_than_its_share(name, times, first):
    rng = np.random.default_rng(2)
    cohorts = [honest(rng) for _ in range(25)]
    attacked = [list(cohort) for cohort in cohorts]
    for cohort in attacked[first:]:
        with np.errstate(all="ignore"):
            cohort[3] = cohort[3]._replace(delta=cohort[3].delta * np.float32(times))
    rule = bounded(name, WeightedSum())
    without, under_attack = rounds(rule, cohorts), rounds(rule, attacked)
    usual = math.sqrt(D)
    for one, other in zip(without, under_attack, strict=True):
        assert norm(other) <= 1.2 * usual
        assert norm(one - other) < 0.3 * usual  # the share of one in ten, cut and left out


def test_the_further_an_update_is_beyond_the_bound_the_less_it_counts():
    def moved(length):
        x = np.zeros(1, np.float32)
        rule = BoundedInfluence(longest=2.0, step_length=math.inf)
        said = [Update(n, 0.25, np.array([1.0], np.float32)) for n in range(3)]
        said.append(Update(3, 0.25, np.array([length], np.float32)))
        return float(rule.step(x, rule.init(4, 1), said).parameters[0]) - 0.75

    assert moved(2.0) == pytest.approx(0.5)
    assert moved(4.0) == pytest.approx(0.25)
    assert moved(400.0) == pytest.approx(0.0025)


def test_a_large_weight_counts_for_one_usual_update_at_most():
    said = [Update(n, 0.1, np.eye(D, dtype=np.float32)[n]) for n in range(9)]
    said.append(Update(9, 5.0, np.eye(D, dtype=np.float32)[9]))
    rule = BoundedInfluence(step_length=math.inf)
    step = rule.step(np.zeros(D, np.float32), rule.init(10, D), said).parameters
    assert step[:9] == pytest.approx(0.1) and step[9] == pytest.approx(1.0)


def test_liars_who_are_always_chosen_do_not_own_the_usual_length():
    """Twenty with q = 1 and weight 1/100 each, and eight of the other eighty with 1/10."""
    rng = np.random.default_rng(3)
    cohorts = []
    for _ in range(10):
        liars = [Update(n, 0.01, np.full(D, -50.0, np.float32)) for n in range(20)]
        others = rng.permutation(np.arange(20, 100))[:8]
        good = [Update(int(n), 0.1, np.ones(D, np.float32)) for n in others]
        cohorts.append([*liars, *good])
    steps = rounds(bounded("clip", WeightedSum()), cohorts)
    assert (steps.mean(axis=1) > 0.7).all()


def test_where_all_updates_grow_the_bounds_grow_too():
    grown = [
        [Update(n, 0.1, np.full(D, size, np.float32)) for n in range(10)]
        for size in [1.0] * 30 + [10.0] * 30
    ]
    rule = bounded("clip", WeightedSum())
    steps = rounds(rule, grown)
    assert steps[-1] == pytest.approx(10.0)
    assert steps[30] == pytest.approx(rule.longest**2 / 10.0)  # until then the model still moves


def test_the_trimmed_sum_is_the_weighted_sum_where_nothing_is_trimmed():
    rng = np.random.default_rng(4)
    said = [Update(n, float(w), d) for n, (w, (_, _, d)) in
            enumerate(zip(rng.uniform(0.01, 1.0, 10), honest(rng), strict=True))]  # fmt: skip
    x = rng.standard_normal(D).astype(np.float32)
    free = WeightedSum().step(x, {}, said).parameters
    assert TrimmedSum(trim=0.0).step(x, {}, said).parameters == pytest.approx(free, rel=1e-6)
    backwards = TrimmedSum(trim=0.3).step(x, {}, said[::-1]).parameters
    assert TrimmedSum(trim=0.3).step(x, {}, said).parameters == pytest.approx(backwards, rel=1e-6)


def test_less_than_the_trimmed_share_of_weight_never_leaves_the_others_behind():
    rng = np.random.default_rng(5)
    for _ in range(200):
        weights = rng.uniform(0.1, 1.0, 8)
        deltas = rng.standard_normal((8, 3)).astype(np.float32)
        total = weights.sum()
        liar = int(np.argmin(weights))
        said = [Update(n, w, d) for n, (w, d) in enumerate(zip(weights, deltas, strict=True))]
        said[liar] = said[liar]._replace(delta=np.full(3, rng.choice([-1e30, 1e30]), np.float32))
        trim = min(weights[liar] / total + 0.01, 0.49)
        step = TrimmedSum(trim=trim).step(np.zeros(3, np.float32), {}, said).parameters / total
        others = np.delete(deltas, liar, axis=0)
        assert (step >= others.min(axis=0) - 1e-5).all()
        assert (step <= others.max(axis=0) + 1e-5).all()


def test_blocks_of_coordinates_do_not_show(monkeypatch):
    said = honest(np.random.default_rng(6))
    whole = TrimmedSum().step(np.zeros(D, np.float32), {}, said).parameters
    monkeypatch.setattr("fedsched.learning.influence._BLOCK", 7)
    assert TrimmedSum().step(np.zeros(D, np.float32), {}, said).parameters.tobytes() == (
        whole.tobytes()
    )


def test_a_round_in_which_nobody_came_changes_nothing():
    for name in BOUNDS:
        rule = bounded(name, WeightedSum())
        x, state = np.ones(D, np.float32), rule.init(10, D)
        after = rule.step(x, state, iter([]))
        assert after.parameters.tobytes() == x.tobytes() and after.rejected == ()
        bad = Update(0, 1.0, np.full(D, np.nan, np.float32))
        assert rule.step(x, after.state, iter([bad])).rejected == (0,)


def test_the_latest_updates_are_cut_whatever_their_weight():
    rule = bounded("clip", LatestUpdates())
    said = [Update(n, 9.0, np.ones(D, np.float32)) for n in range(10)]
    after = rule.step(np.zeros(D, np.float32), rule.init(10, D), said)
    assert after.parameters == pytest.approx(1.0)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match="use bounds = 'clip' with it"):
        bounded("robust", LatestUpdates())
    with pytest.raises(UnknownNameError, match=r"training\.bounds: 'clop' is not known"):
        bounded("clop", WeightedSum())
    with pytest.raises(InputError, match="trim must lie in"):
        TrimmedSum(trim=0.5)
    with pytest.raises(InputError, match="share must be positive"):
        BoundedInfluence(share=0.0)


def test_the_weighted_median_has_half_of_the_weight_below():
    rng = np.random.default_rng(7)
    for _ in range(300):
        values, weights = rng.standard_normal(9), rng.uniform(0.0, 1.0, 9)
        median = weighted_median(values, weights)
        assert weights[values <= median].sum() >= 0.5 * weights.sum() - 1e-12
        assert weights[values < median].sum() <= 0.5 * weights.sum() + 1e-12
    assert math.isnan(weighted_median(np.empty(0), np.empty(0)))
