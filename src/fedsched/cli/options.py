"""Options that several commands have: one meaning, one form, declared once."""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from fedsched.analysis.arrival import IN_A_ROW, PROTOCOLS
from fedsched.checks import whole_number
from fedsched.runs.engines import ENGINES
from fedsched.runs.scenario_file import Settings, parse_settings

__all__ = [
    "engine_options",
    "json_option",
    "out_option",
    "protocol_options",
    "set_option",
    "workers_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def set_option(command: Command) -> Command:
    """``--set`` and ``--fleet``: fields of the scenario, as ``settings`` by their dotted names."""

    @functools.wraps(command)
    def with_fleet(*arguments: Any, fleet: str | None, settings: Settings, **others: Any) -> Any:
        named = {} if fleet is None else {"fleet.file": fleet}
        return command(*arguments, settings={**settings, **named}, **others)

    fleet_option = click.option(
        "--fleet", metavar="FILE", help="One row a device: short for --set fleet.file=FILE."
    )
    return cast(Command, fleet_option(_set_option(with_fleet)))


_set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    callback=lambda _context, _option, texts: parse_settings(texts),
    help="Set a field of the scenario, such as policy.draws=5; may be given again.",
)


def out_option(
    about: str, *, metavar: str = "DIR", default: str | None = None, required: bool = False
) -> Callable[[Command], Command]:
    """``--out``, or ``-o``: the folder or the file that the command writes."""
    return click.option(
        "-o", "--out", metavar=metavar, default=default, required=required, help=about
    )


def workers_option(about: str = "Runs side by side.") -> Callable[[Command], Command]:
    """``--workers``: processes that share the work; no result depends on how many."""

    def checked(_context: click.Context, _option: click.Parameter, workers: int) -> int:
        whole_number("workers", workers)
        return workers

    return click.option(
        "--workers", default=min(2, os.cpu_count() or 1), callback=checked, help=about
    )


def engine_options(command: Command) -> Command:
    """``--engine`` and ``--address``: where many runs happen."""
    command = click.option("--address", help="Ray cluster to join, for instance auto.")(command)
    return click.option(
        "--engine", default="local", help=f"Where runs happen: {', '.join(ENGINES)}."
    )(command)


def protocol_options(command: Command) -> Command:
    """``--protocol`` and ``--patience``: what counts as having reached a target."""
    command = click.option(
        "--patience", default=IN_A_ROW.patience, help="Measurements a crossing must last, in a row."
    )(command)
    return click.option(
        "--protocol", default=IN_A_ROW.name, type=click.Choice(list(PROTOCOLS)),
        help="What counts as reached: measurements in a row, or the mean of the last 200 rounds.",
    )(command)  # fmt: skip
