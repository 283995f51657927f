from itertools import islice, pairwise

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.policies import AbstractPolicy, make_policy
from fedsched.radio import Floored, GaussMarkov, Intermittent, Rayleigh, Trace, make_channel
from fedsched.rounds import Air, ScheduleState, schedule, start
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import Cohort, Decision, Plan

DEVICES = 15
SIGMA = np.linspace(0.5, 3.0, DEVICES)
CHANNELS = {
    "fresh": Floored(Rayleigh(SIGMA), 1e-3),
    "remembering": Floored(GaussMarkov(sigma=SIGMA, memory=0.9), 1e-3),
    "intermittent": Intermittent(Rayleigh(SIGMA), np.full(DEVICES, 0.6)),
}
POLICIES = {
    "lyapunov": make_policy("lyapunov", uplink=PAPER_UPLINK, draws=4),
    "lyapunov fixed size": make_policy(
        "lyapunov", uplink=PAPER_UPLINK, draws=4, design="fixed-size"
    ),
    "uniform": make_policy("uniform", uplink=PAPER_UPLINK, draws=4),
    "full": make_policy("full", uplink=PAPER_UPLINK, draws=4),
}


def run(policy, rounds, *, channel="fresh", seed=1, state=None):
    """Rounds and the states after them."""
    return list(
        islice(
            schedule(
                channel=CHANNELS[channel],
                policy=POLICIES[policy],
                uplink=PAPER_UPLINK,
                seed=seed,
                state=state,
            ),
            rounds,
        )
    )


def assert_same_round(one, other):
    assert one.round == other.round
    for left, right in (
        (one.gain, other.gain),
        (one.decision.probability, other.decision.probability),
        (one.decision.power_w, other.decision.power_w),
        (one.cohort.device, other.cohort.device),
        (one.cohort.weight, other.cohort.weight),
        (one.upload_s, other.upload_s),
    ):
        np.testing.assert_array_equal(left, right)
    assert one.queues.keys() == other.queues.keys()
    for name, queue in one.queues.items():
        np.testing.assert_array_equal(queue, other.queues[name])


@pytest.mark.parametrize("channel", CHANNELS)
def test_policies_under_one_seed_see_the_same_channel(channel):
    reference = [done.gain for done, _ in run("lyapunov", 12, channel=channel)]
    for policy in POLICIES:
        for (done, _), gain in zip(run(policy, 12, channel=channel), reference, strict=True):
            np.testing.assert_array_equal(done.gain, gain)


def test_another_seed_is_another_channel_and_other_cohorts():
    one, other = (run("uniform", 5, seed=seed) for seed in (1, 2))
    assert all(np.all(a.gain != b.gain) for (a, _), (b, _) in zip(one, other, strict=True))
    members = [[done.cohort.device.tolist() for done, _ in rows] for rows in (one, other)]
    assert members[0] != members[1]


def test_rounds_differ_from_each_other():
    rows = run("uniform", 8)
    assert len({float(done.gain[0]) for done, _ in rows}) == 8
    assert len({tuple(done.cohort.device) for done, _ in rows}) > 4


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_resumed_from_any_state_goes_on_as_if_it_had_never_stopped(policy, channel):
    straight = run(policy, 8, channel=channel)
    for stop, (_, state) in enumerate(straight[:-1], start=1):
        assert state.round == stop
        resumed = run(policy, 8 - stop, channel=channel, state=state)
        for (done, _), (again, _) in zip(straight[stop:], resumed, strict=True):
            assert_same_round(done, again)


def test_the_first_state_is_that_of_a_fresh_run():
    state = start(
        Air(
            channel=CHANNELS["remembering"],
            policy=POLICIES["lyapunov"],
            uplink=PAPER_UPLINK,
            seed=1,
        )
    )
    assert state.round == 0
    given = run("lyapunov", 3, channel="remembering", state=state)
    for (done, _), (again, _) in zip(run("lyapunov", 3, channel="remembering"), given, strict=True):
        assert_same_round(done, again)


def test_a_round_carries_the_queue_before_it_and_the_state_the_queue_after():
    rows = run("lyapunov", 6)
    assert rows[0][0].queues["power"].tolist() == [0.0] * DEVICES
    for (_, state), (following, _) in pairwise(rows):
        np.testing.assert_array_equal(state.policy["queue.power"], following.queues["power"])
    assert all(done.queues == {} for done, _ in run("uniform", 2))


def test_the_airtime_is_the_sum_over_the_members_at_their_gain_and_power():
    for done, _ in run("lyapunov", 10, channel="intermittent"):
        members = done.cohort.device
        bits_per_symbol = np.log2(1.0 + done.gain[members] * done.decision.power_w[members])
        wanted = 32 * 555_178 / (22e6 * bits_per_symbol)
        assert done.upload_s == pytest.approx(wanted, rel=1e-12)
        assert done.airtime_s == pytest.approx(wanted.sum(), rel=1e-12)


def test_a_round_in_which_nobody_can_be_reached_takes_no_time():
    gain = np.ones((3, DEVICES))
    gain[1] = np.nan
    for policy in POLICIES.values():
        rows = islice(schedule(channel=Trace(gain), policy=policy, uplink=PAPER_UPLINK, seed=1), 3)
        first, silent, third = (done for done, _ in rows)
        assert silent.cohort.size == 0
        assert silent.airtime_s == 0.0
        assert first.cohort.size > 0
        assert third.cohort.size > 0


def test_a_policy_that_chooses_without_power_is_refused():
    class Powerless(AbstractPolicy):
        name = "powerless"

        def init(self, devices):
            del devices
            return {}

        def decide(self, observed, state):
            ones = np.ones(len(observed.gain))
            plan = Plan(power_w=0.0 * ones, bits=1.0, upload_s=np.inf * ones)
            cohort = Cohort(device=np.array([2, 4]), weight=np.ones(2))
            return Decision(plan=plan, probability=ones, cohort=cohort), state

    rounds = schedule(channel=CHANNELS["fresh"], policy=Powerless(), uplink=PAPER_UPLINK, seed=1)
    with pytest.raises(InputError, match="round 0: device 2 was chosen with no power or no gain"):
        next(rounds)


def test_the_state_given_is_not_changed():
    _, state = run("lyapunov", 3, channel="remembering")[-1]
    assert isinstance(state, ScheduleState)
    queue, amplitude = state.policy["queue.power"].copy(), state.channel["amplitude"].copy()
    run("lyapunov", 3, channel="remembering", state=state)
    np.testing.assert_array_equal(state.policy["queue.power"], queue)
    np.testing.assert_array_equal(state.channel["amplitude"], amplitude)


# The reference figures of an independent implementation: 100 devices, lambda = V = 100, 4,000
# rounds. The first rounds, with empty queues, weigh more in a shorter run.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "draws", "airtime_s", "devices", "inverse_probability", "tolerance"),
    [
        ("lyapunov", 10, 0.357, 3.92, 35.6, 0.04),
        ("lyapunov", 1, 0.0880, 1.0, 100.2, 0.04),
        ("uniform", 10, 2.993, 9.562, 10.458, 0.06),
    ],
)
def test_the_reference_figures_are_met(
    policy, draws, airtime_s, devices, inverse_probability, tolerance
):
    rounds = 1_500
    total_s, members, inverse = 0.0, 0, 0.0
    for done, _ in islice(
        schedule(
            channel=make_channel("heterogeneous", 100),
            policy=make_policy(policy, uplink=PAPER_UPLINK, draws=draws),
            uplink=PAPER_UPLINK,
            seed=1,
        ),
        rounds,
    ):
        total_s += done.airtime_s
        members += done.cohort.size
        inverse += float(np.mean(1.0 / done.decision.probability))
    assert total_s / rounds == pytest.approx(airtime_s, rel=tolerance)
    assert members / rounds == pytest.approx(devices, rel=0.02)
    assert inverse / rounds == pytest.approx(inverse_probability, rel=0.02)
