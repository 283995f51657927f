"""A scenario, typed and checked: everything a run depends on.

Its sections are the frozen classes below; what they call a field is the key in a scenario file.
Link, power and policy have the paper's values by default, the data are the digits that need no
download.
"""

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

from fedsched.checks import positive_number, whole_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.aggregation import AGGREGATORS
from fedsched.learning.compression import compressor_name
from fedsched.learning.influence import BOUNDS, bounded
from fedsched.policies import PolicyOptions, policy_names, reads_of
from fedsched.radio.access import ACCESSES
from fedsched.radio.units import complete_unit, parse_unit
from fedsched.runs.fleet import Each, FleetSection, check_each, with_fleet
from fedsched.runs.presets import with_preset

__all__ = [
    "ChannelSection",
    "DataSection",
    "PolicySection",
    "RunSection",
    "Scenario",
    "TrainingSection",
    "UplinkSection",
    "checked_section",
    "differences",
    "run_name",
    "scenario_from",
    "shown",
]


@dataclass(frozen=True, kw_only=True)
class ChannelSection:
    """``[channel]``: a named channel, or a trace file."""

    kind: str = "heterogeneous"
    devices: int | None = None  # 100, or as many as the trace has
    unit: str | None = None  # of the trace's numbers, where the file does not name it

    def __post_init__(self) -> None:
        if self.devices is not None:
            whole_number("channel.devices", self.devices)
        if self.unit is not None:  # one name for each, so that equal runs compare equal
            unit = complete_unit("channel.unit", parse_unit(self.unit, "channel.unit"))
            object.__setattr__(self, "unit", str(unit))


@dataclass(frozen=True, kw_only=True)
class UplinkSection:
    """``[uplink]``: the shared link and the power budget."""

    preset: str | None = None  # stands for the fields below and the channel, where they are not set
    bits: float | None = None  # of one update before compression; 32 for each parameter if left out
    bandwidth_hz: float = 22e6
    noise_w: float = 1.0
    max_power_w: Each = 10**3.5
    budget_w: Each = 1.0
    access: str = "tdma"  # "tdma": devices take turns; "parallel": the slowest decides
    computation_s: float = 0.0  # of a round, the same for all devices
    feedback_bits: float = 64.0  # of the report of a device that a policy asks before it decides

    def __post_init__(self) -> None:
        for name in ("bandwidth_hz", "noise_w", "max_power_w", "budget_w", "feedback_bits"):
            check_each(f"uplink.{name}", getattr(self, name))
        if self.bits is not None:
            positive_number("uplink.bits", self.bits)
        positive_number("uplink.computation_s", self.computation_s, allow_zero=True)
        if self.access not in ACCESSES:
            raise UnknownNameError("uplink.access", self.access, ACCESSES)


@dataclass(frozen=True, kw_only=True)
class PolicySection(PolicyOptions):
    """``[policy]``: who takes part."""

    def __post_init__(self) -> None:
        if ":" not in self.kind and self.kind not in policy_names():
            raise UnknownNameError("policy.kind", self.kind, policy_names())
        super().__post_init__()

    def unread(self) -> list[str]:
        """The fields that the policy does not read."""
        names = {each.name for each in dataclasses.fields(self)} - {"kind"}
        return sorted(names - reads_of(self.kind, self.power))

    def as_read(self) -> "PolicySection":
        """The same with defaults in the fields that the policy does not read."""
        defaults: dict[str, Any] = {each.name: each.default for each in dataclasses.fields(self)}
        return dataclasses.replace(self, **{name: defaults[name] for name in self.unread()})


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """``[data]``: the data set and how it is spread over the devices."""

    name: str = "digits"
    alpha: float = math.inf
    samples: int | tuple[int, ...] = 500  # of every device, or a list with one for each

    def __post_init__(self) -> None:
        sizes = (self.samples,) if isinstance(self.samples, int) else self.samples
        for size in sizes:
            whole_number("data.samples", size)
        if not self.alpha >= 0.0:
            raise InputError(
                f"data.alpha must lie in [0, inf], got {self.alpha}; 0 gives every device one "
                "class, inf gives all devices the same distribution"
            )


@dataclass(frozen=True, kw_only=True)
class TrainingSection:
    """``[training]``: the model and what a device does with it."""

    model: str = "small-cnn"
    steps: int = 10
    batch_size: int = 32
    learning_rate: float = 0.01
    aggregator: str = "sum"  # of weighted updates; "memory": the latest update of every device
    bounds: str = "off"  # of what one device can do to the model: "clip" or "robust"
    average_rounds: int = 1  # measured is a mean of the models over so many; 1: the model itself
    compress: str | int = "none"  # updates, to so many bits a number, or by another compressor

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "average_rounds"):
            whole_number(f"training.{name}", getattr(self, name))
        positive_number("training.learning_rate", self.learning_rate)
        if ":" not in self.aggregator and self.aggregator not in AGGREGATORS:
            raise UnknownNameError("training.aggregator", self.aggregator, AGGREGATORS)
        if self.bounds not in BOUNDS:
            raise UnknownNameError("training.bounds", self.bounds, BOUNDS)
        if self.aggregator in AGGREGATORS:
            bounded(self.bounds, AGGREGATORS[self.aggregator]())  # not all go together
        # One name for each, so that equal runs compare equal.
        name = compressor_name(self.compress, field="training.compress")
        object.__setattr__(self, "compress", name)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """``[run]``: how long, and how often to look and to save."""

    rounds: int
    seed: int
    eval_every: int = 10
    checkpoint_every: int = 50
    stop_accuracy: float | None = None  # end once five measurements in a row are at or above it

    def __post_init__(self) -> None:
        for name in ("rounds", "eval_every", "checkpoint_every"):
            whole_number(f"run.{name}", getattr(self, name))
        if self.stop_accuracy is not None and not 0.0 < self.stop_accuracy <= 1.0:
            raise InputError(
                f"run.stop_accuracy must lie in (0, 1], got {self.stop_accuracy}; it is the share "
                "of test samples that are right"
            )
        whole_number("run.seed", self.seed, least=0)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything a run depends on."""

    run: RunSection
    policy: PolicySection = field(default_factory=PolicySection)
    channel: ChannelSection = field(default_factory=ChannelSection)
    uplink: UplinkSection = field(default_factory=UplinkSection)
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
        return {
            section: {name: _plain(value) for name, value in values.items() if value is not None}
            for section, values in dataclasses.asdict(self).items()
            if section != "fleet" or self.fleet.file is not None
        }


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
    found = _build(Scenario, with_preset(with_fleet(table)), "")
    given = table.get("policy", {})
    if "kind" not in given:
        for name in given.keys() - reads_of(found.policy.kind, found.policy.power):
            raise InputError(
                f"policy.{name} is set to {shown(given[name])}, and {found.policy.kind!r}, the "
                f"policy where none is named, has no {name}; name one that has as policy.kind, "
                "such as lyapunov or uniform"
            )
    return found


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
            raise InputError(f"{where} is missing; it has no default, so name it in the scenario")
    return kind(**values)


def _value(given: Any, wanted: Any, where: str) -> Any:
    if dataclasses.is_dataclass(wanted):
        return _build(wanted, checked_section(given, where), where)  # type: ignore[arg-type]
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
