"""Scenario files: TOML in, scenarios out; a ``[sweep]`` makes many of one."""

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsched.errors import InputError, UnknownNameError
from fedsched.runs.scenario import Scenario, checked_section, scenario_from, shown

__all__ = ["expand", "is_sweep", "load_scenario", "load_scenarios"]


def load_scenario(path: str | Path, *, policy: Mapping[str, Any] | None = None) -> Scenario:
    """Read and check a scenario file that describes one run.

    Args:
        path: a TOML file.
        policy: fields that take the place of those under ``[policy]``. Another kind then reads its
            own fields of the file, also those that the kind in the file has no use for.
    """
    table = _read(path)
    section = table.get("policy", {})
    if policy is not None and isinstance(section, dict):
        table = {**table, "policy": {**section, **policy}}
    scenarios = expand(table)
    if len(scenarios) > 1:
        raise InputError(
            f"scenario {str(path)!r} holds a sweep of {len(scenarios)} runs; one is wanted here, "
            "without [sweep]"
        )
    only = scenarios[0]
    for name, value in (policy or {}).items():
        if getattr(only.policy, name) != value:
            raise InputError(
                f"scenario {str(path)!r} sweeps policy.{name}, which is given here as {value!r}; "
                "leave it out of [sweep]"
            )
    return only


def load_scenarios(path: str | Path) -> list[Scenario]:
    """Read and check a scenario file; a ``[sweep]`` in it makes many scenarios of one."""
    return expand(_read(path))


def is_sweep(path: str | Path) -> bool:
    """Whether a scenario file asks for a sweep, be it of a single run."""
    return "sweep" in _read(path)


def _read(path: str | Path) -> dict[str, Any]:
    file = Path(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"scenario {str(file)!r} cannot be read: {error.strerror}; check its name"
        ) from None
    except (ValueError, RecursionError) as error:  # also of digits, letters and depth
        raise InputError(f"scenario {str(file)!r} is not valid TOML: {error}") from None


# Short names a sweep may use for the fields people sweep most.
_SWEPT = {
    "policy": "policy.kind", "m": "policy.draws", "draws": "policy.draws",
    "design": "policy.design", "lambda": "policy.lam", "lam": "policy.lam", "V": "policy.v",
    "v": "policy.v", "qmin": "policy.qmin", "alpha": "data.alpha", "channel": "channel.kind",
    "seed": "run.seed", "seeds": "run.seed", "compress": "training.compress",
}  # fmt: skip


def expand(table: Mapping[str, Any]) -> list[Scenario]:
    """The scenarios of a table: the product of the lists in its ``sweep``, without repeats.

    A policy that does not read a swept field appears once, not once for each of its values.

    Example:
        >>> base = {"run": {"rounds": 5}, "policy": {}, "sweep": {
        ...     "policy": ["lyapunov", "uniform"], "lambda": [1, 100], "seeds": [1, 2]}}
        >>> [(each.policy.kind, each.policy.lam, each.run.seed) for each in expand(base)][:3]
        [('lyapunov', 1.0, 1), ('lyapunov', 1.0, 2), ('lyapunov', 100.0, 1)]
        >>> len(expand(base))
        6
    """
    base = {name: value for name, value in table.items() if name != "sweep"}
    swept = _swept(table.get("sweep", {}))
    found: dict[Scenario, None] = {}  # a set that keeps its order
    for values in itertools.product(*swept.values()):
        # Sections are all there is to copy: within them a sweep replaces values and changes none.
        each = {
            name: dict(section) if isinstance(section, Mapping) else section
            for name, section in base.items()
        }
        for name, value in zip(swept, values, strict=True):
            section, _, field_name = name.partition(".")
            checked_section(each.setdefault(section, {}), section)[field_name] = value
        found[scenario_from(each)] = None
    return list(found)


def _swept(sweep: Any) -> dict[str, list[Any]]:
    """Dotted names and their lists."""
    flat: dict[str, Any] = {}
    for name, value in checked_section(sweep, "sweep").items():
        if isinstance(value, Mapping):  # "policy.draws" without quotes is a table in TOML
            named = {f"{name}.{inner}": each for inner, each in value.items()}
        elif name in _SWEPT or "." in name:
            named = {_SWEPT.get(name, name): value}
        else:
            raise UnknownNameError("sweep", name, [*_SWEPT, "section.field"])
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
