import dataclasses
import json
import math

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.runs.scenario import Scenario, differences, run_name, scenario_from

LEAST = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "lyapunov"}}


def changed(section, **fields):
    return {**LEAST, section: {**LEAST.get(section, {}), **fields}}


def test_the_defaults_are_the_papers():
    scenario = scenario_from(LEAST)
    assert scenario.channel.kind == "heterogeneous"
    assert scenario.uplink.bandwidth_hz == 22e6
    assert scenario.uplink.max_power_w == pytest.approx(3162.2776601683795)
    assert (scenario.policy.draws, scenario.policy.lam, scenario.policy.v) == (10, 100.0, 100.0)
    assert (scenario.training.steps, scenario.training.batch_size) == (10, 32)
    assert scenario.data.samples == 500
    assert scenario.uplink.access == "tdma"


@pytest.mark.parametrize("alpha", [0.0, 0.5, math.inf, "inf"])
def test_a_scenario_goes_through_strict_json_and_comes_back_the_same(alpha):
    scenario = scenario_from(changed("data", alpha=alpha))
    text = json.dumps(scenario.as_dict(), allow_nan=False)
    assert scenario_from(json.loads(text)) == scenario


@pytest.mark.parametrize(
    ("table", "wrong", "near"),
    [
        ({**LEAST, "trainning": {}}, "section: 'trainning'", "'training'"),
        (changed("run", round=3), "run: 'round'", "'rounds'"),
        (changed("training", learning_rte=0.1), "training: 'learning_rte'", "'learning_rate'"),
        (changed("uplink", access="paralel"), "uplink.access: 'paralel'", "'parallel'"),
    ],
)
def test_an_unknown_name_is_refused_and_the_nearest_known_one_named(table, wrong, near):
    with pytest.raises(UnknownNameError) as caught:
        scenario_from(table)
    assert wrong in str(caught.value)
    assert f"did you mean {near}?" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (changed("run", rounds="5"), "run.rounds must be a whole number, got '5'"),
        (changed("run", rounds=5.0), "run.rounds must be a whole number, got 5.0"),
        (changed("run", rounds=True), "run.rounds must be a whole number, got True"),
        (changed("run", seed="inf"), "run.seed must be a whole number, got 'inf'"),
        (changed("policy", lam="much"), "policy.lam must be a number, got 'much'"),
        (changed("policy", lam=True), "policy.lam must be a number, got True"),
        (changed("policy", as_printed=1), "policy.as_printed must be true or false, got 1"),
        (changed("data", name=3), "data.name must be a text, got 3"),
        (changed("channel", devices=2.5), "channel.devices must be a whole number, got 2.5"),
        (
            changed("data", samples="x"),
            "data.samples must be a whole number or a list of them, got 'x'",
        ),
        ({**LEAST, "data": 5}, "data must be a section, [data], got 5"),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_is_allowed(table, sentence):
    with pytest.raises(InputError) as caught:
        scenario_from(table)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            {"policy": {"kind": "full"}},
            r"the section \[run\] is missing; .* `fedsched init` writes",
        ),
        (
            {"run": {"rounds": 5}, "policy": {"kind": "full"}},
            "run.seed is missing; it has no defau",
        ),
    ],
)
def test_what_has_no_default_must_be_named(table, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        scenario_from(table)


@pytest.mark.parametrize("given", [{}, {"policy": {}}, {"policy": {"kappa": 9.0}}])
def test_the_policy_is_auto_where_none_is_named(given):
    table = {"run": {"rounds": 5, "seed": 1}, **given}
    named = {**table, "policy": {**given.get("policy", {}), "kind": "auto"}}
    assert scenario_from(table) == scenario_from(named)
    assert run_name(scenario_from(table)) == run_name(scenario_from(named))


def test_what_auto_does_not_have_is_refused_where_no_policy_is_named():
    table = {"run": {"rounds": 5, "seed": 1}, "policy": {"draws": 5}}
    with pytest.raises(
        InputError, match=r"^policy.draws is set to 5, and 'auto', the policy where"
    ):
        scenario_from(table)
    table["policy"]["kind"] = "auto"  # whoever names a policy has chosen
    assert scenario_from(table).as_read().policy.draws == 10


@pytest.mark.parametrize(
    ("section", "fields", "sentence"),
    [
        ("run", {"rounds": 0}, "run.rounds must be a whole number of at least 1, got 0"),
        ("run", {"seed": -1}, "run.seed must be a whole number of at least 0, got -1"),
        ("run", {"eval_every": 0}, "run.eval_every"),
        ("run", {"checkpoint_every": 0}, "run.checkpoint_every"),
        ("policy", {"kind": "unifrom"}, r"policy.kind: 'unifrom' is not known.*mean 'uniform'\?"),
        ("policy", {"design": "poisson"}, "policy.design: 'poisson' is not known"),
        ("policy", {"draws": 0}, "policy.draws must be a whole number of at least 1, got 0"),
        ("policy", {"lam": -1.0}, "policy.lam must be a positive finite number, got -1.0"),
        ("policy", {"lam": math.nan}, "policy.lam must be a positive finite number, got nan"),
        ("policy", {"kind": "uniform", "lam": math.nan}, "policy.lam must be"),
        ("policy", {"v": math.inf}, "policy.v must be a positive finite number, got inf"),
        ("policy", {"qmin": 1.0}, r"policy.qmin must lie in \[0, 1\), got 1.0"),
        ("policy", {"qmin": math.nan}, "policy.qmin must lie in"),
        ("uplink", {"bits": "inf"}, "uplink.bits must be a positive finite number, got inf"),
        ("uplink", {"noise_w": 0.0}, "uplink.noise_w"),
        ("uplink", {"computation_s": -1.0}, "uplink.computation_s must be a finite number, zero"),
        ("data", {"samples": 0}, "data.samples"),
        ("data", {"alpha": -1.0}, r"data.alpha must lie in \[0, inf\], got -1.0"),
        ("data", {"alpha": math.nan}, "data.alpha must lie in"),
        ("training", {"steps": 0}, "training.steps"),
        ("training", {"batch_size": 0}, "training.batch_size"),
        ("training", {"average_rounds": 0}, "training.average_rounds"),
        ("training", {"learning_rate": math.inf}, "training.learning_rate must be a positive"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(section, fields, sentence):
    with pytest.raises(InputError, match=sentence):
        scenario_from(changed(section, **fields))


def test_a_computation_time_of_zero_is_allowed():
    assert scenario_from(changed("uplink", computation_s=0)).uplink.computation_s == 0.0


def test_scenarios_compare_by_their_values():
    assert scenario_from(LEAST) == scenario_from(json.loads(json.dumps(LEAST)))
    assert scenario_from(LEAST) != scenario_from(changed("run", seed=2))
    assert isinstance(scenario_from(LEAST), Scenario)


def test_what_a_policy_reads_depends_on_its_power_rule():
    table = {"run": {"rounds": 5, "seed": 1}}
    own = scenario_from({**table, "policy": {"kind": "round-robin", "v": 7.0, "rho": 0.3}})
    assert (own.policy.v, own.policy.rho) == (7.0, 0.3)  # as given, though neither is read
    assert {"v", "rho"} < {*own.policy.unread()}
    assert (own.as_read().policy.v, own.as_read().policy.rho) == (100.0, 0.5)
    plain = scenario_from({**table, "policy": {"kind": "round-robin"}})
    assert own != plain and own.as_read() == plain.as_read() and run_name(own) == run_name(plain)
    assert [*differences(own.as_dict(), plain)] == []
    queue = {"kind": "round-robin", "v": 7.0, "power": "queue"}
    assert scenario_from({**table, "policy": queue}).as_read().policy.v == 7.0
    for field, value in (("power", "loud"), ("start", "late"), ("rho", 2.0), ("candidates", 0)):
        with pytest.raises(InputError, match=rf"policy\.{field}"):
            scenario_from({**table, "policy": {"kind": "fedcs", field: value}})


def test_names_of_runs_depend_on_what_was_changed_alone():
    base = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform"}}
    named = run_name(scenario_from(base))
    spelt_out = {**base, "training": {"steps": 10}}  # the default, written down
    assert run_name(scenario_from(spelt_out)) == named
    assert run_name(scenario_from({**base, "training": {"steps": 11}})) != named


def test_memory_wants_devices_with_as_many_samples():
    table = {**LEAST, "training": {"aggregator": "memory"}}
    assert scenario_from({**table, "data": {"samples": [30, 30]}}).data.samples == (30, 30)
    with pytest.raises(InputError, match="'memory' gives every device the same weight"):
        scenario_from({**table, "data": {"samples": [30, 40]}})


def test_numbers_of_numpy_become_plain():
    scenario = scenario_from(LEAST)
    same = dataclasses.replace(
        scenario, run=dataclasses.replace(scenario.run, rounds=np.int64(5), seed=np.int64(1))
    )
    assert run_name(same) == run_name(scenario)
    assert json.dumps(same.as_dict()) == json.dumps(scenario.as_dict())


def test_devices_are_counted():
    table = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform"}}
    with pytest.raises(InputError, match=r"channel.devices must be a whole number .*got 0"):
        scenario_from({**table, "channel": {"devices": 0}})
