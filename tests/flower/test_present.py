"""A policy's state over devices that come and go."""

import numpy as np
import pytest

from fedsched.flower.present import grown, merged, part_of, schedule_present
from fedsched.policies import make_policy, policy_names
from fedsched.solve.uplink import PAPER_UPLINK


def marked(policy, devices):
    """A state whose every number is another."""
    state = policy.init(devices)
    return {n: 1.0 + np.arange(v.size, dtype=float).reshape(v.shape) for n, v in state.items()}


@pytest.mark.parametrize("name", list(policy_names()))
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_state_grows_parts_and_merges_by_device(name, devices):
    policy = make_policy(name, uplink=PAPER_UPLINK, draws=2)
    state, fresh = marked(policy, devices), policy.init(devices + 2)
    larger = grown(policy, state, devices, devices + 2)
    assert {n: v.shape for n, v in larger.items()} == {n: v.shape for n, v in fresh.items()}
    chosen = np.array([0, devices + 1])
    part = part_of(policy, larger, chosen)
    assert {n: v.shape for n, v in part.items()} == {n: v.shape for n, v in policy.init(2).items()}
    whole = merged(policy, larger, part, chosen)
    for key, value in larger.items():
        assert np.array_equal(whole[key], value, equal_nan=True)
        if value.shape[:1] == (devices + 2,) and key != "gathered":
            assert np.array_equal(value[:devices], state[key])
            assert np.array_equal(value[devices:], fresh[key][devices:], equal_nan=True)


def test_others_stay_as_they_were_while_some_move_on():
    policy = make_policy("oort", uplink=PAPER_UPLINK, draws=2)
    state, chosen = marked(policy, 2), np.array([1])
    part = {n: v + 10.0 for n, v in part_of(policy, state, chosen).items()}
    whole = merged(policy, state, part, chosen)
    assert whole["utility"].tolist() == [1.0, 12.0]
    assert whole["gathered"].tolist() == [11.0, 12.0]  # of the run, not of two devices
    assert state["utility"].tolist() == [1.0, 2.0]


def test_rows_without_a_length_take_that_of_the_first_update():
    policy = make_policy("clustered-similarity", uplink=PAPER_UPLINK, draws=2)
    state, chosen = policy.init(3), np.array([0, 2])
    part = {**part_of(policy, state, chosen), "update": np.ones((2, 4))}
    whole = merged(policy, state, part, chosen)
    assert whole["update"].tolist() == [[1.0] * 4, [0.0] * 4, [1.0] * 4]
    assert grown(policy, whole, 3, 4)["update"].shape == (4, 4)


def scheduled(present, seed=1):
    policy = make_policy("lyapunov", uplink=PAPER_UPLINK, draws=2)
    state = {"queue.power": np.array([1.0, 20.0, 300.0, 4000.0])}
    return schedule_present(
        policy=policy, uplink=PAPER_UPLINK, seed=seed, round=5, gain=np.full(4, 2.0),
        present=np.array(present, dtype=np.int64), state=state, measure=lambda *_: np.empty(0),
    )  # fmt: skip


def test_those_who_are_absent_are_not_chosen_and_do_not_move():
    done, after = scheduled([1, 3])
    assert set(done.cohort.device.tolist()) <= {1, 3}
    assert done.decision.probability[[0, 2]].tolist() == [0.0, 0.0]
    assert after["queue.power"][[0, 2]].tolist() == [1.0, 300.0]
    assert not np.array_equal(after["queue.power"][[1, 3]], [20.0, 4000.0])
    q = done.decision.probability[done.cohort.device]
    assert np.allclose(done.cohort.weight, 1.0 / (2 * q))  # N counts those who are present


def test_a_round_without_anybody_passes():
    done, after = scheduled([])
    assert done.cohort.size == 0
    assert done.airtime_s == 0.0
    assert after["queue.power"].tolist() == [1.0, 20.0, 300.0, 4000.0]


def turns_of(present_in, devices, rounds, draws=1):
    """How often round-robin takes each device, and the cohorts, as devices come and go."""
    policy = make_policy("round-robin", uplink=PAPER_UPLINK, draws=draws)
    state, known, cohorts = {}, 0, []
    for t in range(rounds):
        present = np.array(present_in(t), dtype=np.int64)
        now = max(known, int(present.max()) + 1)
        state, known = grown(policy, state, known, now), now
        done, state = schedule_present(
            policy=policy, uplink=PAPER_UPLINK, seed=1, round=t, gain=np.full(known, 2.0),
            present=present, state=state, measure=lambda *_: np.empty(0),
        )  # fmt: skip
        cohorts.append(done.cohort.device.tolist())
    return np.bincount(np.concatenate(cohorts), minlength=devices).tolist(), cohorts


def test_round_robin_gives_everybody_a_turn_while_one_comes_and_goes():
    counts, cohorts = turns_of(lambda t: range(t % 2, 5), 5, 1000)
    assert sum(counts) == 1000
    for device in range(5):
        had = [t for t, cohort in enumerate(cohorts) if device in cohort]
        # Every 5 rounds, or in the next one where its turn came while it was away.
        assert max(np.diff([-1, *had, 1000])) <= 6


def test_a_device_that_joins_late_has_its_turn_next_and_does_not_dominate():
    counts, cohorts = turns_of(lambda t: range(3 if t < 300 else 4), 4, 700)
    assert cohorts[300] == [3]
    assert counts == [200, 200, 200, 100]
