import numpy as np
import pytest

from fedsched.core.power import optimal_power
from fedsched.core.uplink import PAPER_UPLINK, Uplink
from fedsched.errors import UnknownNameError
from fedsched.randomness import stream
from fedsched.scheduling.policies import make_policy, make_power
from fedsched.scheduling.policies.powers import (
    ExactPower,
    QueuePower,
    fill_queue,
    longest_queue,
    queue_for_power,
)

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def rule(name, **options):
    given = {"uplink": LINK, "budget_w": 1.0, "v": 10.0, "lam": 10.0, "draws": 2}
    return make_power(name, **(given | options))


def test_the_queue_for_a_power_gives_that_power_back():
    gain, power = np.geomspace(1e-3, 1e3, 20), np.geomspace(0.1, 30.0, 20)
    queue = queue_for_power(gain, power, cost=100.0, noise=2.0)
    again = optimal_power(gain, queue, cost=100.0, noise=2.0, max_power=40.0)
    assert again == pytest.approx(power, rel=1e-9)
    kept = fill_queue(np.array([3.0, np.nan]), np.ones(2), 1.0, cost=1.0, noise=1.0)
    assert kept[0] == 3.0
    assert kept[1] > 0.0


def test_constant_power_is_that_of_the_uniform_policy_where_the_frequency_is_known():
    power = rule("constant")
    state = power.init(8)
    gain, q = np.ones(8), np.full(8, 0.25)
    for _ in range(200):
        w = power.power_w(gain, state)
        assert w == pytest.approx(np.full(8, 4.0), rel=1e-9)  # Pbar N / m, from the first round
        state = power.after(state, gain, w, q)


def test_constant_power_follows_the_frequency_within_the_account():
    power, rng = rule("constant"), stream(1, "data")
    state, gain = power.init(3), np.ones(3)
    spent = np.zeros(3)
    for t in range(3000):
        # Often, seldom, and in bursts.
        chosen = np.array([rng.random() < 0.5, rng.random() < 0.05, t % 1000 > 950], float)
        w = power.settled(power.power_w(gain, state), state, chosen)
        spent += w * chosen
        state = power.after(state, gain, w, chosen)
        assert np.all(spent <= t + 1.5 + 1e-9)  # N / m = 1.5 at first, and 1 a round
        assert spent + state["saved"] == pytest.approx(t + 2.5)
    steady = power.power_w(gain, state)
    assert steady[:2] == pytest.approx([2.0, 20.0], rel=0.15)
    assert np.all(spent >= 0.85 * 3000)


def test_what_an_account_holds_is_shared_out_by_the_probability():
    power = rule("constant")
    state = {**power.init(4), "saved": np.array([2.0, 2.0, 2.0, 0.5])}
    w = power.settled(np.full(4, 8.0), state, np.array([0.0, 0.1, 1.0, 0.5]))
    assert w.tolist() == [8.0, 8.0, 2.0, 1.0]


def test_exact_power_spends_the_budget_in_the_very_round():
    power = ExactPower(uplink=LINK, budget_w=2.0)
    gain = np.array([1.0, 1.0, 1.0, np.nan])
    first = power.power_w(gain, {})
    assert first.tolist() == [2.0, 2.0, 2.0, 0.0]
    w = power.settled(first, {}, np.array([0.5, 1.0, 0.01, 0.0]))
    assert w.tolist() == [4.0, 2.0, 40.0, 0.0]
    assert power.init(4) == power.after({}, gain, w, w) == {}


def test_the_longest_queue_is_reached_and_not_passed():
    # A device that is always chosen, and hears its worst gain when its queue is just below.
    gain, cost = np.array([0.3]), 50.0
    limits = {"budget_w": 1.0, "max_power_w": 40.0, "cost": cost, "noise": 1.0}
    longest = longest_queue(0.3, **limits)
    power = QueuePower(uplink=LINK, budget_w=1.0, v=5.0, lam=10.0)
    state, reached = {"queue": np.zeros(1)}, 0.0
    for _ in range(3000):
        w = power.power_w(gain, state)
        state = power.after(state, gain, w, np.ones(1))
        reached = max(reached, float(state["queue"][0]))
    assert 0.5 * longest < reached <= longest
    assert w == pytest.approx([1.0], rel=1e-3)  # there the power is the budget


def test_queues_begin_at_the_power_of_uniform_participation():
    power = rule("queue")
    gain = np.array([0.5, 5.0, np.nan, 50.0])
    state = power.init(4)
    w = power.power_w(gain, state)
    assert w == pytest.approx([2.0, 2.0, 0.0, 2.0])
    after = power.after(state, gain, w, np.array([1.0, 0.0, 0.0, 0.0]))
    assert np.isnan(after["queue"][2])  # it begins when it is first seen
    begun = fill_queue(state["queue"], gain, 2.0, cost=100.0, noise=1.0)
    assert after["queue"][[0, 1]] == pytest.approx(begun[[0, 1]] + [1.0, -1.0])


def test_an_unknown_rule_is_refused():
    with pytest.raises(UnknownNameError, match="power: 'loud' is not known"):
        rule("loud")


def test_a_start_at_the_budget_avoids_the_jump_of_the_first_round():
    gain = stream(1, "channel").exponential(size=100) * np.linspace(0.1, 10.0, 100) ** 2 + 1e-3
    jumps = {}
    for start in ("empty", "budget"):
        policy = make_policy("lyapunov", uplink=PAPER_UPLINK, draws=10, start=start)
        decision, state = policy.decide(gain, policy.init(100))
        jumps[start] = float((decision.power_w * decision.probability).max())
        assert np.isfinite(state["queue"]).all()
    assert jumps["empty"] > 1000.0
    assert jumps["budget"] < 20.0


def test_a_scaled_v_makes_powers_independent_of_lambda():
    gain, state = np.geomspace(0.1, 10.0, 8), {"queue": np.linspace(1.0, 9.0, 8)}
    powers = [
        make_policy("lyapunov", uplink=LINK, draws=2, lam=lam, v=7.0, scale_v=True)
        .decide(gain, state)[0]
        .power_w
        for lam in (1.0, 100.0)
    ]
    assert powers[0] == pytest.approx(powers[1], rel=1e-12)
    plain = make_policy("lyapunov", uplink=LINK, draws=2, lam=1.0, v=7.0).decide(gain, state)[0]
    assert np.all(plain.power_w < 0.5 * powers[0])
