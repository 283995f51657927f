"""What stands beside the package says the same as the package."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, re.MULTILINE)[1] == PROJECT["version"]
    assert re.search(r"^license: (.*)$", text, re.MULTILINE)[1] == PROJECT["license"]


def test_every_python_that_is_promised_is_tested():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tested = re.findall(r'"([\d.]+)"', re.search(r"python: \[(.*)\]", text)[1])
    named = "Programming Language :: Python :: "
    promised = [each.removeprefix(named) for each in PROJECT["classifiers"] if named in each]
    assert [each for each in promised if "Only" not in each] == tested
    assert PROJECT["requires-python"] == f">={tested[0]}"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_call_commands_that_exist(file):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    text = file.read_text()
    assert {*re.findall(r"run: make ([a-z-]+)", text)} <= {*targets}
    assert "password" not in text  # an index gives a token to the workflow itself
    assert "secrets." not in text
