"""The policy that tunes itself, against its own account, fixed prices and a world that changes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.policies.observing import observed, system

from fedsched.errors import InputError
from fedsched.policies import Auto
from fedsched.randomness import stream
from fedsched.solve.uplink import PAPER_UPLINK

DEVICES = 20


def world(noise_w=1.0, peak_w=3162.0, compute_s=0.5, **options):
    link = replace(PAPER_UPLINK, noise_w=noise_w, max_power_w=peak_w)
    return replace(system(link, **options), compute_s=compute_s)


def fading(t, level=1.0):
    spread = np.geomspace(0.01, 100.0, DEVICES)
    return level * spread * stream(1, "channel", t).exponential(size=DEVICES) + 1e-6


def play(policy, rounds, level=lambda _: 1.0, state=None):
    """Q, tau and P q of every round."""
    state = policy.init(DEVICES) if state is None else state
    inverse, airtime_s, spent = [], [], []
    for t in range(rounds):
        decision, state = policy.decide(observed(fading(t, level(t)), t), state)
        q = decision.probability
        inverse.append((1.0 / q).mean())
        airtime_s.append((q * decision.plan.upload_s).sum())
        spent.append(decision.expected_power_w)
    return np.array(inverse), np.array(airtime_s), np.array(spent), state


def predicted_time(policy, played, first=0):
    inverse, airtime_s = played[0][first:].mean(), played[1][first:].mean()
    kappa = DEVICES if policy.kappa is None else policy.kappa
    return (kappa + inverse) * (policy.system.compute_s + airtime_s)


def mean_use(spent):
    """Of each device, after every round."""
    return spent.cumsum(axis=0) / np.arange(1.0, len(spent) + 1.0)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("noise_w", [1.0, 1e3])
@pytest.mark.parametrize("compute_s", [0.05, 5.0])
def test_no_fixed_price_of_time_is_much_better(noise_w, compute_s):
    policy = Auto(system=world(noise_w=noise_w, compute_s=compute_s * noise_w**0.5))
    own = play(policy, 500)
    lam = policy.lam(own[3], DEVICES)
    fixed = [
        predicted_time(policy, play(replace(policy, fixed_lam=lam * factor), 500))
        for factor in (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
    ]
    assert predicted_time(policy, own) <= 1.03 * min(fixed)
    assert max(fixed) > 1.05 * min(fixed)  # so the price matters


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "credit"), [("average", 10.0), ("strict", 1.0)])
@pytest.mark.parametrize("noise_w", [1.0, 1e5])
def test_no_device_is_ever_ahead_of_its_budget_by_more_than_its_credit(mode, credit, noise_w):
    policy = Auto(system=world(noise_w=noise_w), budget_mode=mode)
    spent = np.cumsum(play(policy, 400)[2], axis=0)
    rounds = np.arange(400.0)[:, None]
    assert np.all(spent <= (rounds + credit) * (1.0 + 1e-12))
    assert spent[-1].min() > 0.9 * 400  # and no budget is wasted


@pytest.mark.slow
def test_a_fall_of_thirty_decibels_is_forgotten():
    policy = Auto(system=world())
    changed = play(policy, 900, lambda t: 1.0 if t < 300 else 1e-3)
    anew = play(policy, 900, lambda _: 1e-3)
    assert predicted_time(policy, changed, 500) <= 1.03 * predicted_time(policy, anew, 500)
    assert mean_use(changed[2])[100:].max() <= 1.10
    assert mean_use(changed[2][300:])[200:].max() <= 1.10
    before = play(policy, 900)
    assert predicted_time(policy, before, 500) < 0.2 * predicted_time(policy, anew, 500)


@pytest.mark.slow
def test_a_rise_of_thirty_decibels_is_forgotten():
    policy = Auto(system=world())
    changed = play(policy, 900, lambda t: 1e-3 if t < 300 else 1.0)
    anew = play(policy, 900)
    assert predicted_time(policy, changed, 500) <= 1.03 * predicted_time(policy, anew, 500)
    assert mean_use(changed[2])[100:].max() <= 1.10
    # Of these rounds alone it may spend more: the thirty rounds that it had saved before.
    assert mean_use(changed[2][300:])[200:].max() <= 1.15


def test_no_weight_is_above_its_limit_and_cohorts_are_the_sum_of_q_rounded():
    shares = np.arange(1.0, DEVICES + 1) / np.arange(1.0, DEVICES + 1).sum()
    policy = Auto(system=world(data_weight=shares), weight_limit=1.5)
    state, sums = policy.init(DEVICES), []
    for t in range(200):
        gain = np.where(stream(2, "data", t).random(DEVICES) < 0.2, np.nan, fading(t))
        decision, state = policy.decide(observed(gain, t), state)
        size = decision.probability.sum()
        assert decision.cohort.size in (int(np.floor(size)), int(np.ceil(size)))
        assert decision.cohort.weight.max(initial=0.0) <= 1.5 * (1.0 + 1e-12)
        sums.append(decision.cohort.weight.sum())
    assert np.mean(sums) == pytest.approx(0.8, abs=0.05)  # a fifth is out of reach


def test_without_computation_one_device_a_round_is_the_one_with_a_good_channel():
    policy = Auto(system=world(compute_s=0.0))
    state, airtimes = policy.init(DEVICES), []
    for t in range(200):
        decision, state = policy.decide(observed(fading(t), t), state)
        q = decision.probability
        assert q.sum() == pytest.approx(1.0)
        assert decision.cohort.size == 1
        assert q.min() >= 0.5 / DEVICES * (1.0 - 1e-12)
        airtimes.append(((q * decision.plan.upload_s).sum(), decision.plan.upload_s.mean()))
    chosen_s, mean_s = np.mean(airtimes, axis=0)
    assert chosen_s < 0.8 * mean_s  # a device at random would take the mean


def test_longer_computation_makes_larger_cohorts():
    sizes = []
    for compute_s in (0.01, 1.0, 100.0):
        inverse = play(Auto(system=world(compute_s=compute_s)), 100)[0]
        sizes.append(DEVICES / inverse[-1])
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kappa": 0.0}, "kappa must be a positive finite number"),
        ({"weight_limit": 0.0}, "weight_limit must be a positive finite number"),
        ({"budget_mode": "loose"}, "budget_mode must be 'average' or 'strict', got 'loose'"),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Auto(system=world(), **options)
