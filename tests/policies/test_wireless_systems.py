"""Systems in which uploads fail, or whose participation nobody knows: small cases by hand."""

import itertools
import math

import numpy as np
import pytest
from tests.policies.observing import observed

from fedsched.errors import InputError
from fedsched.policies import System, make_policy
from fedsched.policies.choice import chance_of
from fedsched.policies.powers import TrackedPower
from fedsched.policies.wireless_systems import ResourceBlocks, assigned_blocks, packet_error
from fedsched.solve.uplink import RateLink, Uplink

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def most(value):
    """The largest sum of an assignment, over all of them."""
    rows, columns = value.shape
    tall = value if rows >= columns else value.T
    orders = itertools.permutations(range(tall.shape[0]), tall.shape[1])
    return max(sum(tall[row, place] for place, row in enumerate(order)) for order in orders)


def test_an_assignment_is_the_best_of_all():
    rng = np.random.default_rng(4)
    for rows, columns in ((4, 3), (3, 3), (2, 4)):
        for _ in range(30):
            value = np.maximum(rng.normal(0.5, 1.0, (rows, columns)), 0.0)
            row, column = assigned_blocks(value)
            assert len(set(row)) == len(row) and len(set(column)) == len(column)
            assert value[row, column].sum() == pytest.approx(most(value), abs=1e-12)
            assert np.all(value[row, column] > 0.0)


def blocks(**limits):
    power = TrackedPower(system=System(link=LINK), draws=2)
    return ResourceBlocks(draws=2, power=power, interference=(0.0, 9.0), **limits)


def test_blocks_go_where_most_data_arrive():
    gain = np.array([8.0, 2.0, 0.01])
    policy = blocks()
    decision, _ = policy.decide(observed(gain), policy.init(3))
    # Each begins with P = 1 W x 3 / 2; on one of two blocks the noise is a half.
    assert decision.power_w.tolist() == [1.5, 1.5, 1.5]
    snr = 2.0 * 1.5 * gain
    error = packet_error(snr, np.array([0.0, 9.0]))
    assert error[0, 1] == pytest.approx(1.0 - math.exp(-1.08 * 10.0 / 24.0))
    worth = (1.0 - error) / 3.0
    # By hand: device 0 can bear the interference, device 1 cannot.
    assert worth[0, 1] + worth[1, 0] > worth[0, 0] + worth[1, 1]
    assert decision.cohort.device.tolist() == [0, 1]
    assert worth[0, 1] + worth[1, 0] == pytest.approx(most(worth))


def test_an_update_is_lost_with_its_packet_error_and_the_others_are_averaged():
    gain, policy = np.array([8.0, 2.0, 0.01]), blocks()
    error = packet_error(2.0 * 1.5 * gain, np.array([0.0, 9.0]))
    lost = np.zeros(3)
    for t in range(600):
        decision, _ = policy.decide(observed(gain, t), policy.init(3))
        toss = chance_of(observed(gain, t))[0]
        arrived = np.array([toss[0] >= error[0, 1], toss[1] >= error[1, 0]])
        expected = arrived / max(arrived.sum(), 1)
        assert decision.cohort.weight.tolist() == expected.tolist()
        lost[:2] += ~arrived
    assert lost[:2] / 600 == pytest.approx([error[0, 1], error[1, 0]], abs=0.06)


def test_who_would_be_late_or_spend_too_much_on_a_block_has_none():
    gain = np.array([8.0, 2.0])
    power = 2.0 / 2.0  # 1 W x 2 / 2
    # Half the band takes twice as long: 2 s / log2(1 + snr), the noise being a half.
    noisy_s = 2.0 / np.log2(1.0 + 2.0 * power * gain / 10.0)
    clean_s = 2.0 / np.log2(1.0 + 2.0 * power * gain)
    assert clean_s[0] < clean_s[1] < noisy_s[1] and clean_s[0] < noisy_s[0]

    def members(**limits):
        policy = blocks(**limits)
        return policy.decide(observed(gain), policy.init(2))[0].cohort.device.tolist()

    assert members() == [0, 1]
    between = 0.5 * (clean_s[0] + min(clean_s[1], noisy_s[0]))
    assert members(deadline_s=between) == [0]
    assert members(energy_j=power * between) == [0]
    assert members(deadline_s=0.5 * clean_s[0]) == []


@pytest.mark.parametrize("rule", ["random", "round-robin", "proportional-fair"])
def test_who_is_heard_below_the_threshold_is_lost(rule):
    # P = 1 W x 4 / 4: the ratios are the gains, and 3 dB is 1.995.
    gain = np.array([1.99, 2.0, 50.0, 0.1])
    policy = make_policy(f"sinr-{rule}", uplink=LINK, draws=4, sinr_db=3.0)
    decision, _ = policy.decide(observed(gain), policy.init(4))
    assert decision.cohort.device.tolist() == [0, 1, 2, 3]
    assert decision.cohort.weight.tolist() == [0.0, 0.5, 0.5, 0.0]


@pytest.mark.parametrize("rule", ["round-robin", "proportional-fair"])
def test_with_a_threshold_the_same_devices_take_part(rule):
    plain = make_policy(rule, uplink=LINK, draws=2)
    heard = make_policy(f"sinr-{rule}", uplink=LINK, draws=2, sinr_db=-100.0)
    states = plain.init(5), heard.init(5)
    for t in range(12):
        seen = observed(np.random.default_rng(t).exponential(size=5), t)
        (one, first), (other, second) = plain.decide(seen, states[0]), heard.decide(seen, states[1])
        states = first, second
        assert one.cohort.device.tolist() == other.cohort.device.tolist()
        assert one.cohort.weight.tolist() == other.cohort.weight.tolist()


@pytest.mark.parametrize("name", ["resource-blocks", "sinr-random"])
def test_rates_alone_are_not_enough(name):
    policy = make_policy(name, uplink=RateLink(bits=1e6, max_power_w=1.0), draws=2)
    with pytest.raises(InputError, match="asks how strong signals are, and a RateLink has rates"):
        policy.decide(observed(np.ones(3)), policy.init(3))


def test_intervals_are_counted_as_published():
    """Algorithm 2 in plain Python, device by device."""
    policy = make_policy("fedau", uplink=LINK, draws=1, cutoff=4)
    state, mean, count, waited = policy.init(3), [1.0] * 3, [0] * 3, [0] * 3
    for t in range(60):
        gain = np.array([1.0, 1.0, np.nan if t % 9 else 1.0])  # the third is seldom there
        decision, state = policy.decide(observed(gain, t), state)
        (device,) = decision.cohort.device
        assert decision.cohort.weight[0] == pytest.approx(mean[device] / 3.0, rel=1e-12)
        for n in range(3):
            waited[n] += 1
            if n == device or waited[n] == 4:
                mean[n] = (count[n] * mean[n] + waited[n]) / (count[n] + 1)
                count[n], waited[n] = count[n] + 1, 0
    assert state["mean_interval"] == pytest.approx(mean)
    assert max(mean) <= 4.0


def test_the_mean_interval_becomes_one_over_q():
    policy = make_policy("fedau", uplink=LINK, draws=2)
    state, rng = policy.init(4), np.random.default_rng(1)
    taken = np.zeros(4)
    for t in range(3000):
        here = rng.random(4) < np.array([1.0, 1.0, 0.5, 0.5])
        decision, state = policy.decide(observed(np.where(here, 1.0, np.nan), t), state)
        taken[decision.cohort.device] += 1.0
    assert state["mean_interval"] == pytest.approx(3000 / taken, rel=0.01)
