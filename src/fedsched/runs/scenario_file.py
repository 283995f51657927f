"""Scenario files: TOML in, scenarios out; a ``[sweep]`` makes many of one."""

import dataclasses
import difflib
import itertools
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from fedsched.errors import InputError, UnknownNameError
from fedsched.quantities import parse_number, parse_whole
from fedsched.runs.scenario import (
    OWN_OPTION,
    Scenario,
    checked_section,
    scenario_from,
    shown,
)

__all__ = [
    "NO_SETTINGS",
    "SHORT_NAMES",
    "Settings",
    "Source",
    "code_in",
    "expand",
    "field_like",
    "is_sweep",
    "load_scenario",
    "load_scenarios",
    "parse_settings",
    "states",
]


# A scenario file, plain values by section as a file holds them, or a scenario.
Source: TypeAlias = str | Path | Mapping[str, Any] | Scenario
Settings: TypeAlias = Mapping[str, Any]  # values by dotted names, such as {"policy.draws": 5}
NO_SETTINGS: Settings = MappingProxyType({})
# Fields that take an import path, "module:name".
_CODE = ("data.name", "policy.kind", "training.aggregator", "training.model")


def load_scenario(source: Source, *, settings: Settings = NO_SETTINGS) -> Scenario:
    """Read and check a scenario that describes one run.

    Args:
        source: a TOML file, plain values by section as a file holds them, or a scenario.
        settings: values by dotted names that take the place of those in the source, also of lists
            in its ``[sweep]``. Another ``policy.kind`` then reads its own fields of the source,
            also those that the kind there has no use for.

    Example:
        >>> table = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform", "lam": 10.0}}
        >>> load_scenario(table, settings={"policy.kind": "lyapunov", "run.rounds": 9}).policy.lam
        10.0
    """
    if isinstance(source, Scenario) and not settings:
        return source
    scenarios = load_scenarios(source, settings=settings)
    if len(scenarios) > 1:
        name = f"scenario {str(source)!r}" if isinstance(source, str | Path) else "the scenario"
        raise InputError(
            f"{name} holds a sweep of {len(scenarios)} runs; one is wanted here, without [sweep]"
        )
    return scenarios[0]


def load_scenarios(source: Source, *, settings: Settings = NO_SETTINGS) -> list[Scenario]:
    """The same where a ``[sweep]`` may make many scenarios of one."""
    if isinstance(source, Scenario):
        if "uplink.preset" in settings:
            raise InputError(
                f"uplink.preset is set to {shown(settings['uplink.preset'])}, and the scenario has "
                "its link already; name the preset in a file or in plain values"
            )
        source = source.as_dict()
    return expand(source if isinstance(source, Mapping) else _read(source), settings)


def is_sweep(path: str | Path) -> bool:
    """Whether a scenario file asks for a sweep, be it of a single run."""
    return "sweep" in _read(path)


def states(source: str | Path | Mapping[str, Any], settings: Settings, name: str) -> bool:
    """Whether a scenario gives a field by its dotted name, in its section or by a setting.

    Example:
        >>> states({"uplink": {"computation_s": 0}}, {}, "uplink.computation_s")
        True
        >>> states({"uplink": {}}, {"uplink.bits": 1e6}, "uplink.computation_s")
        False
    """
    section, _, field_name = name.partition(".")
    table = source if isinstance(source, Mapping) else _read(source)
    return name in settings or field_name in table.get(section, {})


def code_in(source: str | Path | Mapping[str, Any]) -> list[tuple[str, str]]:
    """The code that a scenario names by its import path, each with its field. Nothing of it is run.

    Example:
        >>> code_in({"run": {"seed": 1}, "sweep": {"training.model": ["softmax", "own:Net"]}})
        [('training.model', 'own:Net')]
    """
    table = source if isinstance(source, Mapping) else _read(source)
    sections = [(name, each) for name, each in table.items() if isinstance(each, Mapping)]
    values = [(f"{name}.{inner}", v) for name, each in sections for inner, v in each.items()]
    swept = _swept(table["sweep"]).items() if "sweep" in table else ()
    found = [
        (name, each)
        for name, value in [*values, *swept]
        for each in (value if isinstance(value, list) else [value])
        if name in _CODE and isinstance(each, str) and ":" in each
    ]
    return sorted(set(found))


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Settings from texts ``section.field=value``; of two for one field the last one counts.

    A value is written as in a scenario file. A text needs no quotes, and a number may have a unit.
    The short names of a sweep will do for a field.

    Example:
        >>> parse_settings(["policy.draws=5", "data.alpha=inf", "policy.kind=uniform", "seed=2"])
        {'policy.draws': 5, 'data.alpha': inf, 'policy.kind': 'uniform', 'run.seed': 2}
        >>> parse_settings(["run.rounds=1e3", "uplink.bandwidth_hz=20MHz"])
        {'run.rounds': 1000, 'uplink.bandwidth_hz': 20000000.0}
    """
    settings = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise InputError(
                f"set: {shown(text)} sets no field; write it as section.field=value, for instance "
                "policy.draws=5"
            )
        dotted = _field_name(name)
        settings[dotted] = _field_value(dotted, value)
    return settings


def _field_value(name: str, text: str) -> Any:
    """What a text says for a field: a number, with a unit or without, or whatever TOML calls it."""
    section, _, field_name = name.partition(".")
    if field_name.startswith(OWN_OPTION):
        return _toml_value(text)
    hint = typing.get_type_hints(typing.get_type_hints(Scenario)[section])[field_name]
    kinds = typing.get_args(hint) or (hint,)
    value = _toml_value(text)
    if str in kinds or not isinstance(value, str | float) or text[0] not in "+-.0123456789":
        return value
    if float in kinds:
        return parse_number(name, text) if isinstance(value, str) else value
    return parse_whole(name, text) if int in kinds else value


def field_like(name: str) -> str | None:
    """The dotted name of the field that a name without its section comes near to, if any does.

    Example:
        >>> field_like("rouds"), field_like("m"), field_like("frobnicate")
        ('run.rounds', 'policy.draws', None)
    """
    known = {each: f"{section}.{each}" for section, own in _sections().items() for each in own}
    known |= SHORT_NAMES
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return known[near[0]] if near else None


def _sections() -> dict[str, list[str]]:
    """The fields of each section."""
    return {
        section: [each.name for each in dataclasses.fields(kind)]
        for section, kind in typing.get_type_hints(Scenario).items()
    }


def _field_name(name: str) -> str:
    """The dotted name of a field, refused unless there is such a field."""
    sections = _sections()
    section, _, field_name = SHORT_NAMES.get(name, name).partition(".")
    own = section == "policy" and field_name.startswith(OWN_OPTION)
    if own or field_name in sections.get(section, ()):
        return f"{section}.{field_name}"
    if section in sections:
        raise UnknownNameError(section, field_name, sections[section])
    dotted = [f"{section}.{each}" for section, fields in sections.items() for each in fields]
    raise UnknownNameError("set", name, [*SHORT_NAMES, *dotted])


def _toml_value(text: str) -> Any:
    """What a text says in TOML; the text itself where it says nothing there."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def _beside(scenario: Path, name: Any) -> Any:
    """The name of a file as it is found from here, or else beside the scenario."""
    if not isinstance(name, str) or not name or "\0" in name or Path(name).exists():
        return name
    beside = scenario.parent / name
    return str(beside) if beside.is_file() else name


# Fields that may name a file.
_FILES = (("channel", "kind"), ("fleet", "file"))


def _read(path: str | Path) -> dict[str, Any]:
    """What a scenario file holds; files that are not found from here are looked for beside it."""
    file = Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        for section, field in _FILES:
            if isinstance(given := table.get(section), dict) and field in given:
                table[section] = {**given, field: _beside(file, given[field])}
        return table
    except OSError as error:
        raise InputError(
            f"scenario {str(file)!r} cannot be read: {error.strerror}; check its name"
        ) from None
    except (ValueError, RecursionError) as error:  # also of digits, letters and depth
        raise InputError(f"scenario {str(file)!r} is not valid TOML: {error}") from None


# Short names, in a sweep and elsewhere, for the fields people change most.
SHORT_NAMES = {
    "policy": "policy.kind", "m": "policy.draws", "draws": "policy.draws",
    "design": "policy.design", "lambda": "policy.lam", "lam": "policy.lam", "V": "policy.v",
    "v": "policy.v", "qmin": "policy.qmin", "alpha": "data.alpha", "channel": "channel.kind",
    "seed": "run.seed", "seeds": "run.seed", "compress": "training.compress",
}  # fmt: skip


def expand(table: Mapping[str, Any], settings: Settings = NO_SETTINGS) -> list[Scenario]:
    """The scenarios of a table: the product of the lists in its ``sweep``, without repeats.

    A policy that does not read a swept field appears once, not once for each of its values.
    Settings, by dotted names, take the place of values in the table and of lists in its sweep.

    Example:
        >>> base = {"run": {"rounds": 5}, "policy": {}, "sweep": {
        ...     "policy": ["lyapunov", "uniform"], "lambda": [1, 100], "seeds": [1, 2]}}
        >>> [(each.policy.kind, each.policy.lam, each.run.seed) for each in expand(base)][:3]
        [('lyapunov', 1.0, 1), ('lyapunov', 1.0, 2), ('lyapunov', 100.0, 1)]
        >>> len(expand(base))
        6
    """
    base = {name: value for name, value in table.items() if name != "sweep"}
    swept = _swept(table.get("sweep", {})) | {name: [value] for name, value in settings.items()}
    found: dict[Scenario, Scenario] = {}  # by what their policies read of them
    for values in itertools.product(*swept.values()):
        # Sections are all there is to copy: within them a sweep replaces values and changes none.
        each = {
            name: dict(section) if isinstance(section, Mapping) else section
            for name, section in base.items()
        }
        for name, value in zip(swept, values, strict=True):
            section, _, field_name = name.partition(".")
            checked_section(each.setdefault(section, {}), section)[field_name] = value
        made = scenario_from(each)
        found.setdefault(made.as_read(), made)
    return list(found.values())


def _swept(sweep: Any) -> dict[str, list[Any]]:
    """Dotted names and their lists."""
    flat: dict[str, Any] = {}
    for name, value in checked_section(sweep, "sweep").items():
        if isinstance(value, Mapping):  # "policy.draws" without quotes is a table in TOML
            named = {f"{name}.{inner}": each for inner, each in value.items()}
        elif name in SHORT_NAMES or "." in name:
            named = {SHORT_NAMES.get(name, name): value}
        else:
            raise UnknownNameError("sweep", name, [*SHORT_NAMES, "section.field"])
        if twice := named.keys() & flat.keys():
            raise InputError(
                f"sweep.{name} gives {min(twice)} a second list, {shown(value)}; name each field "
                "once"
            )
        flat |= named
    for name, value in flat.items():
        if not isinstance(value, list) or not value:
            raise InputError(f"sweep.{name} must be a list of values, got {shown(value)}")
    return flat
