"""The example is a plain Flower app and two changed lines."""

import difflib
import subprocess
import sys
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


def test_a_run_folder_within_the_app_is_refused():
    """Flower bundles the folder of the app, so that each run would carry those before it."""
    done = subprocess.run(
        [sys.executable, "federation.py", "simulate", "--out", "runs/one"],
        cwd=APP, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "lies in the folder of the app" in done.stderr
    assert not (APP / "runs").exists()


def test_no_command_of_the_readme_puts_a_run_into_the_app():
    shown = (APP / "README.md").read_text()
    commands = [line for line in shown.splitlines() if line.startswith("python federation.py")]
    places = [line.split("--out ")[1].split()[0] for line in commands]
    assert len(places) == 2
    for place in places:
        assert APP.resolve() not in (APP / place).resolve().parents
