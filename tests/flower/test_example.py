"""The example is a plain Flower app and two changed lines."""

import difflib
import tomllib
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "examples" / "flower"


def changed(name):
    """Lines of the plain app that the scheduled one replaces, its first line aside."""
    plain, ours = (
        (APP / "digits" / f"{which}{name}.py").read_text().splitlines()[1:]
        for which in ("plain_", "")
    )
    return [line[2:] for line in difflib.ndiff(plain, ours) if line.startswith("- ")]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("client_app", ["from flwr.clientapp import ClientApp", "app = ClientApp()"]),
        (
            "server_app",
            [
                "from flwr.serverapp.strategy import FedAvg",
                "    strategy = FedAvg(fraction_evaluate=0.0)",
            ],
        ),
    ],
)
def test_two_lines_change_on_each_side(name, lines):
    assert changed(name) == lines


def test_the_app_names_modules_that_are_there():
    components = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    for each in components["components"].values():
        module, _, attribute = each.partition(":")
        source = (APP / Path(*module.split("."))).with_suffix(".py").read_text()
        assert f"\n{attribute} = " in source
