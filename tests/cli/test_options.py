"""Options that several commands have mean the same in each."""

import json
from importlib.metadata import version

import pytest

from fedsched.cli import _COMMANDS, _fedsched
from fedsched.quantities import dbm_to_w
from fedsched.runs.scenario_file import parse_settings

COMMANDS = {name: _fedsched.get_command(None, name) for name in _COMMANDS}
OPTIONS = {
    name: {option: each for each in command.params for option in each.opts}
    for name, command in COMMANDS.items()
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_has_one_form_wherever_it_is(name):
    options = OPTIONS[name]
    assert not {"--processes", "--output", "--jobs"} & options.keys()
    for option in ("--workers", "--json", "--set", "--engine", "--address"):
        if option in options:
            kinds = {str(each[option].type) for each in OPTIONS.values() if option in each}
            names = {each[option].name for each in OPTIONS.values() if option in each}
            assert len(kinds) == len(names) == 1
    if "--out" in options:
        assert options["--out"].opts == ["-o", "--out"]
        assert options["--out"].metavar in ("DIR", "FILE")


def test_they_are_where_one_expects_them():
    assert {name for name in COMMANDS if "--json" not in OPTIONS[name]} == {"data"}
    trains = {"demo", "run", "compare", "reproduce"}
    assert trains <= {name for name in COMMANDS if {"--workers", "--out"} <= OPTIONS[name].keys()}


@pytest.mark.parametrize("name", ["demo", "run", "compare", "reproduce"])
def test_there_is_at_least_one_worker(fedsched, name):
    asked = {"run": ["none.toml"], "reproduce": ["rounds"]}.get(name, [])
    code, _, err = fedsched(name, *asked, "--workers", 0)
    assert code == 2
    assert "workers must be a whole number of at least 1, got 0" in err


@pytest.mark.parametrize(
    ("typed", "meant"), [("shedule", "schedule"), ("Run", "run"), ("reprot", "report")]
)
def test_a_mistyped_command_is_guessed(fedsched, typed, meant):
    code, _, err = fedsched(typed)
    assert code == 2
    assert f"unknown command '{typed}'; did you mean '{meant}'? known are demo, run" in err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--eval-evry", ". Did you mean --set run.eval_every=VALUE?"),
        ("--learning-rate", ". Did you mean --set training.learning_rate=VALUE?"),
        ("--rouds", "'--rounds'"),  # an option comes first
        ("--frobnicate", "No such option '--frobnicate'."),
    ],
)
def test_a_mistyped_option_may_be_a_field_of_the_scenario(fedsched, typed, said):
    code, _, err = fedsched("schedule", typed, 1)
    assert code == 2
    assert said in err
    assert "--set" not in fedsched("times", typed, 1)[2]  # which has no --set


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_the_packages(fedsched, option):
    code, out, _ = fedsched(option)
    assert (code, out) == (0, f"fedsched, version {version('fedsched')}\n")


def test_numbers_may_have_units_in_options_and_in_settings(fedsched):
    plain = ["--rounds", 20, "--bandwidth-hz", 20e6, "--max-power-w", dbm_to_w(23), "--bits", 4e6]
    units = ["--rounds", "2e1", "--bandwidth-hz", "20MHz", "--max-power-w", "23dBm", "--bits",
             "4Mbit"]  # fmt: skip
    fields = ["rounds", "bandwidth_hz", "max_power_w", "bits"]
    sections = ["run", "uplink", "uplink", "uplink"]
    settings = [
        word
        for section, field, value in zip(sections, fields, units[1::2], strict=True)
        for word in ("--set", f"{section}.{field}={value}")
    ]
    answers = []
    for options in (plain, units, settings):
        code, out, err = fedsched("schedule", "--devices", "5", "--json", *options)
        assert code == 0, err
        answers.append({**json.loads(out), "seconds": None})
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["rounds"] == 20


def test_accuracies_may_be_percentages():
    targets = [OPTIONS[name]["--target"] for name in ("compare", "report", "reproduce")]
    assert [each.type.convert("80%", each, None) for each in targets] == [0.8] * 3
    assert parse_settings(["run.stop_accuracy=80%"]) == {"run.stop_accuracy": 0.8}


def test_a_unit_of_another_kind_is_refused(fedsched):
    code, _, err = fedsched("schedule", "--bandwidth-hz", "23dBm")
    assert code == 2
    assert "bandwidth_hz: '23dBm' has the unit 'dBm', which is not known here" in err
    code, _, err = fedsched("schedule", "--set", "uplink.noise_w=5MHz")
    assert code == 2
    assert "uplink.noise_w: '5MHz' has the unit 'MHz'" in err


@pytest.mark.parametrize("words", [("pack", "."), ("init",)])
def test_a_place_that_is_needed_and_not_named_is_asked_for(fedsched, words):
    code, _, err = fedsched(*words)
    assert code == 2 and "Missing option '-o' / '--out'" in err
