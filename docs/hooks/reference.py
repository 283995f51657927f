"""Makes the reference from the code at every build, so that it cannot be out of date."""

import dataclasses
import importlib
import inspect
import re
import typing
from typing import Any

import click
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from fedsched.cli import _COMMANDS, _fedsched
from fedsched.policies import Need, policy_info, policy_names
from fedsched.runs.scenario import Scenario

ROOMS = ("policies", "radio", "learning", "analysis", "theory", "flower")
_ROW = re.compile(r"^\| `(\w+)` \| .*? \| (.*) \|$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made of code."""
    pages = {
        "reference/commands.md": _commands(),
        "reference/policies.md": _policies(),
        **{f"reference/{name.replace('.', '-')}.md": _module(name) for name in _modules()},
    }
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Types and defaults of a scenario's fields, from their declarations."""
    del config, files
    if page.file.src_uri != "scenarios.md":
        return markdown
    hints = typing.get_type_hints(Scenario)
    for section in dataclasses.fields(Scenario):
        head = f"## [{section.name}]\n"
        before, part = markdown.split(head)
        part, *after = re.split(r"(?=^## )", part, maxsplit=1, flags=re.MULTILINE)
        words = dict(_ROW.findall(part))
        rows = [
            f"| `{each.name}` | {_type(each.type)} | {_default(each)} | {words[each.name]} |"
            for each in dataclasses.fields(hints[section.name])
        ]
        table = "\n".join(["| field | type | default | what it is |", "|---|---|---|---|", *rows])
        part = re.sub(
            r"^\| field .*?\n(?:\|.*\n)+", lambda _, new=table: f"{new}\n", part, flags=re.M
        )
        markdown = "".join([before, head, part, *after])
    return markdown


def _type(declared: Any) -> str:
    name = declared if isinstance(declared, str) else getattr(declared, "__name__", str(declared))
    return " or ".join(f"`{each}`" for each in name.replace("None", "none").split(" | "))


def _default(each: dataclasses.Field[Any]) -> str:
    if each.default is dataclasses.MISSING:
        return "required"
    return "none" if each.default is None else f"`{each.default!r}`".replace("'", '"')


def _modules() -> list[str]:
    return ["fedsched", *(f"fedsched.{room}" for room in ROOMS)]


def _module(name: str) -> str:
    members = "\n".join(f"      - {each}" for each in importlib.import_module(name).__all__)
    return f"# {name}\n\n::: {name}\n    options:\n      members:\n{members}\n"


def _commands() -> str:
    parts = ["# Commands\n\nMade from the code: what `fedsched COMMAND --help` says.\n"]
    for name, line in _COMMANDS.items():
        command = _fedsched.get_command(click.Context(_fedsched), name)
        assert command is not None
        context = click.Context(command, info_name=f"fedsched {name}")
        usage = command.get_usage(context).removeprefix("Usage: ")
        described = inspect.cleandoc(re.sub(r"[\b]\n?", "", command.help or ""))
        parts.append(f"## fedsched {name}\n\n*{line}*\n\n```\n{usage}\n```\n\n{described}\n")
        rows = [each.get_help_record(context) for each in command.params]
        cells = [
            tuple(" ".join(text.split()).replace("|", "\\|") for text in row)
            for row in rows
            if row and row[1]
        ]
        if cells:
            parts.append("| option | what it does |\n|---|---|")
            parts.extend(f"| `{option}` | {_escaped(said)} |" for option, said in cells)
            parts.append("")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")


def _policies() -> str:
    rows, parts = [], []
    for name in policy_names():
        info = policy_info(name)
        needs = ", ".join(need.value for need in Need if need in info.needs) or "nothing"
        options = ", ".join(f"`{each}`" for each in sorted(info.reads)) or "none"
        rows.append(f"| [`{name}`](#{name}) | {_cell(info.about)} | {needs} | {info.unbiased} |")
        said = {
            "reads": needs,
            "unbiased": info.unbiased,
            "weights": info.weights,
            "power": info.power,
            "options": options,
            "from": info.reference,
        }
        lines = [f"- **{key}**: {value}" for key, value in said.items() if value]
        parts += [f"## {name}\n", f"{info.about[0].upper()}{info.about[1:]}.\n", *lines, ""]
    return "\n".join(
        [
            "# Policies\n",
            "Made from the code: what `fedsched policies` says, with the options of each in",
            "[`[policy]`](../scenarios.md#policy). [Which policy](../policies.md) compares them.\n",
            "| policy | what it does | reads | unbiased |",
            "|---|---|---|---|",
            *rows,
            "",
            *parts,
        ]
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
