"""What the README and the docs show is so: Python runs, links lead somewhere, tables are true."""

import ast
import dataclasses
import re
import runpy
import tomllib
import typing
from pathlib import Path

import pytest

from fedsched.errors import InputError
from fedsched.runs.scenario import Scenario

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))
PAGES = TABLES["PAGES"]
# What people who script import from; all else is the package's own business.
ROOMS = {
    f"fedsched.{room}" for room in ("policies", "radio", "learning", "analysis", "theory", "flower")
}
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
LINK = re.compile(r"\]\((?!http)([^)#]+)")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_shown_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def deep_imports(code):
    """Modules of the package that code imports and that are no room for users."""
    for node in ast.walk(ast.parse(code)):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from (name for name in names if name.startswith("fedsched.") and name not in ROOMS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_import_from_the_rooms_for_users_alone(page):
    code = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    assert [*deep_imports(code)] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_import_from_the_rooms_for_users_alone(file):
    assert [*deep_imports(file.read_text(encoding="utf-8"))] == []


def test_a_deep_import_would_be_noticed():
    code = "import fedsched.runs.writer\nfrom fedsched.learning.pool import training_pool\n"
    assert [*deep_imports(code)] == ["fedsched.runs.writer", "fedsched.learning.pool"]
    assert EXAMPLES


def test_the_pages_show_code_at_all():
    assert sum(len(BLOCK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 8


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_what_their_commands_print(page):
    text = page.read_text(encoding="utf-8")
    assert TABLES["refreshed"](text) == text, f"{page.name} is not up to date; run `make docs`"


@pytest.mark.slow
def test_a_table_below_a_command_is_written_anew():
    command = "fedsched times results/cifar10/runs --targets 0.775"
    title = "α=∞ heterogeneous: times sooner by the 200-round mean, computation 0 s a round"
    shown = f"```python\nx = 1\n```\n\n```\n{command}\n```\n"
    page = f"{shown}\nWords.\n\n**{title}**\n\n| stale |\n\nMore.\n"
    new = TABLES["refreshed"](page)
    assert "stale" not in new
    assert "\n| lyapunov m=1 λ=100 | 1,2,3 | uniform m=1 | 1.13 (0.94 to 1.37) |\n" in new
    assert new.endswith("|\n\nMore.\n")
    with pytest.raises(InputError, match="no table is called 'other'; there are: α=∞"):
        TABLES["refreshed"](page.replace(title, "other"))
    by_hand = "**other**\n\n| a table of nobody's |\n"
    assert TABLES["refreshed"](by_hand) == by_hand


@pytest.mark.parametrize("section", dataclasses.fields(Scenario), ids=lambda each: each.name)
def test_the_page_of_scenarios_has_every_field_and_its_default(section):
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    part = page.split(f"## [{section.name}]\n")[1].split("\n## ")[0]
    shown = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", part, re.MULTILINE))
    fields = dataclasses.fields(typing.get_type_hints(Scenario)[section.name])
    assert list(shown) == [each.name for each in fields]
    for each in fields:
        said = shown[each.name]
        if each.default is dataclasses.MISSING:
            assert said == "required"
        elif each.default is None:
            assert said == "none"
        else:
            (value,) = tomllib.loads(f"value = {said.strip('`')}").values()
            assert (value, type(value)) == (each.default, type(each.default))
