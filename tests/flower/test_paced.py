"""Least time with nested cohorts, from what exchanges take and what updates tell."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsched.flower.paced import LEAST_NOISE, MOST_NOISE, Paced
from fedsched.randomness import Luck
from fedsched.values import Experience, Observation

RNG = np.random.default_rng(0)


def paced(devices, **options):
    return Paced(bits=1.0, work_s=np.zeros(devices), **options)


def decided(time_s, t=0, state=None, **options):
    policy = paced(len(time_s), **options)
    observed = Observation(gain=1.0 / time_s, luck=Luck(1, t))
    return policy.decide(observed, policy.init(len(time_s)) if state is None else state)


@pytest.mark.slow
def test_a_round_takes_what_the_law_says():
    time_s = RNG.lognormal(sigma=1.5, size=8)
    rounds = [decided(time_s, t) for t in range(4000)]
    tuned = paced(8).tuning(rounds[0][1])
    found = np.mean([time_s[each.cohort.device].max() for each, _ in rounds])
    assert found == pytest.approx(tuned["average_airtime_s"], rel=0.05)
    part = np.mean([np.isin(np.arange(8), each.cohort.device) for each, _ in rounds], axis=0)
    assert np.abs(part - rounds[0][0].probability).max() < 0.03
    noise = 8.0 * np.mean([each.cohort.weight @ each.cohort.weight for each, _ in rounds])
    assert noise == pytest.approx(tuned["average_inverse_probability"], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_the_weights_of_every_round_add_up_to_one(devices, spread):
    for t in range(100):
        time_s = np.exp(spread * np.random.default_rng(t % 7).normal(size=devices))
        made, state = decided(time_s, t)
        assert made.cohort.weight.sum() == pytest.approx(1.0, abs=1e-12)
        assert (made.cohort.weight > 0.0).all()
        assert (made.probability[made.cohort.device] > 0.0).all()
        tuned = paced(devices).tuning(state)
        assert tuned["average_inverse_probability"] <= MOST_NOISE + 1e-9
        if spread == 0.0:  # equal nodes all take part, as in FedAvg
            assert made.cohort.weight == pytest.approx(np.full(devices, 1.0 / devices))


def test_so_many_take_part_in_every_round():
    time_s = np.geomspace(1.0, 1e4, 10)
    sizes = {decided(time_s, t, least=9)[0].cohort.size for t in range(60)}
    assert sizes == {9, 10}
    assert min(decided(time_s, t)[0].cohort.size for t in range(60)) < 8


def test_where_others_were_left_out_by_chance_less_noise_is_added():
    """Half of the nodes have twice the noise by themselves."""
    time_s = np.geomspace(1.0, 50.0, 10)
    noise = [
        paced(10).tuning(decided(time_s, share=share)[1])["average_inverse_probability"]
        for share in (1.0, 0.5, 0.1)
    ]
    assert noise == pytest.approx([MOST_NOISE, 0.5 * MOST_NOISE, LEAST_NOISE], rel=1e-3)


def test_a_node_without_a_rate_is_left_out():
    made, _ = decided(np.array([1.0, np.nan, 2.0]))
    assert made.probability[1] == 0.0
    assert made.cohort.device.tolist() == [0, 2]


def cohort_of(rng, mean, deviation, weight):
    """Updates of 400 numbers about a mean, and what the server sees of them."""
    updates = mean + deviation * rng.normal(size=(len(weight), 400))
    return Experience(
        device=np.arange(len(weight)),
        loss=np.ones(len(weight)),
        square_loss=np.ones(len(weight)),
        norm=np.linalg.norm(updates, axis=1),
        update=None,
        weight=weight,
        step=float(np.linalg.norm(weight @ updates)),
    )


@pytest.mark.parametrize("deviation", [0.3, 3.0])
def test_kappa_follows_from_how_far_updates_are_from_each_other(deviation):
    rng, devices = np.random.default_rng(1), 50
    policy, mean = paced(devices), np.full(400, 0.5)
    state = policy.init(devices)
    assert policy.kappa_of(state, devices) == devices  # nothing is known
    found = []
    for _ in range(60):
        weight = rng.random(20)
        state = policy.observe(state, cohort_of(rng, mean, deviation, weight / weight.sum()))
        found.append(policy.kappa_of(state, devices))
    right = devices / 3.0 * (mean @ mean) / (400 * deviation**2)
    assert np.mean(found[10:]) == pytest.approx(right, rel=0.1)
    # Weights that do not add up to one, as after a lost reply, tell the same.
    seen = cohort_of(rng, mean, deviation, np.full(20, 0.05))
    half = replace(seen, weight=0.5 * seen.weight, step=0.5 * seen.step)
    one, other = (policy.kappa_of(policy.observe(state, each), devices) for each in (seen, half))
    assert one == pytest.approx(other)


@pytest.mark.parametrize(
    "seen",
    [
        cohort_of(RNG, 1.0, 1.0, np.array([1.0])),  # one alone tells nothing of a spread
        replace(cohort_of(RNG, 1.0, 1.0, np.full(4, 0.25)), step=math.nan),
        cohort_of(RNG, 1.0, 1.0, np.zeros(3)),
        cohort_of(RNG, 1.0, 0.0, np.full(4, 0.25)),  # no spread at all
    ],
    ids=["one", "no step", "no weight", "no spread"],
)
def test_a_cohort_that_tells_nothing_leaves_the_number_of_nodes(seen):
    policy = paced(10)
    assert policy.kappa_of(policy.observe(policy.init(10), seen), 10) == 10


@pytest.mark.parametrize("length", [1e4, 1e200])
def test_one_node_that_is_far_too_long_hardly_moves_kappa(length):
    rng, policy, weight = np.random.default_rng(7), paced(20), np.full(20, 0.05)
    honest, lied = policy.init(20), policy.init(20)
    for t in range(20):
        seen = cohort_of(rng, np.full(400, 0.5), 1.0, weight)
        lie = replace(seen, norm=np.where(np.arange(20) == 3, length, seen.norm), step=length / 20)
        honest = policy.observe(honest, seen)
        lied = policy.observe(lied, lie if t == 10 else seen)
    assert policy.kappa_of(lied, 20) == pytest.approx(policy.kappa_of(honest, 20), rel=0.2)


def test_nodes_that_all_tell_the_same_leave_sound_weights():
    """What differs is rounding alone, and nothing is left of the noise."""
    rng, policy = np.random.default_rng(9), paced(1000)
    weight, state = np.full(1000, 1e-3), policy.init(1000)
    for _ in range(3):
        seen = cohort_of(rng, np.full(400, 0.5), 1e-17, weight)
        state = policy.observe(state, seen)
    assert policy.kappa_of(state, 1000) <= 100 * 1000
    time_s = 0.15 * (1.0 + 0.01 * rng.random(1000))
    for t in range(20):
        cohort = decided(time_s, t, state)[0].cohort
        assert cohort.weight.sum() == pytest.approx(1.0)
        assert (cohort.weight > 0.0).all()


def test_nodes_that_differ_more_bring_more_of_them_together():
    """And what is given is not learnt."""
    rng, time_s, noise = np.random.default_rng(2), np.geomspace(1.0, 50.0, 10), []
    for deviation in (0.1, 1.0, 10.0):
        policy = paced(10)
        state = policy.init(10)
        for _ in range(10):
            seen = cohort_of(rng, np.full(400, 0.5), deviation, np.full(10, 0.1))
            state = policy.observe(state, seen)
        tuned = policy.tuning(decided(time_s, state=state)[1])
        noise.append(tuned["average_inverse_probability"])
        assert replace(policy, kappa=7.0).kappa_of(state, 10) == 7.0
    assert noise[0] > noise[1] > noise[2]
    assert noise[2] > 1.0


def test_a_state_of_an_earlier_version_is_read():
    policy = paced(10)
    assert policy.kappa_of({}, 10) == 10
    seen = cohort_of(RNG, 1.0, 1.0, np.full(10, 0.1))
    assert policy.observe({}, seen)["spread"].shape == (4,)
    assert all(math.isnan(each) for each in policy.tuning({}).values())
