"""Options that several commands have: one meaning, one form, declared once."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import click

from fedsched.analysis.arrival import ARRIVAL, IN_A_ROW, PROTOCOLS
from fedsched.checks import whole_number
from fedsched.errors import InputError
from fedsched.quantities import parse_number, parse_whole
from fedsched.runs.engines import ENGINES
from fedsched.runs.scenario_file import Settings, parse_settings

__all__ = [
    "NUMBER",
    "WHOLE",
    "engine_options",
    "joined",
    "json_option",
    "out_option",
    "protocol_options",
    "set_option",
    "workers_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])


class _Number(click.ParamType):  # type: ignore[type-arg]  # Click 8.1 takes none
    """A number as people write it, in the unit that the option's name ends with."""

    def __init__(self, name: str, parse: Callable[[str, str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | int:
        del ctx
        field = "number" if param is None or param.name is None else param.name
        found: float | int = self._parse(field, value) if isinstance(value, str) else value
        return found


NUMBER = _Number("number", parse_number)
WHOLE = _Number("integer", parse_whole)

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


def joined(given: Mapping[str, Any], settings: Settings) -> Settings:
    """Fields as options of their own set them, None where they do not, and as ``--set`` does.

    A field has one value.
    """
    named = {name: value for name, value in given.items() if value is not None}
    for name in named.keys() & settings.keys():
        if named[name] != settings[name]:
            raise InputError(
                f"{name} is set twice, to {named[name]!r} by its option and to {settings[name]!r} "
                "by --set; leave out one"
            )
    return {**named, **settings}


def out_option(
    about: str, *, metavar: str = "DIR", default: str | None = None, required: bool = False
) -> Callable[[Command], Command]:
    """``--out``, or ``-o``: the folder or the file that the command writes."""
    # Click 8.5 takes a default of None for a value that was given, required or not.
    known: dict[str, Any] = {} if default is None else {"default": default}
    return click.option("-o", "--out", metavar=metavar, required=required, help=about, **known)


def workers_option(about: str = "Runs side by side.") -> Callable[[Command], Command]:
    """``--workers``: processes that share the work; no result depends on how many."""

    def checked(_context: click.Context, _option: click.Parameter, workers: int) -> int:
        whole_number("workers", workers)
        return workers

    return click.option(
        "--workers",
        type=WHOLE,
        default=min(2, os.cpu_count() or 1),
        callback=checked,
        help=about,
    )


def engine_options(command: Command) -> Command:
    """``--engine`` and ``--address``: where many runs happen."""
    command = click.option("--address", help="Ray cluster to join, for instance auto.")(command)
    return click.option(
        "--engine", default="local", help=f"Where runs happen: {', '.join(ENGINES)}."
    )(command)


def protocol_options(command: Command, more: Sequence[str] = ()) -> Command:
    """``--protocol``, ``--patience`` and ``--every``: what counts as having reached a target."""
    command = click.option(
        "--every",
        type=WHOLE,
        help="Rounds between the measurements that the mean is of, for runs that were measured "
        "more and less often.  [default: all measurements]",
    )(command)
    command = click.option(
        "--patience",
        type=WHOLE,
        help=f"Measurements in a row, of --protocol row.  [default: {IN_A_ROW.patience}]",
    )(command)
    return click.option(
        "--protocol", type=click.Choice([*PROTOCOLS, *more]),
        help="What counts as reached: the mean over the last 200 rounds, or measurements in a "
        f"row.  [default: {ARRIVAL.name}, with --patience {IN_A_ROW.name}]",
    )(command)  # fmt: skip
