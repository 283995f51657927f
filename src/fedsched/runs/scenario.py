"""A scenario, typed and checked: everything a run depends on."""

import dataclasses
import hashlib
import json
import math
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from fedsched.errors import InputError, UnknownNameError
from fedsched.policies import reads_of
from fedsched.runs.fleet import FleetSection, with_fleet
from fedsched.runs.presets import with_preset
from fedsched.runs.sections import (
    BudgetsSection,
    ChannelSection,
    DataSection,
    KnowledgeSection,
    PolicySection,
    RunSection,
    TrainingSection,
    UplinkSection,
)

__all__ = [
    "OWN_OPTION",
    "Scenario",
    "checked_section",
    "differences",
    "run_name",
    "scenario_from",
    "shown",
]


OWN_OPTION = "options."  # how the name of a field of one's own policy begins


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything a run depends on."""

    run: RunSection
    policy: PolicySection = field(default_factory=PolicySection)
    channel: ChannelSection = field(default_factory=ChannelSection)
    uplink: UplinkSection = field(default_factory=UplinkSection)
    budgets: BudgetsSection = field(default_factory=BudgetsSection)
    knowledge: KnowledgeSection = field(default_factory=KnowledgeSection)
    data: DataSection = field(default_factory=DataSection)
    training: TrainingSection = field(default_factory=TrainingSection)
    fleet: FleetSection = field(default_factory=FleetSection)

    def __post_init__(self) -> None:
        sizes = {self.data.samples} if isinstance(self.data.samples, int) else {*self.data.samples}
        if self.training.aggregator == "memory" and len(sizes) > 1:
            raise InputError(
                "training.aggregator: 'memory' gives every device the same weight, and "
                "data.samples differ; use 'sum', or give all devices as many"
            )

    def as_read(self) -> "Scenario":
        """The same with defaults in the fields that its policy does not read.

        Two scenarios make the same run if they are equal so.
        """
        return dataclasses.replace(self, policy=self.policy.as_read())

    def changes(self) -> dict[str, dict[str, Any]]:
        """What differs from the defaults; stays the same when new fields with defaults appear."""
        given = self.as_dict()
        defaults = Scenario(
            run=RunSection(rounds=self.run.rounds, seed=self.run.seed),
            policy=PolicySection(kind=self.policy.kind),
        ).as_dict()
        required = {"run": ("rounds", "seed"), "policy": ("kind",)}
        different = {
            section: {
                name: value
                for name, value in values.items()
                if name in required.get(section, ()) or value != defaults.get(section, {}).get(name)
            }
            for section, values in given.items()
        }
        return {section: values for section, values in different.items() if values}

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values by section, as :func:`scenario_from` takes them; what is None is left out.

        Infinity is written as the string "inf" and numbers of NumPy as Python's, so that the result
        is strict JSON.
        """
        plain = {
            section: {name: _plain(value) for name, value in values.items() if value is not None}
            for section, values in dataclasses.asdict(self).items()
            if section != "fleet" or self.fleet.file is not None
        }
        own = plain["policy"].pop("options", ())
        plain["policy"] |= {f"{OWN_OPTION}{name}": _plain(value) for name, value in own}
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return list(value)
    return "inf" if value == math.inf else value


def run_name(scenario: Scenario) -> str:
    """A name for a run: what people would call it, and a hash of all that it depends on.

    Example:
        >>> table = {"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform", "draws": 5}}
        >>> run_name(scenario_from(table))
        'uniform-m5-seed1-1a65df225d'
    """
    scenario = scenario.as_read()
    content = json.dumps(scenario.changes(), sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()[:10]
    policy = scenario.policy.kind.replace(":", "-").replace("/", "-")
    return f"{policy}-m{scenario.policy.draws}-seed{scenario.run.seed}-{digest}"


def scenario_from(table: Mapping[str, Any]) -> Scenario:
    """A scenario from plain values by section; its policy is auto where none is named.

    Example:
        >>> scenario_from({"run": {"rounds": 5, "seed": 1}, "policy": {"kind": "uniform"}}).run.seed
        1
        >>> scenario_from({"run": {"rounds": 5, "seed": 1}}).policy.kind
        'auto'
    """
    found = _build(Scenario, with_preset(with_fleet(_with_own_options(table))), "")
    given = table.get("policy", {})
    if "kind" not in given:
        for name in given.keys() - reads_of(found.policy.kind, found.policy.power):
            raise InputError(
                f"policy.{name} is set to {shown(given[name])}, and {found.policy.kind!r}, the "
                f"policy where none is named, has no {name}; name one that has as policy.kind, "
                "such as lyapunov or uniform"
            )
    return found


def _with_own_options(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """``[policy.options]``, or ``options.NAME`` in ``[policy]``, as the pairs of one field."""
    given = table.get("policy")
    if not isinstance(given, Mapping):
        return table
    own = dict(checked_section(given.get("options", {}), "policy.options"))
    own |= {
        name.removeprefix(OWN_OPTION): value
        for name, value in given.items()
        if isinstance(name, str) and name.startswith(OWN_OPTION)
    }
    for name, value in own.items():
        number = isinstance(value, int | float) and math.isfinite(value)  # so is true or false
        if not (number or isinstance(value, str)):
            raise InputError(
                f"policy.options.{name} must be a finite number, a text, or true or false, got "
                f"{shown(value)}"
            )
    rest = {
        name: value
        for name, value in given.items()
        if name != "options" and not str(name).startswith(OWN_OPTION)
    }
    pairs = {"options": tuple(sorted(own.items()))} if own else {}
    return {**table, "policy": {**rest, **pairs}}


Built = TypeVar("Built")


def differences(there: Mapping[str, Any], here: Scenario) -> Iterator[tuple[str, str, Any, Any]]:
    """Where a scenario, as a manifest holds it, makes another run: section, field, both values."""
    old, new = scenario_from(there).as_read().as_dict(), here.as_read().as_dict()
    for section in {**old, **new}:
        one, other = old.get(section, {}), new.get(section, {})
        for name in sorted(one.keys() | other.keys()):
            before, after = one.get(name), other.get(name)
            if before != after:
                yield section, name, before, after


def shown(given: Any) -> str:
    """A value of a file as errors show it: not all of it if it is long, or tables within tables.

    Example:
        >>> shown({"a": {"b": {"c": {"d": 1}}}})
        "{'a': {'b': {'c': {...}}}}"
    """
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 200, 200
    return short.repr(given)


def checked_section(given: Any, where: str) -> Any:
    """The section, refused unless it is one."""
    if not isinstance(given, Mapping):
        raise InputError(f"{where} must be a section, [{where}], got {shown(given)}")
    return given


def _build(kind: type[Built], table: Mapping[str, Any], place: str) -> Built:
    """A dataclass from a table of values, with a sentence for whatever does not fit."""
    wanted = typing.get_type_hints(kind)
    fields = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in table:
        if name not in fields:
            raise UnknownNameError(place or "section", str(name), fields)
    values = {}
    for name, each in fields.items():
        where = f"{place}.{name}" if place else name
        if name in table:
            values[name] = _value(table[name], wanted[name], where)
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            if dataclasses.is_dataclass(wanted[name]):
                raise InputError(
                    f"the section [{where}] is missing; a scenario has one with rounds and seed, "
                    "and `fedsched init` writes one to begin with"
                )
            raise InputError(f"{where} is missing; it has no default, so name it in the scenario")
    return kind(**values)


def _value(given: Any, wanted: Any, where: str) -> Any:
    if dataclasses.is_dataclass(wanted):
        return _build(wanted, checked_section(given, where), where)  # type: ignore[arg-type]
    if where == "policy.options":
        return given  # pairs that were checked as they were made
    options = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if float in options and given == "inf":
        return math.inf
    if float in options and isinstance(given, int) and not isinstance(given, bool):
        try:
            return float(given)
        except OverflowError:
            raise InputError(f"{where} must be a number below 1e308, got a larger one") from None
    if isinstance(given, str) and "\0" in given:
        raise InputError(f"{where} must be a text without NUL, which no name has, got {given!r}")
    if any(type(given) is option for option in options):
        return given
    if isinstance(given, list) and any(typing.get_origin(option) is tuple for option in options):
        (listed_kind,) = [option for option in options if typing.get_origin(option) is tuple]
        return tuple(_value(each, typing.get_args(listed_kind)[0], where) for each in given)
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    listed = ["a list of them"] if any(typing.get_origin(each) is tuple for each in options) else []
    allowed = " or ".join([*(names[each] for each in options if each in names), *listed])
    raise InputError(f"{where} must be {allowed}, got {shown(given)}")
