from itertools import islice

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.policies import make_policy
from fedsched.radio import make_channel
from fedsched.rounds import schedule
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.theory import (
    correlation_factor,
    drift_constant,
    optimality_gap,
    power_excess,
    power_excess_of_queue,
    realised_drift,
)

ROUNDS, DEVICES = 300, 20


def objective_and_power(name, lam, v):
    """Mean of y_0, mean power by device, and the queues after the last round."""
    policy = make_policy(name, uplink=PAPER_UPLINK, draws=3, lam=lam, v=v)
    channel = make_channel("heterogeneous", DEVICES)
    values, spent = [], np.zeros(DEVICES)
    rounds = list(
        islice(schedule(channel=channel, policy=policy, uplink=PAPER_UPLINK, seed=1), ROUNDS)
    )
    for done, _ in rounds:
        q, power = done.decision.probability, done.decision.power_w
        airtime = PAPER_UPLINK.airtime_s(done.gain, power)
        values.append((1.0 / q).mean() + lam * (q * airtime).sum())
        spent += q * power
    return float(np.mean(values)), spent / ROUNDS, rounds[-1][1].policy.get("queue.power")


def test_a_run_keeps_to_its_guarantees():
    reference, uniform_power, _ = objective_and_power("uniform", 100.0, 100.0)
    assert uniform_power.max() == pytest.approx(1.0)  # it keeps the budget, so it may refer
    ours, power, queue = objective_and_power("lyapunov", 100.0, 100.0)
    drift = drift_constant(devices=DEVICES, max_power_w=PAPER_UPLINK.max_power_w, budget_w=1.0)
    assert ours <= reference + optimality_gap(drift, 100.0)
    assert (power - 1.0).max() <= power_excess(
        drift=drift, v=100.0, rounds=ROUNDS, reference=reference
    )
    # On the path itself, device by device; and the budget is in fact exceeded so far.
    assert power.max() > 1.0
    for mean, length in zip(power, queue, strict=True):
        assert mean - 1.0 <= power_excess_of_queue(float(length), ROUNDS) + 1e-9


def test_the_guarantee_is_vacuous_at_the_papers_setting():
    # D/V is about five million at V = 100, against a mean 1/q of at most some hundred.
    drift = drift_constant(devices=100, max_power_w=10**3.5, budget_w=1.0)
    assert optimality_gap(drift, 100.0) > 1e6


def test_a_reference_below_one_is_refused():
    with pytest.raises(InputError, match="reference must be"):
        power_excess(drift=1.0, v=1.0, rounds=5, reference=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draws", "all_rounds", "later", "kappa"), [(1, 0.25, 0.14, 1.01), (10, 16.3, 1.44, 1.005)]
)
def test_the_realised_drift_at_the_paper_s_setting_says_something(draws, all_rounds, later, kappa):
    """The numbers of docs/theory.md; D over V is five million."""
    policy = make_policy("lyapunov", uplink=PAPER_UPLINK, draws=draws, lam=100.0, v=100.0)
    channel = make_channel("heterogeneous", 100)
    running = schedule(channel=channel, policy=policy, uplink=PAPER_UPLINK, seed=1)
    decisions = [done.decision for done, _ in islice(running, 4000)]
    spent_w = [each.expected_power_w for each in decisions]
    gaps = [optimality_gap(realised_drift(each, 1.0), v=100.0) for each in (spent_w, spent_w[1:])]
    assert gaps == pytest.approx([all_rounds, later], rel=0.05)
    some = [each.probability for each in decisions[::40]]
    assert correlation_factor(some, draws) == pytest.approx(kappa, abs=0.001)


def test_the_realised_drift_is_a_mean_over_rounds():
    assert realised_drift([[2.0, 2.0], [1.0, 1.0]], 1.0) == 0.5
    with pytest.raises(InputError, match="budget_w"):
        realised_drift([[1.0]], 0.0)
