import numpy as np
import pytest
from tests.policies.observing import answered, observed

from fedsched.errors import InputError
from fedsched.policies import make_policy
from fedsched.policies.norm_based import (
    approximate_probabilities,
    importance_channel_probabilities,
    optimal_sampling_probabilities,
)
from fedsched.randomness import stream
from fedsched.solve.probabilities import fixed_size_probabilities
from fedsched.solve.uplink import Uplink

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def test_optimal_client_sampling_is_the_water_filling_solution():
    rng = stream(1, "data")
    clipped = 0
    for _ in range(100):
        n = int(rng.integers(2, 30))
        size = int(rng.integers(1, n))
        u = rng.lognormal(0.0, 2.0, n)
        p = optimal_sampling_probabilities(u, size)
        wanted = fixed_size_probabilities(np.ones(n), weight=u**2, size=size).probability
        assert p == pytest.approx(wanted, rel=1e-9)
        assert p.sum() == pytest.approx(size, rel=1e-12)
        clipped += int((p == 1.0).any())
    assert 20 < clipped < 100  # both kinds were tried


def test_the_approximation_ends_at_the_optimum_or_near_it_and_never_above_the_size():
    rng = stream(2, "data")
    for _ in range(100):
        n = int(rng.integers(2, 30))
        size = int(rng.integers(1, n))
        u = rng.lognormal(0.0, 1.0, n)
        p, best = approximate_probabilities(u, size), optimal_sampling_probabilities(u, size)
        assert np.all((p > 0.0) & (p <= 1.0))
        assert p.sum() <= size * (1.0 + 1e-12)
        assert (u**2 / p).sum() <= 1.2 * (u**2 / best).sum()
    # By hand: 3 u / 53 = (0.057, 0.113, 1, 1); what is left of 3 goes to the first two.
    by_hand = approximate_probabilities(np.array([1.0, 2.0, 20.0, 30.0]), 3)
    assert by_hand == pytest.approx([1 / 3, 2 / 3, 1.0, 1.0])
    assert approximate_probabilities(u, size, passes=50) == pytest.approx(best, rel=1e-9)
    assert optimal_sampling_probabilities(np.ones(3), 3).tolist() == [1.0] * 3
    assert approximate_probabilities(np.ones(3), 5).tolist() == [1.0] * 3


def test_importance_and_channel_probabilities_beat_a_grid_and_have_their_limits():
    u, t = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 1.0])
    scaled = u / u.mean() / 3

    def objective(p, rho):
        return rho * (scaled**2 / p).sum() + (1 - rho) * (p * t).sum()

    step = 1 / 200
    grid = [
        np.array([a, b, 1.0 - a - b])
        for a in np.arange(step, 1, step)
        for b in np.arange(step, 1 - a - step / 2, step)
    ]
    for rho in (0.2, 0.8):
        p = importance_channel_probabilities(u, t, rho=rho)
        lowest = min(objective(each, rho) for each in grid)
        assert lowest * (1 - 1e-3) <= objective(p, rho) <= lowest * (1 + 1e-9)
    # Variance alone: in proportion to the norms.
    alone = importance_channel_probabilities(u, t, rho=1 - 1e-9)
    assert alone == pytest.approx(u / u.sum(), rel=1e-6)
    assert importance_channel_probabilities(u[:1], t[:1], rho=0.5).tolist() == [1.0]


def test_devices_with_a_larger_norm_or_a_better_channel_are_drawn_more_often():
    policy = make_policy("importance-channel", uplink=LINK, draws=1, rho=0.5)
    told = observed([1.0, 1.0, 50.0], answers=answered(range(3), [1.0, 3.0, 1.0]))
    decision, _ = policy.decide(told, policy.init(3))
    q = decision.probability
    assert q.sum() == pytest.approx(1.0)
    assert q[1] > q[0] < q[2]


def test_devices_that_report_nothing_or_zero_keep_a_chance():
    policy = make_policy("ocs", uplink=LINK, draws=1)
    told = observed(np.ones(3), answers=answered([0, 1], [2.0, 0.0]))
    decision, _ = policy.decide(told, policy.init(3))
    assert np.all(decision.probability > 0.0)
    assert decision.probability[0] == pytest.approx(1.0, abs=1e-6)
    nothing = observed(np.ones(3), answers=answered(range(3), np.zeros(3)))
    decision, _ = policy.decide(nothing, policy.init(3))
    assert decision.probability == pytest.approx(np.full(3, 1 / 3))


def test_the_norm_threshold_lets_large_updates_through_and_follows_what_it_hears():
    policy = make_policy("norm-threshold", uplink=LINK, draws=2, data_weight=np.arange(1, 6) / 15)
    state = policy.init(5)

    def heard(*norm):
        told = observed(np.ones(5), answers=answered(range(5), norm))
        decision, after = policy.decide(told, state)
        cohort = decision.cohort
        return cohort.device.tolist(), cohort.weight.tolist(), after

    # No threshold yet: the second largest norm. The average over those that send.
    device, weight, state = heard(1.0, 5.0, 3.0, 4.0, 2.0)
    assert (device, weight) == ([1, 3], [2 / 6, 4 / 6])
    assert state["threshold"] == 4.0
    # Three are above; of what was heard the second largest is the next threshold.
    device, _, state = heard(9.0, 4.5, 6.0, 1.0, 1.0)
    assert device == [0, 1, 2]
    assert state["threshold"] == 6.0
    # One of two: half of a step down, and with nobody a whole step.
    device, _, state = heard(1.0, 1.0, 1.0, 1.0, 6.0)
    assert device == [4]
    assert state["threshold"] == pytest.approx(6.0 / 1.1**0.5)
    device, weight, state = heard(1.0, 1.0, 1.0, 1.0, 1.0)
    assert (device, weight) == ([], [])
    assert state["threshold"] == pytest.approx(6.0 / 1.1**1.5)


@pytest.mark.parametrize(("spread", "shrink"), [(0.1, 1.0), (0.3, 0.97), (1.0, 0.97)])
def test_the_norm_threshold_stays_within_a_factor_of_two_of_the_wanted_size(spread, shrink):
    policy, sizes = make_policy("norm-threshold", uplink=LINK, draws=10), []
    state = policy.init(100)
    for t in range(100):
        norm = stream(3, "data", t).lognormal(0.0, spread, 100) * shrink**t
        told = observed(np.ones(100), answers=answered(range(100), norm))
        decision, state = policy.decide(told, state)
        sizes.append(decision.cohort.size)
    assert 5.0 < np.mean(sizes) < 20.0


def test_a_bad_trade_off_is_refused():
    with pytest.raises(InputError, match=r"rho must lie in \(0, 1\), got 1.5"):
        make_policy("importance-channel", uplink=LINK, draws=2, rho=1.5)
