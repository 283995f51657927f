from dataclasses import replace

import numpy as np
import pytest
from tests.policies.observing import answered, observed

from fedsched.policies import make_policy
from fedsched.policies.loss_based import ActiveFL
from fedsched.solve.uplink import Uplink
from fedsched.values import NO_ANSWERS, Experience

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def told(t, devices, device=(), value=()):
    """The luck of round t, and what was answered."""
    del devices
    return {"t": t, "answers": answered(device, value) if len(device) else NO_ANSWERS}


def learned(device, loss):
    loss = np.array(loss, np.float64)
    device = np.array(device, np.int64)
    return Experience(
        device=device, loss=loss, square_loss=loss**2, norm=loss, update=None, weight=loss
    )


def members(policy, gain, state, feedback):
    return policy.decide(observed(gain, **feedback), state)[0].cohort


def test_power_of_choice_asks_d_devices_in_reach_and_takes_the_largest_losses():
    policy = make_policy("power-of-choice", uplink=LINK, draws=2, candidates=4)
    gain = np.array([1.0, 1.0, np.nan, 1.0, 1.0, 1.0])
    asked = policy.ask(observed(gain), {}).device
    assert len(set(asked.tolist())) == 4
    assert 2 not in asked
    state = policy.init(6)
    cohort = members(policy, gain, state, told(0, 6, [5, 0, 3, 4], [1.0, 9.0, 2.0, 7.0]))
    assert cohort.device.tolist() == [0, 4]  # candidates, not places among them
    assert cohort.weight.tolist() == [0.5, 0.5]
    ties = {
        tuple(members(policy, gain, state, told(t, 6, [5, 0, 3], [1.0] * 3)).device.tolist())
        for t in range(40)
    }
    assert ties == {(0, 3), (0, 5), (3, 5)}


@pytest.mark.parametrize("name", ["power-of-choice", "power-of-choice-stale"])
def test_candidates_are_drawn_by_their_shares_of_the_data(name):
    shares = np.array([0.7, 0.1, 0.1, 0.1])
    policy = make_policy(name, uplink=LINK, draws=1, candidates=1, data_weight=shares)
    counts = np.zeros(4)
    for t in range(2000):
        luck = told(t, 4)
        if name == "power-of-choice":
            counts[policy.ask(observed(np.ones(4), t), {}).device] += 1 / 2000
        else:
            counts[members(policy, np.ones(4), policy.init(4), luck).device] += 1 / 2000
    assert counts == pytest.approx(shares, abs=0.04)


def test_the_stale_variant_takes_unseen_devices_first_and_then_the_largest_last_loss():
    policy = make_policy("power-of-choice-stale", uplink=LINK, draws=1, candidates=3)
    state = policy.observe(policy.init(3), learned([0, 2], [5.0, 1.0]))
    assert members(policy, np.ones(3), state, told(0, 3)).device.tolist() == [1]
    state = policy.observe(state, learned([1], [2.0]))
    assert members(policy, np.ones(3), state, told(0, 3)).device.tolist() == [0]
    state = policy.observe(state, learned([0], [0.5]))
    assert members(policy, np.ones(3), state, told(0, 3)).device.tolist() == [1]


@pytest.mark.slow
def test_active_fl_drops_the_smallest_valuations_and_explores():
    policy = ActiveFL(
        draws=4, power=make_policy("active-fl", uplink=LINK, draws=4).power, explore=0.25
    )
    state = policy.observe(policy.init(16), learned(range(16), np.arange(16.0)))
    counts = np.zeros(16)
    for t in range(3000):
        counts[members(policy, np.ones(16), state, told(t, 16)).device] += 1 / 3000
    # 4 are not dropped, of which 3 are drawn; the fourth place is for anybody who is left.
    assert counts[:12] == pytest.approx(np.full(12, 1 / 13), abs=0.025)
    assert counts[12:].sum() == pytest.approx(3 + 1 / 13, abs=0.05)
    # Odds by the softmax: e^(0.01 sqrt(500) v).
    assert counts[15] > counts[12]


def test_oort_explores_the_fastest_first_and_then_prefers_useful_devices():
    policy = make_policy("oort", uplink=LINK, draws=2)
    gain = np.array([0.1, 1.0, 10.0, 100.0, 30.0])
    # epsilon = 0.9 at first: both places are for new devices, the fastest.
    assert members(policy, gain, policy.init(5), told(0, 5)).device.tolist() == [3, 4]
    state = policy.observe(policy.init(5), learned(range(5), [1.0, 1.0, 1.0, 9.0, 9.0]))
    chosen = [members(policy, gain, state, told(t, 5)).device.tolist() for t in range(50)]
    assert all(each == [3, 4] for each in chosen)


def test_oort_takes_slow_devices_less_than_their_utility_says():
    # Equally useful, but one uploads at a crawl: its score is far below the cut-off.
    policy = make_policy("oort", uplink=LINK, draws=1)
    gain = np.array([0.001, 10.0, 10.0, 10.0])
    state = policy.observe(policy.init(4), learned(range(4), [9.0, 9.0, 9.0, 1.0]))
    chosen = {members(policy, gain, state, told(t, 4)).device[0] for t in range(100)}
    assert chosen == {1, 2}
    bold = replace(policy, penalty=0.0)
    assert 0 in {members(bold, gain, state, told(t, 4)).device[0] for t in range(100)}


def test_the_utility_of_oort_is_samples_times_the_root_of_the_mean_squared_loss():
    shares = np.array([0.1, 0.2, 0.7])
    policy = make_policy("oort", uplink=LINK, draws=2, data_weight=shares)
    seen = Experience(
        device=np.array([0, 2]), loss=np.array([2.0, 1.0]), square_loss=np.array([9.0, 1.0]),
        norm=np.ones(2), update=None, weight=np.ones(2),
    )  # fmt: skip
    utility = policy.observe(policy.init(3), seen)["utility"]
    # In units of the mean number of samples: 3 devices x share x root of the mean square.
    assert utility[[0, 2]] == pytest.approx([3 * 0.1 * 3.0, 3 * 0.7 * 1.0])
    assert np.isnan(utility[1])


def test_oort_slows_down_for_utility_when_it_stops_growing():
    policy = make_policy("oort", uplink=LINK, draws=2)
    state = policy.init(5)
    percentiles = []
    for t in range(41):
        decision, state = policy.decide(observed(np.ones(5), t), state)
        cohort = decision.cohort
        state = policy.observe(state, learned(cohort.device, np.full(cohort.size, 1.0)))
        percentiles.append(float(state["percentile"]))
    # The first window gathers more than none; the second gathers no more than the first.
    assert percentiles[18] == percentiles[20] == 10.0
    assert percentiles[40] == 15.0


def test_oort_does_not_count_rounds_that_reach_nobody():
    policy = make_policy("oort", uplink=LINK, draws=2)
    state = policy.init(5)
    for t in range(3):
        decision, state = policy.decide(observed(np.full(5, np.nan), t), state)
        cohort = decision.cohort
        state = policy.observe(state, learned(cohort.device, np.empty(0)))
    assert float(state["percentile"]) == 10.0
