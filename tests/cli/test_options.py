"""Options that several commands have mean the same in each."""

import pytest

from fedsched.cli import _COMMANDS, _fedsched

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
