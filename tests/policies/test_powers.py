from dataclasses import dataclass

import numpy as np
import pytest
from tests.policies.observing import observed, system

from fedsched.errors import InputError, UnknownNameError
from fedsched.policies import AveragePower, Lyapunov, make_policy, make_power
from fedsched.policies.designs import Independent
from fedsched.policies.powers import AbstractPower, ExactPower, QueuePower
from fedsched.policies.pricing import Pricing
from fedsched.randomness import stream
from fedsched.solve.power import optimal_power
from fedsched.solve.uplink import PAPER_UPLINK, Uplink

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def sent(power_w):
    return system(LINK).plan(np.ones(len(power_w)), power_w)


def rule(name, **options):
    given = {"system": system(LINK), "v": 10.0, "lam": 10.0, "draws": 2}
    return make_power(name, **(given | options))


def test_the_queue_for_a_power_gives_that_power_back():
    gain, power = np.geomspace(1e-3, 1e3, 20), np.geomspace(0.1, 30.0, 20)
    queue = AveragePower(1.0).queue_for(gain, power, cost=100.0, noise=2.0)
    again = optimal_power(gain, queue, cost=100.0, noise=2.0, max_power=40.0)
    assert again == pytest.approx(power, rel=1e-9)
    pricing = Pricing(system=system(LINK), v=1.0, lam=1.0)
    kept = pricing.queues(np.ones(2), {"queue.power": np.array([3.0, np.nan])}, 1.0)["power"]
    assert kept[0] == 3.0
    assert kept[1] > 0.0


def test_constant_power_is_that_of_the_uniform_policy_where_the_frequency_is_known():
    power = rule("constant")
    state = power.init(8)
    gain, q = np.ones(8), np.full(8, 0.25)
    for _ in range(200):
        w = power.offered_w(gain, state)
        assert w == pytest.approx(np.full(8, 4.0), rel=1e-9)  # Pbar N / m, from the first round
        state = power.advance(state, gain, sent(w), q)


def test_constant_power_follows_the_frequency_within_the_account():
    power, rng = rule("constant"), stream(1, "data")
    state, gain = power.init(3), np.ones(3)
    spent = np.zeros(3)
    for t in range(3000):
        # Often, seldom, and in bursts.
        chosen = np.array([rng.random() < 0.5, rng.random() < 0.05, t % 1000 > 950], float)
        w = power.allowed_w(power.offered_w(gain, state), state, chosen)
        spent += w * chosen
        state = power.advance(state, gain, sent(w), chosen)
        assert np.all(spent <= t + 1.5 + 1e-9)  # N / m = 1.5 at first, and 1 a round
        assert spent + state["saved"] == pytest.approx(t + 2.5)
    steady = power.offered_w(gain, state)
    assert steady[:2] == pytest.approx([2.0, 20.0], rel=0.15)
    assert np.all(spent >= 0.85 * 3000)


def test_what_an_account_holds_is_shared_out_by_the_probability():
    power = rule("constant")
    state = {**power.init(4), "saved": np.array([2.0, 2.0, 2.0, 0.5])}
    w = power.allowed_w(np.full(4, 8.0), state, np.array([0.0, 0.1, 1.0, 0.5]))
    assert w.tolist() == [8.0, 8.0, 2.0, 1.0]


def test_exact_power_spends_the_budget_in_the_very_round():
    power = ExactPower(system=system(LINK, 2.0))
    gain = np.array([1.0, 1.0, 1.0, np.nan])
    first = power.offered_w(gain, {})
    assert first.tolist() == [2.0, 2.0, 2.0, 0.0]
    w = power.allowed_w(first, {}, np.array([0.5, 1.0, 0.01, 0.0]))
    assert w.tolist() == [4.0, 2.0, 40.0, 0.0]
    assert power.init(4) == power.advance({}, gain, sent(w), w) == {}


def after_rounds(rounds, v, gain):
    """The queue of a device that is always chosen, round by round."""
    power = QueuePower(system=system(LINK), v=v, lam=10.0)
    state, queue = {"queue.power": np.zeros(1)}, []
    for _ in range(rounds):
        w = power.offered_w(gain, state)
        state = power.advance(state, gain, sent(w), np.ones(1))
        queue.append(float(state["queue.power"][0]))
    return queue, w


@pytest.mark.slow
def test_no_queue_passes_the_longest_and_both_of_its_terms_are_reached():
    gain = np.array([0.3])
    limits = {"max_power_w": 40.0, "noise": 1.0}
    # Where V is large the queue climbs to where the power is the budget, the first term.
    longest = AveragePower(1.0).longest_queue(0.3, cost=50.0, **limits)
    queue, w = after_rounds(3000, 5.0, gain)
    assert max(queue) <= longest
    assert queue[-1] == pytest.approx(longest - 39.0, rel=1e-4)
    assert w == pytest.approx([1.0], rel=1e-3)
    # Where V is small that is next to nothing, and one round at the peak is all there is.
    longest = AveragePower(1.0).longest_queue(0.3, cost=0.005, **limits)
    queue, _ = after_rounds(3000, 0.0005, gain)
    assert max(queue) <= longest
    assert max(queue) == pytest.approx(longest, rel=1e-3)


@dataclass(frozen=True, kw_only=True)
class Noting(AbstractPower):
    """Sends at the budget, and remembers the last gains."""

    def init(self, devices):
        return {"last_gain": np.zeros(devices)}

    def offered_w(self, gain, state):
        del state
        return np.where(np.isnan(gain), 0.0, self.system.power.limit)

    def advance(self, state, gain, plan, probability, round_s=0.0):
        del state, plan, probability, round_s
        return {"last_gain": gain}


def test_a_power_rule_of_the_lyapunov_policy_is_told_the_gains():
    policy = Lyapunov(
        design=Independent(2), system=system(LINK), v=10.0, lam=10.0,
        power=Noting(system=system(LINK)),
    )  # fmt: skip
    for gain in (np.array([0.5, 5.0, np.nan]), np.full(3, np.nan)):
        _, state = policy.decide(observed(gain), policy.init(3))
        assert np.array_equal(state["last_gain"], gain, equal_nan=True)


def test_a_power_rule_with_queues_of_its_own_is_refused_by_the_lyapunov_policy():
    own = QueuePower(system=system(LINK), v=10.0, lam=10.0)
    with pytest.raises(InputError, match="power: QueuePower keeps queues of its own"):
        Lyapunov(design=Independent(2), system=system(LINK), v=10.0, lam=10.0, power=own)


def test_queues_begin_at_the_power_of_uniform_participation():
    power = rule("queue")
    gain = np.array([0.5, 5.0, np.nan, 50.0])
    state = power.init(4)
    w = power.offered_w(gain, state)
    assert w == pytest.approx([2.0, 2.0, 0.0, 2.0])
    after = power.advance(state, gain, sent(w), np.array([1.0, 0.0, 0.0, 0.0]))
    assert np.isnan(after["queue.power"][2])  # it begins when it is first seen
    begun = AveragePower(1.0).queue_for(gain, 2.0, cost=100.0, noise=1.0)
    assert after["queue.power"][[0, 1]] == pytest.approx(begun[[0, 1]] + [1.0, -1.0])


def test_an_unknown_rule_is_refused():
    with pytest.raises(UnknownNameError, match="power: 'loud' is not known"):
        rule("loud")


def test_a_start_at_the_budget_avoids_the_jump_of_the_first_round():
    gain = stream(1, "channel").exponential(size=100) * np.linspace(0.1, 10.0, 100) ** 2 + 1e-3
    jumps = {}
    for start in ("empty", "budget"):
        policy = make_policy("lyapunov", uplink=PAPER_UPLINK, draws=10, start=start)
        decision, state = policy.decide(observed(gain), policy.init(100))
        jumps[start] = float((decision.power_w * decision.probability).max())
        assert np.isfinite(state["queue.power"]).all()
    assert jumps["empty"] > 1000.0
    assert jumps["budget"] < 20.0


@pytest.mark.parametrize("as_printed", [False, True])
def test_a_start_at_the_budget_has_the_power_of_the_uniform_policy(as_printed):
    gain = np.array([0.5, 1.0, 2.0, 4.0])
    policy = make_policy("lyapunov", uplink=LINK, draws=1, start="budget", as_printed=as_printed)
    decision, _ = policy.decide(observed(gain), policy.init(4))
    assert decision.power_w == pytest.approx(np.full(4, 4.0))


@pytest.mark.parametrize("name", ["queue", "constant"])
def test_a_rule_refuses_what_would_make_its_powers_nan(name):
    with pytest.raises(InputError, match="draws must be a whole number of at least 1, got 0"):
        rule(name, draws=0)
    for field in ("v", "lam") if name == "queue" else ():
        with pytest.raises(InputError, match=f"{field} must be a positive finite number, got 0"):
            rule(name, **{field: 0.0})


def test_a_start_at_the_budget_is_within_the_peak():
    # Uniform participation would have 50 W; the link has a peak of 40 W.
    policy = make_policy("lyapunov", uplink=LINK, draws=1, design="independent", start="budget")
    gain = np.full(50, 2.0)
    decision, state = policy.decide(observed(gain), policy.init(50))
    cost = 100.0 * 100.0 * LINK.bits / LINK.bandwidth_hz
    begun = AveragePower(1.0).queue_for(gain, LINK.max_power_w, cost=cost, noise=1.0)
    moved = begun + decision.power_w * decision.probability - 1.0
    assert state["queue.power"] == pytest.approx(moved, rel=1e-9)


def test_a_scaled_v_makes_powers_independent_of_lambda():
    gain, state = np.geomspace(0.1, 10.0, 8), {"queue.power": np.linspace(1.0, 9.0, 8)}
    powers = [
        make_policy("lyapunov", uplink=LINK, draws=2, lam=lam, v=7.0, scale_v=True)
        .decide(observed(gain), state)[0]
        .power_w
        for lam in (1.0, 100.0)
    ]
    assert powers[0] == pytest.approx(powers[1], rel=1e-12)
    plain = make_policy("lyapunov", uplink=LINK, draws=2, lam=1.0, v=7.0).decide(
        observed(gain), state
    )[0]
    assert np.all(plain.power_w < 0.5 * powers[0])
