"""Which runs belong together, and which uniform run is whose baseline."""

import re

import pytest
from tests.runs.report_runs import manifest, run_log, table

from fedsched.analysis.arrival import reach
from fedsched.analysis.curves import curve_of
from fedsched.analysis.groups import _LATER, baseline_of, group_runs, paired_speedup
from fedsched.runs.scenario import scenario_from


def log(kind, *, draws=10, seed=1, unread=(), **policy):
    about = manifest(kind, draws, seed)
    about["scenario"]["policy"] |= policy
    about["unread"] = [f"policy.{name}" for name in unread]
    return run_log(about, table(seed=seed))


def labelled(*logs):
    return {group.label: group for group in group_runs(logs)}


def test_a_policy_without_designs_is_compared_with_uniform_all_the_same():
    groups = labelled(
        log("uniform", design="with-replacement", lam=100.0, unread=["lam"]),
        log("oort", design="with-replacement", lam=100.0, unread=["lam", "design"]),
    )
    ours = next(group for group in groups.values() if group.fields["policy.kind"] == "oort")
    found = baseline_of(ours, list(groups.values()))
    assert found is not None
    assert found.fields["policy.kind"] == "uniform"


def test_two_traces_of_one_name_are_two_environments():
    logs = [log("uniform", seed=seed) for seed in (1, 2)]
    for each, letter in zip(logs, "ab", strict=True):
        each.manifest["scenario"]["channel"]["kind"] = "trace.csv"
        each.manifest["trace"] = {"sha256": letter * 64, "rounds": 9, "devices": 20}
    one, two = group_runs(logs)
    assert (one.environment, two.environment) == ("trace=" + "a" * 12, "trace=" + "b" * 12)


def test_a_size_that_is_the_models_may_be_left_out():
    logs = [log("uniform", seed=seed) for seed in (1, 2, 3)]
    for each, bits in zip(logs, (32.0 * 555_178, None, 1e6), strict=True):
        each.manifest["scenario"]["data"]["name"] = "cifar10"
        each.manifest["scenario"]["training"] = {"model": "paper-cnn"}
        each.manifest["scenario"]["uplink"]["bits"] = bits
    del logs[1].manifest["scenario"]["uplink"]["bits"]
    assert [group.seeds for group in group_runs(logs)] in ([[1, 2], [3]], [[3], [1, 2]])


def test_a_list_of_sizes_is_short_in_a_label_and_told_from_another():
    logs = [log("uniform") for _ in range(3)]
    for each, sizes in zip(logs, (500, [40] * 9 + [900], [900] + [40] * 9), strict=True):
        each.manifest["scenario"]["data"]["samples"] = sizes
    environments = [group.environment for group in group_runs(logs)]
    assert environments[0] == "samples=500"
    assert len(set(environments)) == 3
    assert all(re.fullmatch("samples=40-900#[0-9a-f]{6}", each) for each in environments[1:])


def test_budgets_and_fleets_are_what_a_configuration_is_exposed_to():
    logs = [log(kind) for kind in ("uniform", "full", "uniform")]
    for each, limit, mark in zip(logs, (0.5, 0.5, 1.0), "aab", strict=True):
        each.manifest["scenario"]["budgets"] = {"energy_j": limit}
        each.manifest["scenario"]["fleet"] = {"file": f"{mark}/fleet.csv", "sha256": mark * 64}
        each.manifest["scenario"]["knowledge"] = {"error_db": limit, "outage": 0.1}
    groups = group_runs(logs)
    said = {
        f"energy_j=0.5 sha256={'a' * 12} error_db=0.5",
        f"energy_j=1.0 sha256={'b' * 12} error_db=1.0",
    }
    assert {group.environment for group in groups} == said
    assert sorted(group.choice for group in groups) == ["full", "uniform", "uniform"]


def test_runs_that_differ_in_computation_time_alone_are_one_configuration():
    slow, quick = log("uniform"), log("uniform", seed=2)
    slow.manifest["scenario"]["uplink"]["computation_s"] = 2.0
    (group,) = group_runs([slow, quick])
    assert group.seeds == [1, 2]


def test_the_baseline_has_the_same_draws_and_the_same_design():
    groups = labelled(
        log("uniform", draws=5, design="with-replacement"),
        log("uniform", draws=10, design="fixed-size"),
        log("lyapunov", draws=10, design="with-replacement"),
    )
    ours = next(group for group in groups.values() if group.fields["policy.kind"] == "lyapunov")
    assert baseline_of(ours, list(groups.values())) is None


def test_an_early_log_that_does_not_say_what_is_unread_joins_the_others_of_its_policy():
    early, late = log("lyapunov", rho=1.0), log("lyapunov", seed=2, rho=1.0, unread=["rho"])
    del early.manifest["unread"]
    (group,) = group_runs([early, late])
    assert group.seeds == [1, 2]
    assert group.unread == {"policy.rho"}


def test_what_one_way_of_sending_does_not_read_still_tells_runs_of_another_apart():
    logs = [
        log("uniform", power="constant", v=100.0, unread=["v"]),
        log("uniform", power="queue", v=10.0),
        log("uniform", power="queue", v=100.0),
    ]
    assert len(group_runs(logs)) == 3


def real_log(kind, seed=1, **left_out):
    """A log with all fields that scenarios have now, but those left out of a section."""
    scenario = scenario_from({"run": {"rounds": 1, "seed": seed}, "policy": {"kind": kind}})
    about = {"scenario": scenario.as_dict(), "unread": []}
    for section, name in left_out.items():
        del about["scenario"][section][name]
    return run_log(about, table(seed=seed))


@pytest.mark.parametrize("missing", [{"uplink": "feedback_bits"}, {"training": "aggregator"}])
def test_a_log_from_before_a_field_has_what_was_done_then(missing):
    early, late = real_log("uniform", **missing), real_log("uniform", seed=2)
    uniform, ours = group_runs([early, late, real_log("lyapunov")])[::-1]
    assert uniform.seeds == [1, 2]
    assert baseline_of(ours, [ours, uniform]) is uniform


def test_a_log_from_before_a_field_is_not_like_one_that_sets_it_otherwise():
    other = real_log("lyapunov")
    other.manifest["scenario"]["uplink"]["feedback_bits"] = 32.0
    groups = group_runs([real_log("uniform", uplink="feedback_bits"), other])
    ours = next(group for group in groups if group.fields["policy.kind"] == "lyapunov")
    assert baseline_of(ours, groups) is None


def test_every_field_that_came_later_is_known_with_its_default():
    """A field that is new belongs into _LATER, or logs without it lose their baselines."""
    first = {
        "channel.kind", "data.name", "data.alpha", "data.samples", "training.model",
        "training.steps", "training.batch_size", "training.learning_rate", "uplink.bandwidth_hz",
        "uplink.noise_w", "uplink.max_power_w", "uplink.budget_w", "uplink.access",
        "uplink.computation_s",
    }  # fmt: skip
    now = scenario_from({"run": {"rounds": 1, "seed": 1}, "policy": {"kind": "uniform"}}).as_dict()
    later = {
        f"{section}.{name}": value
        for section, values in now.items()
        if section not in ("run", "policy")
        for name, value in values.items()
        if f"{section}.{name}" not in first
    }
    assert later == _LATER


def two_groups(slow_seeds, fast_seeds, never=None):
    """A slow and a fast configuration, and when each of their seeds reaches 0.8, if it does."""
    members = {
        "uniform": [
            run_log(
                manifest("uniform", 10, seed),
                table(seed=seed, airtime_s=3.0, speed=0.1 if seed == never else 1.0),
            )
            for seed in slow_seeds
        ],
        "lyapunov": [
            run_log(manifest("lyapunov", 10, seed), table(seed=seed)) for seed in fast_seeds
        ],
    }
    groups = {
        group.fields["policy.kind"]: group
        for logs in members.values()
        for group in group_runs(logs)
    }
    seconds = {
        (kind, log.manifest["scenario"]["run"]["seed"]): reach(curve_of(log), 0.8).time_s(0.5)
        for kind, logs in members.items()
        for log in logs
        if reach(curve_of(log), 0.8) is not None
    }
    return groups["uniform"], groups["lyapunov"], seconds


def test_a_seed_is_compared_with_the_same_seed_and_one_without_a_partner_with_none():
    slow, fast, seconds = two_groups((1, 2), (2, 3))
    found = paired_speedup(slow, fast, 0.8, computation_s=0.5)
    assert found.ratio == pytest.approx(seconds["uniform", 2] / seconds["lyapunov", 2])
    assert found.seeds == 1
    slow, fast, _ = two_groups((1, 2), (3,))
    assert paired_speedup(slow, fast, 0.8, computation_s=0.5) is None


def test_there_is_no_speedup_while_one_of_the_pairs_has_not_arrived():
    slow, fast, seconds = two_groups((1, 2), (1, 2))
    assert len(seconds) == 4
    assert paired_speedup(slow, fast, 0.8).seeds == 2
    slow, fast, seconds = two_groups((1, 2), (1, 2), never=2)
    assert sorted(seconds) == [("lyapunov", 1), ("lyapunov", 2), ("uniform", 1)]
    assert paired_speedup(slow, fast, 0.8) is None


def test_of_no_time_there_is_no_ratio():
    """A target that is reached before anybody sent, with no computation time, took no seconds."""
    slow, _, _ = two_groups((1,), (1,))
    rows = table(seed=1, airtime_s=0.0)
    (silent,) = group_runs([run_log(manifest("lyapunov", 10, 1), rows)])
    assert paired_speedup(slow, silent, 0.8) is None
    assert paired_speedup(slow, silent, 0.8, computation_s=0.5).ratio > 1.0
