import dataclasses

import numpy as np
import pytest
import scipy.stats
from tests.runs.report_runs import write_grid

from fedsched.analysis.arrival import ACCURACY, InARow
from fedsched.analysis.collect import collect_runs
from fedsched.errors import InputError
from fedsched.learning.dataset import load_dataset
from fedsched.learning.models import build_model, flatten
from fedsched.learning.partition import Partition, index_by_class
from fedsched.runs.scenario import scenario_from
from fedsched.runs.scenario_file import expand
from fedsched.theory.advice import (
    candidates,
    measured_times,
    model_parameters,
    rank_correlation,
    simulate,
    step_weight,
    together,
)
from fedsched.theory.runs import schedule_probabilities

TABLE = {
    "run": {"rounds": 5, "seed": 1},
    "policy": {"kind": "lyapunov", "draws": 2},
    "channel": {"devices": 8},
    "data": {"samples": 80, "alpha": 1.0},
    "training": {"model": "softmax", "learning_rate": 0.01, "steps": 4},
}


def test_a_sweep_is_compared_without_its_seeds_and_anything_else_on_a_grid():
    swept = expand({**TABLE, "sweep": {"m": [1, 2], "policy": ["lyapunov", "uniform"],
                                       "lambda": [1, 10], "seeds": [1, 2]}})  # fmt: skip
    policies = [each.policy for each in candidates(swept)]
    assert len(policies) == len(set(policies)) == 6
    grid = [each.policy for each in candidates([scenario_from(TABLE)])]
    assert {each.design for each in grid} == {"with-replacement", "fixed-size", "independent"}
    assert {each.kind for each in grid} == {"lyapunov", "uniform"}
    assert {(each.lam, each.v) for each in grid if each.kind == "lyapunov"} == {
        (1.0, 100.0), (1.0, 1e4), (10.0, 100.0), (10.0, 1e3), (100.0, 100.0)
    }  # fmt: skip


def test_the_grid_leaves_out_what_cannot_keep_the_scenarios_floor():
    floor = {**TABLE["policy"], "draws": 5, "qmin": 0.3}
    grid = candidates([scenario_from({**TABLE, "policy": floor})])
    draws = {
        design: {each.policy.draws for each in grid if each.policy.design == design
                 and each.policy.kind == "lyapunov"}
        for design in ("with-replacement", "fixed-size", "independent")
    }  # fmt: skip
    # Eight devices: one draw gives each at most 1/8, ten of a fixed size are more than there are.
    assert draws["with-replacement"] == {5, 10}
    assert draws["fixed-size"] == {5, 10}
    assert draws["independent"]
    for each in grid:
        simulate(each, parameters=650, rounds=2)


def test_a_v_that_scales_by_itself_is_taken_as_given():
    scaled = {**TABLE["policy"], "scale_v": True, "v": 50.0}
    grid = [each.policy for each in candidates([scenario_from({**TABLE, "policy": scaled})])]
    assert {each.v for each in grid if each.kind == "lyapunov"} == {50.0}


def test_devices_with_more_data_count_for_more():
    table = {**TABLE, "policy": {"kind": "uniform", "draws": 2, "design": "fixed-size"}}
    equal = simulate(scenario_from(table), parameters=650, rounds=3)
    assert (equal.mean_inverse, equal.unevenness) == (pytest.approx(4.0), 1.0)
    sizes = np.array([10, 10, 10, 10, 10, 10, 10, 90])
    uneven = scenario_from({**table, "data": {"samples": sizes.tolist()}})
    share = sizes / sizes.sum()
    for kind in ("uniform", "lyapunov"):
        policy = dataclasses.replace(uneven.policy, kind=kind)
        scenario = dataclasses.replace(uneven, policy=policy)
        found = simulate(scenario, parameters=650, rounds=3)
        q = schedule_probabilities(scenario, bits=32 * 650, rounds=3)
        # R of the module's formula, averaged over the rounds.
        variance = np.mean(8 * (share**2 * (1.0 / q - 1.0)).sum(axis=1))
        assert found.rounds(0.5) == pytest.approx(1.0 + 0.5 * variance)


def test_a_deadline_that_nobody_keeps_is_not_the_channels_fault():
    nobody = {"kind": "fedcs", "deadline_s": 1e-9}
    with pytest.raises(InputError, match=r"'fedcs' chooses without chance"):
        simulate(scenario_from({**TABLE, "policy": nobody}), parameters=650, rounds=3)


def test_only_policies_are_ranked_against_each_other():
    one, other = scenario_from(TABLE), scenario_from({**TABLE, "policy": {"kind": "uniform"}})
    assert together([[one], [other, one]]) == [one, other]
    for changed, said in (
        ({"data": {"alpha": 0.25}}, r"data\.alpha, .* and 0\.25;"),
        ({"channel": {"devices": 9}}, r"channel\.devices, .* and 9;"),
    ):
        with pytest.raises(InputError, match=f"differ in {said}"):
            together([[one], [scenario_from({**TABLE, **changed})]])
    with pytest.raises(InputError, match=r"differ in data\.alpha, 0\.5 and 1\.0;"):
        candidates(expand({**TABLE, "sweep": {"alpha": [0.5, 1.0]}}))


def test_time_is_time_a_round_times_rounds():
    scenario = scenario_from({**TABLE, "policy": {"kind": "uniform", "draws": 2,
                                                  "design": "fixed-size"}})  # fmt: skip
    found = simulate(scenario, parameters=650, rounds=20)
    assert found.mean_inverse == pytest.approx(4.0)
    assert found.devices == 2.0
    assert found.rounds(0.0) == 1.0
    assert found.rounds(1.0) == pytest.approx(4.0)
    assert found.time_s(1.0, 2.0) == pytest.approx(4.0 * (found.airtime_s + 2.0))
    at_once = dataclasses.replace(
        scenario, uplink=dataclasses.replace(scenario.uplink, access="parallel")
    )
    assert simulate(at_once, parameters=650, rounds=20).airtime_s < found.airtime_s
    doubled = simulate(scenario, parameters=1300, rounds=20)
    assert doubled.airtime_s == pytest.approx(2 * found.airtime_s)
    assert doubled.label == "uniform fixed-size m=2"


@pytest.mark.slow
def test_the_weight_of_a_step_is_that_of_the_first_model():
    scenario = scenario_from(TABLE)
    dataset = load_dataset("digits")
    flat = flatten(build_model("softmax", dataset, 1)).astype(np.float64)
    partition = Partition(
        index=index_by_class(dataset.train_labels, 10), alpha=1.0, size=80, devices=8, seed=1
    )
    gradients, top = [], 0.0
    for n in range(8):
        samples = partition.indices(n)
        x = dataset.train_images[samples].reshape(80, -1) - dataset.mean[0]
        x = np.hstack([x / dataset.deviation[0], np.ones((80, 1))])
        logits = x[:, :64] @ flat[:640].reshape(10, 64).T + flat[640:]
        chance = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        error = chance - np.eye(10)[dataset.train_labels[samples]]
        gradients.append((error.T @ x / 80).reshape(-1))
        blocks = chance[:, :, None] * np.eye(10) - chance[:, :, None] * chance[:, None, :]
        hessian = np.einsum("sij,sk,sl->ikjl", blocks, x, x).reshape(650, 650) / 80
        top = max(top, np.linalg.eigvalsh(hessian)[-1])
    whole = np.mean(gradients, axis=0)
    ratio = np.mean([(each**2).sum() for each in gradients]) / (whole**2).sum()
    by_hand = (1.0 - (1.0 - 0.01 * top) ** 4) / 16 * ratio
    # Five of the eight devices are asked for their curvature, so it may be somewhat below.
    assert step_weight(scenario) == pytest.approx(by_hand, rel=0.2)


def test_the_size_of_an_update_is_the_models_unless_named():
    assert model_parameters(scenario_from(TABLE)) == 650
    assert model_parameters(scenario_from({**TABLE, "uplink": {"bits": 1e6}})) == 0


def test_measured_times_are_means_over_seeds_of_runs_that_all_arrive(tmp_path):
    write_grid(tmp_path, seeds=(1, 2))
    logs = [run.log for run in collect_runs([tmp_path]).runs]
    times = measured_times(logs, 0.3, computation_s=1.0, protocol=InARow(1))
    assert len(times) >= 2
    assert len(logs) == 2 * len(times)
    policy = logs[0].manifest["scenario"]["policy"]
    same = [log for log in logs if log.manifest["scenario"]["policy"] == policy]
    expected = np.mean([ACCURACY.reach(log, 0.3, InARow(1)).time_s(1.0) for log in same])
    scenario = scenario_from(logs[0].manifest["scenario"])
    candidate = simulate(
        dataclasses.replace(scenario_from(TABLE), policy=scenario.policy), parameters=10, rounds=2
    )
    assert times[candidate.policy] == pytest.approx(expected)
    never = measured_times(logs, 2.0, computation_s=0.0, protocol=InARow(1))
    assert set(never.values()) == {None}


def test_the_rank_correlation_is_spearmans():
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 6, 30).astype(float), rng.normal(size=30)
    expected = scipy.stats.spearmanr(one, other).statistic
    assert rank_correlation(one.tolist(), other.tolist()) == pytest.approx(expected)
    with pytest.raises(InputError, match="3 pairs or more"):
        rank_correlation([1.0], [2.0])


def test_rounds_in_which_nobody_is_drawn_predict_nothing():
    policy = {"kind": "lyapunov", "design": "independent"}
    scenario = scenario_from({**TABLE, "uplink": {"bits": 4.3e9}, "policy": policy})
    with pytest.raises(InputError, match=r"in 2 rounds 'lyapunov' .* draws nobody, so there is no"):
        simulate(scenario, parameters=650, rounds=2)
