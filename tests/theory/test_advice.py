from itertools import islice

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.rounds import scheduled_rounds
from fedsched.runs.scenario import scenario_from
from fedsched.runs.scenario_file import expand
from fedsched.theory.advice import (
    Case,
    Study,
    fleet_sizes,
    label_of,
    model_parameters,
    simulate,
    usual_rounds,
)
from fedsched.theory.runs import schedule_probabilities
from fedsched.theory.verdicts import point

TABLE = {
    "run": {"rounds": 5, "seed": 1},
    "channel": {"devices": 8},
    "uplink": {"bits": 1e6},
    "training": {"model": "softmax"},
}


def study_of(kappa=None, rounds=6, seeds=1, **sections):
    return Study.of([scenario_from({**TABLE, **sections})], kappa, rounds, seeds)


def predicted(study, computation_s, snr_db=0.0):
    cases = study.cases(computation_s, snr_db)
    return point(study, {case: simulate(study, case) for case in cases.values()}, computation_s,
                 snr_db)  # fmt: skip


def test_time_is_kappa_and_mean_inverse_times_computation_and_airtime():
    study = study_of()
    policy = study.policies()["uniform m=2"]
    cost = simulate(study, Case(policy=policy, seed=1, computation_s=0.25))
    assert cost.inverse == pytest.approx(4.0)
    assert (cost.devices, cost.common_s) == (2.0, 0.25)
    assert cost.time_s(8.0) == pytest.approx((8.0 + 4.0) * (0.25 + cost.airtime_s))
    assert cost.uses[0].share == pytest.approx(1.0)
    # The airtime is the expected one, so that it does not matter who was drawn.
    fixed = study_of(policy={"kind": "uniform", "design": "fixed-size", "draws": 2})
    case = Case(policy=fixed.scenario.policy, seed=1, computation_s=0.0)
    assert simulate(fixed, case).airtime_s == pytest.approx(cost.airtime_s)


def test_devices_with_more_data_count_for_more():
    sizes = np.array([10, 10, 10, 10, 10, 10, 10, 90])
    study = study_of(data={"samples": sizes.tolist()}, policy={"kind": "lyapunov", "draws": 2})
    share = sizes / sizes.sum()
    case = Case(policy=study.scenario.policy, seed=1, computation_s=0.0)
    q = schedule_probabilities(study.scenario, bits=1e6, rounds=42)[36:]  # once it has begun
    wanted = np.mean(8 * (share**2 / q).sum(axis=1))
    assert simulate(study, case).inverse == pytest.approx(wanted)


def test_a_compressed_update_adds_its_omega():
    plain, packed = study_of(), study_of(training={"model": "softmax", "compress": 4})
    costs = [simulate(each, Case(policy=each.policies()["uniform m=2"], seed=1, computation_s=0.0))
             for each in (plain, packed)]  # fmt: skip
    assert costs[1].inverse > costs[0].inverse
    assert costs[1].airtime_s < costs[0].airtime_s / 4


def test_a_verdict_is_that_of_the_times_behind_it():
    study = study_of(seeds=2)
    found = predicted(study, 0.05)
    uniform = {label: time for label, time in found.times.items() if label.startswith("uniform")}
    assert min(uniform.values()) == uniform[f"uniform m={found.best}"] == 1.0
    assert found.gain == pytest.approx(1.0 / found.times["auto"])
    assert found.low <= found.gain <= found.high
    assert found.best in found.alike
    said = {"auto": found.low >= 1.0, "uniform": found.high <= 1.0}
    assert said.get(found.verdict, True)


def test_longer_computation_asks_for_more_devices_and_a_worse_link_gains_more():
    study = study_of()
    assert predicted(study, 0.001).best < predicted(study, 10.0).best < predicted(study, 1e4).best
    assert predicted(study, 0.01, -20.0).gain > predicted(study, 0.01, 20.0).gain


def test_a_kappa_that_is_given_leaves_the_range_of_seeds_and_of_few_rounds():
    found = predicted(study_of(kappa=20.0, rounds=1), 0.05)
    assert found.low == found.gain == found.high  # one round tells nothing of how sure it is
    assert study_of(kappa=20.0).policies()["auto"].kappa == 20.0
    assert study_of().kappas == (8.0, 8.0 / 3.0, 24.0)
    few, many = (predicted(study_of(kappa=20.0, rounds=rounds), 0.05) for rounds in (9, 144))
    assert few.low < few.gain < few.high
    assert many.high / many.low < few.high / few.low


@pytest.mark.parametrize("computation_s", [0.0, 0.05, 3.0])
def test_a_row_says_what_its_time_is_made_of(computation_s):
    """By hand, (kappa + mean 1/q)(computation + airtime) from the columns of the row alone."""
    study = study_of(seeds=3, policy={"kind": "lyapunov", "draws": 2})
    found = predicted(study, computation_s)
    rows = {row["schedule"]: row for row in found.rows()}
    times = {
        label: (8.0 + row["mean_inverse_probability"])
        * (computation_s + row["airtime_s_per_round"])
        for label, row in rows.items()
    }
    best_s = times[f"uniform m={found.best}"]
    assert best_s == min(each for label, each in times.items() if label.startswith("uniform"))
    for label, row in rows.items():
        assert row["relative_time"] == pytest.approx(times[label] / best_s, rel=1e-12)
    assert found.gain == pytest.approx(best_s / times["auto"], rel=1e-12)


def test_a_row_has_the_worst_use_of_any_seed_and_the_mean_of_the_rest():
    study = study_of(seeds=3)
    cases = study.cases(0.05)
    costs = {case: simulate(study, case) for case in cases.values()}
    row = next(each for each in point(study, costs, 0.05).rows() if each["schedule"] == "auto")
    each = [costs[cases["auto", seed]] for seed in study.seeds]
    assert row["airtime_s_per_round"] == pytest.approx(np.mean([cost.airtime_s for cost in each]))
    assert row["devices_per_round"] == pytest.approx(np.mean([cost.devices for cost in each]))
    worst = max((cost.uses[0] for cost in each), key=lambda use: use.share)
    assert row["budgets"] == [worst.as_dict()]
    assert len({cost.uses[0].share for cost in each}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("link", [{"access": "parallel"}, {"access": "ofdma-equal"},
                                  {"computation_s": 1.0, "computation_spread": 0.5}])  # fmt: skip
def test_who_happens_to_be_drawn_does_not_decide_who_is_sooner(link):
    """A slow device that is met once in hundreds of rounds makes the mean of a round."""
    study = study_of(rounds=40, seeds=2, channel={"devices": 100}, uplink={"bits": 2e7, **link})
    found = predicted(study, study.own_s)
    turns = predicted(study_of(rounds=40, seeds=2, channel={"devices": 100},
                               uplink={"bits": 2e7}), study.own_s)  # fmt: skip
    one, same = found.costs["uniform m=1"], turns.costs["uniform m=1"]
    own_s = study.own_s if one.common_s == 0.0 else 0.0
    assert one.airtime_s == pytest.approx(same.airtime_s + own_s)
    assert found.gain > 1.0


def test_a_limit_of_a_second_goes_by_mean_rounds_and_not_by_those_that_were_drawn():
    study = study_of(budgets={"duty_cycle": 0.02}, uplink={"bits": 1e6, "access": "parallel"})
    case = study.cases(0.0)["uniform m=1", 1]
    on_air_s = sum(
        done.decision.probability * done.decision.plan.upload_s
        for done, _ in islice(scheduled_rounds(study.air(case)), 36, 42)
    )
    # A device has the link to itself whenever it uploads: all shares of the time add up to one.
    use = simulate(study, case).uses[-1]
    assert use.per == "second"
    assert use.mean == pytest.approx(max(on_air_s) / sum(on_air_s))


def test_uniform_cohorts_that_break_a_budget_are_no_rivals():
    # A thousandth of the time on air allows hardly anybody without a wait.
    found = predicted(study_of(budgets={"duty_cycle": 1e-3}), 0.0)
    assert not found.kept
    # A budget of a second is kept more easily the longer devices compute.
    assert predicted(study_of(budgets={"duty_cycle": 0.02}), 10.0).kept


def test_policies_of_a_sweep_are_predicted_beside_and_anything_else_may_not_vary():
    swept = expand({**TABLE, "sweep": {"policy": ["lyapunov"], "lambda": [1, 10], "seeds": [1, 2]}})
    others = Study.of(swept, None, 2, 1).others
    assert [label_of(each) for each in others] == [
        f"lyapunov m=10 λ={lam} V=100.0" for lam in (1.0, 10.0)
    ]
    swept = expand({**TABLE, "sweep": {"alpha": [0.5, 1.0]}})
    with pytest.raises(InputError, match=r"sweep: it varies \[data\], and advice is for one data"):
        Study.of(swept, None, 2, 1)


def test_a_policy_without_chance_and_a_channel_without_anybody_predict_nothing():
    study = study_of(policy={"kind": "round-robin"})
    with pytest.raises(InputError, match="'round-robin' chooses without chance"):
        simulate(study, Case(policy=study.others[0], seed=1, computation_s=0.0))


def test_devices_that_compute_for_times_of_their_own_are_scaled_together():
    study = study_of(uplink={"bits": 1e6, "computation_s": [1.0, 3.0] * 4})
    assert study.own_s == 2.0
    case = study.cases(0.5)["uniform m=1", 1]
    assert study.air(case).computation.mean_s.tolist() == [0.25, 0.75] * 4
    assert case.policy.design == "fixed-size"  # where who is drawn together matters


def test_sizes_go_from_one_to_all_and_large_fleets_need_fewer_rounds():
    assert fleet_sizes(1) == [1]
    assert fleet_sizes(60) == [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 60]
    assert fleet_sizes(1000)[-4:] == [100, 200, 500, 1000]
    assert usual_rounds(10) > usual_rounds(200) > usual_rounds(10_000) >= 15


def test_the_size_of_an_update_is_the_models_unless_named():
    assert model_parameters(scenario_from(TABLE)) == 0
    assert model_parameters(scenario_from({**TABLE, "uplink": {}})) == 650
