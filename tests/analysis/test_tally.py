import numpy as np
import pytest

from fedsched.analysis.tally import ScheduleTally
from fedsched.values import Cohort, Decision, Plan, ScheduledRound


def one_round(number, q, power_w, members, upload_s, residual=0.0):
    devices = len(q)
    return ScheduledRound(
        round=number,
        gain=np.ones(devices),
        decision=Decision(
            plan=Plan(power_w=np.array(power_w), bits=1.0, upload_s=np.ones(devices)),
            probability=np.array(q),
            cohort=Cohort(device=np.array(members, dtype=np.int64), weight=np.ones(len(members))),
            residual=residual,
        ),
        upload_s=np.array(upload_s),
        uploads_s=float(sum(upload_s)),
    )


ROUNDS = [
    one_round(0, [0.5, 0.25, 1.0], [2.0, 4.0, 1.0], [0, 2], [1.0, 2.0], residual=1e-12),
    one_round(1, [0.5, 0.0, 0.1], [4.0, 0.0, 10.0], [], [], residual=3e-12),
]


def tallied(rounds=ROUNDS):
    tally = ScheduleTally(3)
    for each in rounds:
        tally.add(each)
    return tally


def test_the_summary_is_what_a_hand_would_compute():
    summary = tallied().summary()
    assert summary.rounds == 2
    assert summary.airtime_s_per_round == 1.5
    assert summary.devices_per_round == 1.0
    # 1/q over the five reachable pairs of round and device
    assert summary.mean_inverse_probability == pytest.approx((2 + 4 + 1 + 2 + 10) / 5)
    # P q: round 0: 1, 1, 1; round 1: 2, 0, 1
    assert summary.worst_mean_power_w == pytest.approx(1.5)
    assert summary.mean_power_w == pytest.approx((1.5 + 0.5 + 1.0) / 3)
    assert summary.worst_residual == 3e-12


def test_the_power_is_averaged_over_time_after_each_round():
    tally = tallied()
    assert tally.mean_power_w == pytest.approx([1.0, 1.0])
    assert tally.worst_power_w == pytest.approx([1.0, 1.5])


def test_selections_and_sizes_are_shares_of_the_rounds():
    tally = tallied()
    assert tally.selection_frequency.tolist() == [0.5, 0.0, 0.5]
    assert tally.size_distribution.tolist() == [0.5, 0.0, 0.5]


def test_without_rounds_there_is_nothing():
    summary = tallied([]).summary()
    assert summary.mean_inverse_probability is None
    assert set(summary.as_dict().values()) == {0, None}


def test_a_schedule_in_which_nobody_is_reachable_has_finite_figures():
    nobody = one_round(0, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [], [])
    figures = tallied([nobody]).summary().as_dict()
    assert figures.pop("mean_inverse_probability") is None
    assert figures.pop("lost_share") is None
    assert all(np.isfinite(value) for value in figures.values())
