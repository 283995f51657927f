"""One contract for every policy of the registry, with either power rule."""

import itertools
import math

import numpy as np
import pytest
from tests.policies.observing import answered, observed

from fedsched.errors import InputError
from fedsched.policies import (
    POLICIES,
    POWERS,
    AbstractPolicy,
    AveragePower,
    Need,
    make_policy,
    policy_info,
    reads_of,
)
from fedsched.randomness import stream
from fedsched.solve.uplink import Uplink
from fedsched.values import Experience

DEVICES, DRAWS, DIMENSION = 12, 4, 5
# A low peak, so that queues settle within a few hundred rounds.
LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)
SHARES = np.arange(1.0, DEVICES + 1) / np.arange(1.0, DEVICES + 1).sum()
EVERYBODY = ("full", "fdma-energy", "incomplete-work")
NEW = [name for name in POLICIES if name not in (*EVERYBODY, "uniform", "lyapunov", "auto")]
RULED = [name for name in POLICIES if "power" in reads_of(name, None)]  # it has a power rule
LOSING = [name for name in POLICIES if name.startswith(("sinr-", "resource-"))]
UNBIASED = [name for name in POLICIES if not policy_info(name).biased]


def made(name, **options):
    given = {"uplink": LINK, "draws": DRAWS, "v": 10.0, "lam": 10.0, "budget_w": 1.0}
    return make_policy(name, **(given | options))


def gains(t, missing=0.3):
    rng = stream(1, "channel", t)
    gain = np.geomspace(0.1, 10.0, DEVICES) * rng.exponential(size=DEVICES) + 1e-3
    return np.where(rng.random(DEVICES) < missing, np.nan, gain)


def values(devices, t):
    """What devices answer: device n has a loss and a norm about n + 1."""
    return (devices + 1.0) * (1.0 + 0.1 * stream(3, "data", t).random(DEVICES)[devices])


def decide(policy, gain, state, t, seed=1, answers_of=None):
    """One decision with whatever the policy wants to know."""
    question = policy.ask(observed(gain, t, seed=seed), state)
    answers = answered(question.device, values(question.device, answers_of or t))
    return policy.decide(observed(gain, t, seed=seed, answers=answers), state)


def observe(policy, state, cohort, t):
    value = values(cohort.device, t)
    update = np.outer(value, np.linspace(1.0, 2.0, DIMENSION)).astype(np.float32)
    kept = update if Need.UPDATE in policy.needs and cohort.size else None
    seen = Experience(
        device=cohort.device, loss=value, square_loss=value**2, norm=value, update=kept,
        weight=cohort.weight,
    )  # fmt: skip
    return policy.observe(state, seen)


def run(policy, rounds, state=None, first=0, missing=0.3):
    state = policy.init(DEVICES) if state is None else state
    decisions, cohorts = [], []
    for t in range(first, first + rounds):
        decision, state = decide(policy, gains(t, missing), state, t)
        state = observe(policy, state, decision.cohort, t)
        decisions.append(decision)
        cohorts.append(decision.cohort)
    return decisions, cohorts, state


def frozen(state):
    return {name: array.tobytes() for name, array in state.items()}


CASES = [
    # It solves a problem of its own in every round, with both power rules.
    pytest.param(case, marks=pytest.mark.slow if case[0] == "fdma-energy" else (), id=str(case))
    for case in itertools.product(POLICIES, POWERS)
]


@pytest.fixture(params=CASES)
def policy(request):
    name, power = request.param
    return made(name, power=power)


def test_a_decision_is_probabilities_or_a_declared_choice_and_power_is_within_limits(policy):
    decisions, cohorts, _ = run(policy, 30)
    for t, (decision, cohort) in enumerate(zip(decisions, cohorts, strict=True)):
        reachable = ~np.isnan(gains(t))
        q = decision.probability
        assert np.all(q[~reachable] == 0.0)
        if decision.deterministic:
            assert set(q.tolist()) <= {0.0, 1.0}
            assert np.flatnonzero(q).tolist() == cohort.device.tolist()
        else:
            assert np.all((q[reachable] > 0.0) & (q[reachable] <= 1.0))
        power = decision.power_w[reachable]
        assert np.all((power > 0.0) & (power <= LINK.max_power_w))
        assert reachable[cohort.device].all()
        assert np.all(np.diff(cohort.device) > 0)
        assert cohort.weight.shape == cohort.device.shape
        lost = cohort.weight == 0.0  # it sent for nothing
        assert np.all(cohort.weight >= 0.0) and (policy.name in LOSING or not lost.any())


def test_gains_state_and_feedback_are_not_changed_and_one_seed_gives_the_same_choices(policy):
    _, cohorts, state = run(policy, 6)
    _, again, other = run(policy, 6)
    assert [c.device.tolist() for c in cohorts] == [c.device.tolist() for c in again]
    assert [c.weight.tolist() for c in cohorts] == [c.weight.tolist() for c in again]
    assert frozen(state) == frozen(other)
    before, gain = frozen(state), gains(6)
    for array in (gain, *state.values()):
        array.setflags(write=False)
    decision, after = decide(policy, gain, state, 6)
    observe(policy, after, decision.cohort, 6)
    assert frozen(state) == before


def test_a_state_saved_and_restored_goes_on_as_if_nothing_had_happened(policy, tmp_path):
    _, straight, end = run(policy, 14)
    _, before, state = run(policy, 6)
    np.savez(tmp_path / "state.npz", **state)
    with np.load(tmp_path / "state.npz") as file:
        restored = dict(file)
    _, after, again = run(policy, 8, restored, first=6)
    assert [c.weight.tolist() for c in before + after] == [c.weight.tolist() for c in straight]
    assert frozen(again) == frozen(end)


def test_nobody_in_reach_is_an_empty_cohort_and_one_device_is_enough(policy):
    state = run(policy, 3)[2]
    decision, state = decide(policy, np.full(DEVICES, np.nan), state, 3)
    assert decision.probability.tolist() == [0.0] * DEVICES
    assert decision.cohort.size == 0
    alone = np.full(DEVICES, np.nan)
    alone[7] = 5.0
    decision, _ = decide(policy, alone, state, 4)
    assert np.flatnonzero(decision.probability).tolist() in ([7], [])


def spending(policy, rounds):
    """What every device has spent after each round, and the queues then if there are any."""
    state, spent, queues = policy.init(DEVICES), [np.zeros(DEVICES)], []
    for t in range(rounds):
        (decision,), _, state = run(policy, 1, state, first=t, missing=0.0)
        spent.append(spent[-1] + decision.power_w * decision.probability)
        queues.append(state.get("queue.power"))
    return np.array(spent), queues


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", POLICIES)
def test_the_budget_binds(name, power):
    # With a budget of 20 W the same policy spends more than twice 1 W: it is the budget that limits
    # it, and neither the peak nor the wish to save.
    rich, _ = spending(made(name, power=power, v=100.0, budget_w=20.0), 100)
    assert rich[-1].max() / 100 > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("name", RULED)
def test_constant_power_is_never_ahead_of_its_budget_by_more_than_one_upload(name):
    spent, _ = spending(made(name, power="constant"), 300)
    rounds, turns = np.arange(301.0), 1.0 if name in EVERYBODY else DEVICES / DRAWS
    most = rounds[1:] + turns - 1.0  # of 1 W a round, and one upload at N/m W in advance
    assert np.all(spent[1:].max(axis=1) <= most * (1.0 + 1e-12))
    # And it does not save for nothing; what fdma-energy saves is its aim.
    assert spent[-1].max() > 0.9 * 300 or name == "fdma-energy"


@pytest.mark.slow
@pytest.mark.parametrize("v", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("name", RULED)
def test_queue_power_exceeds_the_budget_by_no_more_than_the_queue_over_the_rounds(name, v):
    rounds = 120
    spent, queues = spending(made(name, power="queue", v=v), rounds)
    cost = v * 10.0 * LINK.bits / LINK.bandwidth_hz
    longest = AveragePower(1.0).longest_queue(
        min(gains(t, missing=0.0).min() for t in range(rounds)),
        max_power_w=LINK.max_power_w, cost=cost, noise=LINK.noise_w,
    )  # fmt: skip
    for t in range(1, rounds):
        # From round 1 on, as queues may begin with the first gain that is seen.
        ahead = spent[t + 1] - spent[1] - t * 1.0
        assert np.all(ahead <= queues[t] - queues[0] + 1e-9 * (1.0 + queues[t]))
        assert queues[t].max() <= longest * (1.0 + 1e-12)  # which does not grow with the rounds


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in RULED if each != "fdma-energy"])
def test_the_excess_of_queue_power_vanishes_as_rounds_go_by(name):
    spent, queues = spending(made(name, power="queue", v=100.0), 800)
    share = [queues[t - 1].max() / t for t in (50, 200, 800)]
    excess = [spent[t].max() / t - 1.0 for t in (50, 200, 800)]
    assert share[2] < 0.4 * share[1] < 0.16 * share[0]
    assert excess[2] < excess[1] <= share[1] * (1.0 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [None, SHARES], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", UNBIASED)
def test_the_weighted_sum_of_an_unbiased_policy_is_unbiased(name, shares):
    policy = made(name, data_weight=shares)
    share = np.full(DEVICES, 1.0 / DEVICES) if shares is None else shares
    state, gain = run(policy, 10)[2], gains(10)
    value = stream(2, "data").normal(2.0, 1.0, DEVICES)
    wanted = (share * value)[~np.isnan(gain)].sum()
    estimates = np.empty(1500)
    frequency = np.zeros(DEVICES)
    for t in range(len(estimates)):
        # The answers of round 10, the luck of another.
        decision, _ = decide(policy, gain, state, t, seed=9, answers_of=10)
        cohort = decision.cohort
        estimates[t] = (cohort.weight * value[cohort.device]).sum()
        frequency[cohort.device] += 1.0 / len(estimates)
    error = estimates.std() / math.sqrt(len(estimates))
    assert estimates.mean() == pytest.approx(wanted, abs=5.0 * error + 1e-9)
    if name != "clustered-similarity":  # its probabilities are those of each round's bins
        q = decision.probability
        assert frequency == pytest.approx(q, abs=5.0 * 0.5 / math.sqrt(len(estimates)))


def test_the_check_of_bias_can_fail():
    # The best channels alone, averaged, are far from the mean of all.
    policy = made("best-channel")
    cohort = decide(policy, gains(10, missing=0.0), policy.init(DEVICES), 0)[0].cohort
    value = np.arange(DEVICES, dtype=float)
    assert abs((cohort.weight * value[cohort.device]).sum() - value.mean()) > 1.0


@pytest.mark.parametrize("name", NEW)
def test_bad_feedback_is_refused(name):
    policy = made(name)
    state, gain = policy.init(DEVICES), gains(0)
    good = int(np.flatnonzero(~np.isnan(gain))[0])
    away = int(np.flatnonzero(np.isnan(gain))[0])

    def told(device, value):
        return observed(gain, answers=answered(device, value))

    for bad in (math.nan, math.inf, -1.0):
        with pytest.raises(InputError, match=r"answers.value\[0\] must be finite and not neg"):
            policy.decide(told([good], [bad]), state)
    with pytest.raises(InputError, match=r"answers.device must name one of 12 devices"):
        policy.decide(told([99], [1.0]), state)
    with pytest.raises(InputError, match=r"answers.device must name one of 12 devices"):
        policy.decide(told([good], [1.0, 2.0]), state)
    with pytest.raises(InputError, match=r"answers.device names a device out of reach"):
        policy.decide(told([away], [1.0]), state)
    if Need.CURRENT in policy.needs:
        with pytest.raises(InputError, match="cannot decide on gains alone"):
            policy.decide(observed(gain), state)


@pytest.mark.parametrize("name", NEW)
def test_gains_that_are_none_and_other_numbers_of_devices_are_refused(name):
    policy = made(name)
    gain = gains(0, missing=0.0)
    gain[3] = 0.0
    with pytest.raises(InputError, match=r"gain\[3\] must be positive and finite"):
        decide(policy, gain, policy.init(DEVICES), 0)
    with pytest.raises(InputError, match=r"gain has shape \(3,\) and the state \(12,\)"):
        decide(policy, np.ones(3), policy.init(DEVICES), 0)
    with pytest.raises(InputError, match="devices must be a whole number of at least 1, got 0"):
        policy.init(0)
    with pytest.raises(InputError, match="draws must be a whole number of at least 1, got 0"):
        made(name, draws=0)


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_policy_declares_is_what_it_does(name):
    policy, info = made(name), policy_info(name)
    assert policy.name == name
    assert policy.needs == info.needs
    question = policy.ask(observed(gains(0)), policy.init(DEVICES))
    assert (len(question.device) > 0) == (Need.CURRENT in policy.needs)
    learns = type(policy).observe is not AbstractPolicy.observe
    assert learns or Need.STALE not in policy.needs
    decisions = run(policy, 5)[0]
    assert len({decision.deterministic for decision in decisions}) == 1
    assert not any(decision.deterministic for decision in decisions) or info.biased


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", POLICIES)
def test_state_that_is_not_declared_as_shared_has_a_row_for_each_device(name, power):
    policy = made(name, power=power)
    state = run(policy, 3)[2]
    assert policy.shared_state <= state.keys()
    for entry, array in state.items():
        if entry not in policy.shared_state:
            assert array.shape[:1] == (DEVICES,), entry
        else:
            assert array.shape[:1] != (DEVICES,), entry
