"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fedsched.runs.scenario_file import parse_settings

__all__ = ["set_option"]

Command = TypeVar("Command", bound=Callable[..., Any])


def set_option(command: Command) -> Command:
    """``--set``: fields of the scenario, as ``settings`` by their dotted names."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="FIELD=VALUE",
        callback=lambda _context, _option, texts: parse_settings(texts),
        help="Set a field of the scenario, such as policy.draws=5; may be given again.",
    )(command)
