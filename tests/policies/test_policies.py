import math

import numpy as np
import pytest
from tests.policies.observing import observed, system

from fedsched.errors import InputError, UnknownNameError
from fedsched.policies import POLICIES, Full, Lyapunov, Uniform, make_policy
from fedsched.policies.designs import AbstractDesign, FixedSize, Independent, WithReplacement
from fedsched.randomness import stream
from fedsched.solve.power import optimal_power
from fedsched.solve.uplink import PAPER_UPLINK, Uplink

DEVICES = 12
# A lower peak than the paper's, so that queues settle within a few hundred rounds.
LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=100.0)
SHARES = np.arange(1.0, DEVICES + 1) / np.arange(1.0, DEVICES + 1).sum()
DESIGNS = {
    "with-replacement": WithReplacement(4),
    "independent": Independent(4),
    "fixed-size": FixedSize(4),
}


def lyapunov(design, **options):
    given = {"v": 10.0, "lam": 10.0} | options
    shares = given.pop("data_weight", None)
    return Lyapunov(design=design, system=system(LINK, data_weight=shares), **given)


# A new policy is added here, and is tested.
CONTRACT = {
    **{f"lyapunov {name}": lyapunov(design) for name, design in DESIGNS.items()},
    **{f"lyapunov {name} floor": lyapunov(design, qmin=0.02) for name, design in DESIGNS.items()},
    **{
        f"lyapunov {name} shares": lyapunov(design, data_weight=SHARES)
        for name, design in DESIGNS.items()
    },
    "lyapunov as printed": lyapunov(WithReplacement(4), as_printed=True),
    **{
        f"uniform {name}": Uniform(design=design, system=system(LINK))
        for name, design in DESIGNS.items()
    },
    "uniform shares": Uniform(design=FixedSize(4), system=system(LINK, data_weight=SHARES)),
    "full": Full(system=system(LINK)),
    "full shares": Full(system=system(LINK, data_weight=SHARES)),
}


@pytest.fixture(params=CONTRACT.values(), ids=CONTRACT.keys())
def policy(request):
    return request.param


def gains(t, missing=0.3):
    """Rayleigh fading over two decades, with some devices out of reach."""
    rng = stream(1, "channel", t)
    gain = np.geomspace(0.1, 10.0, DEVICES) * rng.exponential(size=DEVICES) + 1e-3
    return np.where(rng.random(DEVICES) < missing, np.nan, gain)


def run(policy, rounds, state=None, first=0):
    """Decisions, cohorts and the state after some rounds."""
    state = policy.init(DEVICES) if state is None else state
    decisions, cohorts = [], []
    for t in range(first, first + rounds):
        decision, state = policy.decide(observed(gains(t), t), state)
        decisions.append(decision)
        cohorts.append(decision.cohort)
    return decisions, cohorts, state


def same(one, other):
    return len(one) == len(other) and all(
        a.device.tolist() == b.device.tolist() and a.weight.tolist() == b.weight.tolist()
        for a, b in zip(one, other, strict=True)
    )


def test_probabilities_and_powers_are_within_their_limits(policy):
    for t, decision in enumerate(run(policy, 30)[0]):
        reachable = ~np.isnan(gains(t))
        q = decision.probability
        assert np.all((q[reachable] > 0.0) & (q[reachable] <= 1.0))
        assert np.all(q[~reachable] == 0.0)
        power = decision.power_w[reachable]
        assert np.all((power > 0.0) & (power <= LINK.max_power_w))
        assert decision.residual <= 1e-9
        assert np.isfinite(decision.power_w).all()


def test_draw_probabilities_belong_to_the_probabilities(policy):
    design = getattr(policy, "design", None)
    for decision in run(policy, 10)[0]:
        omega = decision.draw_probability
        if isinstance(design, WithReplacement):
            assert omega.sum() == pytest.approx(1.0, abs=1e-12)
            wanted = -np.expm1(4 * np.log1p(-omega))
            assert decision.probability == pytest.approx(wanted, rel=1e-9, abs=1e-15)
        else:
            assert omega is None


def test_a_floor_holds_for_every_reachable_device():
    for name, design in DESIGNS.items():
        free = np.concatenate([d.probability for d in run(lyapunov(design), 30)[0]])
        bound = np.concatenate([d.probability for d in run(lyapunov(design, qmin=0.1), 30)[0]])
        assert free[free > 0.0].min() < 0.09, name
        assert bound[bound > 0.0].min() >= 0.1 * (1.0 - 1e-9), name


def test_members_are_reachable_and_weigh_their_share_over_their_probability(policy):
    shares = policy.system.shares(DEVICES)
    decisions, cohorts, _ = run(policy, 30)
    for t, (decision, cohort) in enumerate(zip(decisions, cohorts, strict=True)):
        assert not np.isnan(gains(t)[cohort.device]).any()
        wanted = shares[cohort.device] / decision.probability[cohort.device]
        assert cohort.weight == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
def test_the_weighted_sum_is_unbiased_over_the_reachable_devices(policy):
    shares = policy.system.shares(DEVICES)
    # The state of a while, not the empty one, and a round in which some are out of reach.
    gain = gains(10)
    state = run(policy, 10)[2]
    value = stream(2, "data").normal(2.0, 1.0, DEVICES)
    wanted = (shares * value)[~np.isnan(gain)].sum()
    estimates = np.empty(3_000)
    for t in range(len(estimates)):
        cohort = policy.decide(observed(gain, t, seed=2), state)[0].cohort
        estimates[t] = (cohort.weight * value[cohort.device]).sum()
    standard_error = estimates.std() / math.sqrt(len(estimates))
    assert estimates.mean() == pytest.approx(wanted, abs=5.0 * standard_error + 1e-12)


def test_neither_gains_nor_state_are_changed(policy):
    _, _, state = run(policy, 5)
    gain = gains(5)
    kept = {name: array.copy() for name, array in state.items()}
    for array in (gain, *state.values()):
        array.setflags(write=False)
    policy.decide(observed(gain), state)
    assert state.keys() == kept.keys()
    for name, array in state.items():
        assert array.tolist() == kept[name].tolist()


def test_a_state_saved_to_a_file_and_restored_goes_on_as_if_nothing_had_happened(policy, tmp_path):
    _, straight, end = run(policy, 20)
    _, before, state = run(policy, 8)
    np.savez(tmp_path / "state.npz", **state)
    with np.load(tmp_path / "state.npz") as file:
        restored = dict(file)
    _, after, again = run(policy, 12, restored, first=8)
    assert same(before + after, straight)
    assert {k: v.tolist() for k, v in again.items()} == {k: v.tolist() for k, v in end.items()}


def test_one_seed_gives_the_same_cohorts(policy):
    assert same(run(policy, 10)[1], run(policy, 10)[1])


def test_a_round_without_anybody_has_an_empty_cohort_and_queues_still_drain(policy):
    _, _, state = run(policy, 5)
    decision, after = policy.decide(observed(np.full(DEVICES, np.nan)), state)
    assert decision.probability.tolist() == [0.0] * DEVICES
    assert decision.cohort.size == 0
    if isinstance(policy, Lyapunov):
        assert state["queue.power"].max() > 1.0
        assert after["queue.power"].tolist() == np.maximum(state["queue.power"] - 1.0, 0.0).tolist()


def test_one_device_in_reach_is_enough(policy):
    gain = np.full(DEVICES, np.nan)
    gain[7] = 1.0
    decision, _ = policy.decide(observed(gain), policy.init(DEVICES))
    assert np.flatnonzero(decision.probability).tolist() == [7]
    assert 0.0 < decision.probability[7] <= 1.0


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, -np.inf])
def test_a_gain_that_is_none_is_refused(policy, bad):
    gain = gains(0)
    gain[3] = bad
    with pytest.raises(InputError, match=r"gain\[3\] must be positive and finite, or NaN"):
        policy.decide(observed(gain), policy.init(DEVICES))


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_queues_hold_the_average_power_to_the_budget(name):
    policy = lyapunov(DESIGNS[name])
    rounds = 500
    spent = {"without": np.zeros(DEVICES), "with": np.zeros(DEVICES)}
    empty = state = policy.init(DEVICES)
    for t in range(rounds):
        gain = gains(t, missing=0.0)
        forgetful, _ = policy.decide(observed(gain, t), empty)
        decision, state = policy.decide(observed(gain, t), state)
        spent["without"] += forgetful.power_w * forgetful.probability / rounds
        spent["with"] += decision.power_w * decision.probability / rounds
    assert spent["without"].max() > 2.0 * policy.system.power.limit  # it binds
    assert spent["with"].max() <= 1.05 * policy.system.power.limit  # it holds


@pytest.mark.parametrize("name", DESIGNS)
def test_the_uniform_policy_spends_the_budget_exactly(name):
    policy = Uniform(design=DESIGNS[name], system=system(LINK))
    decision, _ = policy.decide(observed(gains(0, missing=0.0)), policy.init(DEVICES))
    assert decision.power_w * decision.probability == pytest.approx(1.0, rel=1e-12)


def test_the_uniform_policy_never_exceeds_the_peak():
    policy = Uniform(design=WithReplacement(1), system=system(LINK, 50.0))
    decision, _ = policy.decide(observed(gains(0, missing=0.0)), policy.init(DEVICES))
    assert decision.power_w.tolist() == [100.0] * DEVICES


@pytest.mark.parametrize("as_printed", [False, True])
def test_power_and_price_are_those_of_the_drift_plus_penalty(as_printed):
    design = Independent(1)
    policy = lyapunov(design, as_printed=as_printed)
    queue = np.linspace(0.0, 30.0, DEVICES)
    gain = gains(3, missing=0.0)
    decision, _ = policy.decide(observed(gain), {"queue.power": queue})
    power = optimal_power(
        gain,
        queue,
        cost=10.0 * 10.0 * LINK.bits / LINK.bandwidth_hz,
        noise=LINK.noise_w,
        max_power=LINK.max_power_w,
        as_printed=as_printed,
    )
    price = 10.0 * 10.0 * LINK.airtime_s(gain, power) + queue * power
    assert decision.power_w == pytest.approx(power, rel=1e-12)
    wanted = np.minimum(1.0, np.sqrt(10.0 / DEVICES / price))
    assert decision.probability == pytest.approx(wanted, rel=1e-12)


class Copied(AbstractDesign):
    """A design of somebody else's: it has a problem, and the kernel has no name for it."""

    def __init__(self, design):
        self.design = design

    def solve(self, price, weight, floor):
        return self.design.solve(price, weight, floor)

    def uniform(self, devices):
        return self.design.uniform(devices)

    def members(self, probability, draw_probability, rng):
        return self.design.members(probability, draw_probability, rng)


@pytest.mark.parametrize("shares", [None, SHARES], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_that_the_kernel_does_not_know_decides_the_same(name, shares):
    options = {"qmin": 0.01, "data_weight": shares}
    state = run(lyapunov(DESIGNS[name], **options), 20)[2]
    fused, steps = (
        lyapunov(design, **options).decide(observed(gains(20), 20), state)[0]
        for design in (DESIGNS[name], Copied(DESIGNS[name]))
    )
    assert steps.power_w == pytest.approx(fused.power_w, rel=1e-14)
    assert steps.probability == pytest.approx(fused.probability, rel=1e-7)
    assert steps.cohort.device.tolist() == fused.cohort.device.tolist()


def test_the_printed_power_is_lower():
    ours, printed = (
        lyapunov(Independent(1), as_printed=flag).decide(
            observed(gains(3, missing=0.0)), {"queue.power": np.full(DEVICES, 30.0)}
        )[0]
        for flag in (False, True)
    )
    assert np.all(printed.power_w < ours.power_w)


@pytest.mark.parametrize("name", DESIGNS)
def test_equal_shares_are_the_default(name):
    equal = lyapunov(DESIGNS[name], data_weight=np.full(DEVICES, 1.0 / DEVICES))
    for given, default in zip(run(equal, 10)[0], run(lyapunov(DESIGNS[name]), 10)[0], strict=True):
        assert given.probability == pytest.approx(default.probability, rel=1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_larger_share_of_the_data_takes_part_more_often(name):
    gain = np.ones(DEVICES)
    policy = lyapunov(DESIGNS[name], data_weight=SHARES)
    decision, _ = policy.decide(observed(gain), {"queue.power": np.full(DEVICES, 20.0)})
    assert np.all(np.diff(decision.probability) > 0.0)


def test_the_shares_given_are_copied():
    shares = SHARES.copy()
    policy = lyapunov(Independent(1), data_weight=shares)
    shares[0] = 1.0
    assert policy.system.data_weight.tolist() == SHARES.tolist()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"v": 0.0}, "v must be a positive finite number, got 0"),
        ({"v": math.nan}, "v must be a positive finite number, got nan"),
        ({"lam": -1.0}, "lam must be a positive finite number, got -1"),
        ({"budget_w": 0.0}, "budget_w must be a positive finite number, got 0"),
        ({"qmin": 1.0}, r"qmin must lie in \[0, 1\), got 1"),
        ({"qmin": -0.1}, r"qmin must lie in \[0, 1\), got -0.1"),
        ({"qmin": math.nan}, r"qmin must lie in \[0, 1\), got nan"),
        ({"data_weight": np.array([0.5, -0.5, 1.0])}, r"data_weight\[1\] must be .*positive"),
        ({"data_weight": np.array([0.5, math.nan])}, r"data_weight\[1\] must be .*got nan"),
        ({"data_weight": np.array([1.0, 2.0])}, "together make 1, got .* sum 3; divide"),
        ({"data_weight": np.full((2, 2), 0.25)}, r"one share per device .*shape \(2, 2\)"),
        ({"draws": 0}, "draws must be a whole number of at least 1, got 0"),
        ({"design": "poisson"}, "design: 'poisson' is not known"),
    ],
)
def test_a_bad_parameter_is_refused_with_a_sentence(options, sentence):
    given = {"uplink": PAPER_UPLINK, "draws": 2} | options
    with pytest.raises(InputError, match=sentence):
        make_policy("lyapunov", **given)


@pytest.mark.parametrize("name", ["full", "uniform"])
def test_a_bad_budget_is_refused_by_the_baselines_too(name):
    with pytest.raises(InputError, match="budget_w must be a positive finite number"):
        make_policy(name, uplink=PAPER_UPLINK, draws=2, budget_w=-1.0)
    with pytest.raises(InputError, match="together make 1"):
        make_policy(name, uplink=PAPER_UPLINK, draws=2, data_weight=np.ones(3))


@pytest.mark.parametrize("name", [name for name in CONTRACT if name.endswith("shares")])
def test_shares_for_another_number_of_devices_are_refused(name):
    policy = CONTRACT[name]
    with pytest.raises(InputError, match="data_weight has 12 values for 3 devices"):
        policy.decide(observed(np.ones(3)), policy.init(3))


def test_gains_for_another_number_of_devices_are_refused():
    policy = lyapunov(Independent(1))
    with pytest.raises(InputError, match=r"gain has shape \(3,\) and the state \(12,\)"):
        policy.decide(observed(np.ones(3)), policy.init(DEVICES))


def test_no_devices_are_refused(policy):
    with pytest.raises(InputError, match="devices must be a whole number of at least 1, got 0"):
        policy.init(0)


def test_a_floor_that_cannot_be_met_is_refused():
    policy = lyapunov(FixedSize(1), qmin=0.5)
    with pytest.raises(InputError, match=r"floor \(qmin\) 0.5 asks too much: 12 devices"):
        policy.decide(observed(np.ones(DEVICES)), policy.init(DEVICES))


@pytest.mark.parametrize("name", POLICIES)
def test_policies_are_made_by_name(name):
    assert make_policy(name, uplink=PAPER_UPLINK, draws=3).name == name


def test_an_unknown_policy_is_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="did you mean 'lyapunov'"):
        make_policy("liapunov", uplink=PAPER_UPLINK, draws=3)
