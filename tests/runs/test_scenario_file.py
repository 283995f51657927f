import math
import re

import pytest

from fedsched.errors import InputError
from fedsched.runs.scenario_file import expand, load_scenario, load_scenarios, parse_settings

LEAST = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "lyapunov"}}


def written(folder, text):
    path = folder / "scenario.toml"
    path.write_text(text)
    return path


def test_a_file_gives_the_values_it_names(tmp_path):
    path = written(
        tmp_path,
        """
        [run]
        rounds = 12
        seed = 7
        [policy]
        kind = "lyapunov"
        lam = 10
        [data]
        alpha = inf
        [uplink]
        bits = 1000
        access = "parallel"
        """,
    )
    scenario = load_scenario(path)
    assert scenario.run.rounds == 12
    assert scenario.policy.lam == 10.0
    assert isinstance(scenario.policy.lam, float)
    assert scenario.data.alpha == math.inf
    assert scenario.uplink.bits == 1000.0
    assert scenario.uplink.access == "parallel"


def test_a_file_that_is_not_toml_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"scenario\.toml' is not valid TOML: .*line 1"):
        load_scenario(written(tmp_path, "[run\nrounds = 5"))


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not valid TOML"):
        load_scenario(path)


@pytest.mark.parametrize("name", ["missing.toml", ""])
def test_a_missing_file_and_a_folder_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"cannot be read: (No such file|Is a directory)"):
        load_scenario(tmp_path / name)


def test_a_policy_given_beside_the_file_finds_its_own_fields_there(tmp_path):
    text = "[run]\nrounds = 5\nseed = 1\n[policy]\nkind = 'uniform'\ncandidates = 7\nv = 3\n"
    path = written(tmp_path, text)
    assert load_scenario(path).as_read().policy.candidates is None  # uniform has no use for it
    fedcs = load_scenario(path, settings={"policy.kind": "fedcs"}).as_read().policy
    assert (fedcs.candidates, fedcs.v) == (7, 100.0)  # without queues it has no use for v
    turns = {"policy.kind": "round-robin", "policy.power": "queue"}
    assert load_scenario(path, settings=turns).policy.v == 3.0


def test_a_setting_takes_the_place_of_a_value_and_of_a_list_in_the_sweep():
    table = {
        "run": {"rounds": 5, "seed": 1},
        "policy": {"kind": "uniform"},
        "sweep": {"m": [1, 5], "policy": ["full", "uniform"]},
    }
    assert len(load_scenarios(table)) == 3
    found = load_scenarios(table, settings={"policy.draws": 7, "run.rounds": 9})
    assert [(s.policy.kind, s.policy.draws, s.run.rounds) for s in found] == [
        ("full", 7, 9),
        ("uniform", 7, 9),
    ]
    only = load_scenario(table, settings={"policy.kind": "uniform", "policy.draws": 7})
    assert only.policy.draws == 7
    with pytest.raises(InputError, match="the scenario holds a sweep of 2 runs; one is wanted"):
        load_scenario(table, settings={"policy.draws": 7})
    assert table["run"] == {"rounds": 5, "seed": 1}


def test_a_scenario_is_changed_by_settings_and_is_itself_without():
    table = {
        "run": {"rounds": 5, "seed": 1},
        "policy": {"kind": "uniform"},
        "channel": {"devices": 2},
        "data": {"samples": [3, 4]},
    }
    scenario = load_scenario(table)
    assert load_scenario(scenario) is scenario
    changed = load_scenario(scenario, settings={"data.alpha": "inf", "run.seed": 2})
    assert (changed.run.seed, changed.data) == (2, scenario.data)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("policy.draws=5", "policy.draws", 5),
        (" policy.lam = 1e3 ", "policy.lam", 1000.0),
        ("data.alpha=inf", "data.alpha", math.inf),
        ("policy.scale_v=true", "policy.scale_v", True),
        ("policy.kind=best-channel", "policy.kind", "best-channel"),
        ("policy.kind='uniform'", "policy.kind", "uniform"),
        ("policy.kind=mymodule:BestHalf", "policy.kind", "mymodule:BestHalf"),
        ("data.samples=[3, 4]", "data.samples", [3, 4]),
        ("channel.kind=a=b.csv", "channel.kind", "a=b.csv"),
        ("channel.kind=1\nother = 2", "channel.kind", "1\nother = 2"),
        ("m=5", "policy.draws", 5),
    ],
)
def test_a_setting_is_written_as_in_a_file_and_texts_need_no_quotes(text, name, value):
    (item,) = parse_settings([text]).items()
    assert item == (name, value)
    assert type(item[1]) is type(value)


def test_of_two_settings_of_one_field_the_last_counts():
    assert parse_settings(["m=1", "run.seed=3", "policy.draws=2"]) == {
        "policy.draws": 2,
        "run.seed": 3,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("policy.drws=5", "policy: 'drws' is not known; did you mean 'draws'?"),
        ("polcy.draws=5", "set: 'polcy.draws' is not known; did you mean 'policy.draws'?"),
        ("learning_rate=1", "did you mean 'training.learning_rate'?"),
        ("lambd=1", "did you mean 'lambda'?"),
        ("policy.draws", "'policy.draws' sets no field; write it as section.field=value"),
        ("policy.draws=", "sets no field"),
        ("=5", "set: '' is not known"),
        ("policy.=5", "policy: '' is not known"),
    ],
)
def test_a_setting_of_no_field_is_refused_with_the_nearest(text, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        load_scenario({"run": {"rounds": 1, "seed": 1}}, settings=parse_settings([text]))


def test_a_sweep_is_the_product_of_its_lists_without_repeats():
    table = {
        "run": {"rounds": 5},
        "policy": {},
        "sweep": {"policy": ["lyapunov", "uniform"], "lambda": [1, 10], "m": [1, 5], "seeds": [1]},
    }
    read = [each.as_read().policy for each in expand(table)]
    found = [(each.kind, each.draws, each.lam) for each in read]
    assert len(found) == len(set(found)) == 6
    assert {lam for kind, _, lam in found if kind == "uniform"} == {100.0}


def test_any_field_is_swept_by_its_dotted_name_quoted_or_not():
    base = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform"}}
    for sweep in ({"training.steps": [1, 2]}, {"training": {"steps": [1, 2]}}):
        assert [s.training.steps for s in expand({**base, "sweep": sweep})] == [1, 2]


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        ({"lambd": [1]}, "did you mean 'lambda'"),
        ({"m": 5}, r"sweep\.policy\.draws must be a list"),
        ({"m": []}, r"sweep\.policy\.draws must be a list"),
        ({"training.stepz": [1]}, "did you mean 'steps'"),
    ],
)
def test_a_bad_sweep_is_refused(sweep, sentence):
    base = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform"}}
    with pytest.raises(InputError, match=sentence):
        expand({**base, "sweep": sweep})


@pytest.mark.parametrize("section", [5, "lyapunov", [{"kind": "lyapunov"}]])
def test_a_section_that_is_no_table_is_refused_under_a_sweep_as_well(section):
    base = {"run": {"rounds": 5, "seed": 1}, "policy": section}
    for sweep in ({"sweep": {"m": [1, 2]}}, {}):
        with pytest.raises(InputError, match=r"policy must be a section, \[policy\], got"):
            expand({**base, **sweep})


def test_a_field_is_swept_once():
    table = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform"}}
    with pytest.raises(InputError, match=r"sweep.draws gives policy.draws a second list, \[5\]"):
        expand({**table, "sweep": {"m": [1, 2], "draws": [5]}})
    with pytest.raises(InputError, match=r"sweep.policy gives policy.draws a second list"):
        expand({**table, "sweep": {"m": [1, 2], "policy": {"draws": [5]}}})


DEEP = ".".join(["a"] * 2000)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{DEEP} = 1", "section: 'a' is not known"),
        (
            f"[run]\nrounds.{DEEP} = 1",
            r"run.rounds must be a whole number, got {'a': {'a': .*\.\.\.",
        ),
        (f"run = [{{ {DEEP} = 1 }}]", r"run must be a section, \[run\], got \[{'a': .*\.\.\."),
        (f"[sweep]\nm.{DEEP} = 1", r"sweep.m.a must be a list of values, got {'a': .*\.\.\."),
    ],
)
def test_tables_within_tables_are_refused_however_deep(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence):
        load_scenario(written(tmp_path, text))


@pytest.mark.parametrize("field", ["channel.kind", "data.name", "training.model"])
def test_a_nul_in_a_name_is_refused(field):
    section, name = field.split(".")
    with pytest.raises(InputError, match=rf"{field} must be a text without NUL.* got 'a\\x00.csv'"):
        expand({**LEAST, section: {name: "a\0.csv"}})
