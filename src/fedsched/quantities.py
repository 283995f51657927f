r"""Numbers as people write them: 1e3, 80%, 20MHz, 23dBm.

The unit of a field is in its name, as in ``bandwidth_hz``. A text with a unit is the number of the
field's own units that it stands for: its number times the size of its unit, rounded once. Only
decibels are no product:

.. math:: x\,\text{dBm} = 10^{(x - 30)/10}\,\text{W}.
"""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

from fedsched.errors import InputError

__all__ = ["dbm_to_w", "parse_number", "parse_whole"]


def dbm_to_w(dbm: float) -> float:
    """Watts of a power in decibels over a milliwatt.

    Example:
        >>> dbm_to_w(30.0)
        1.0
    """
    return float(10.0 ** ((dbm - 30.0) / 10.0))


Size: TypeAlias = str | Callable[[float], float]  # a factor in decimal, or how it is turned around
_SHARE: Mapping[str, Size] = MappingProxyType({"%": "0.01"})
_BYTES = {"B": "1", "kB": "1e3", "MB": "1e6", "GB": "1e9"}
_WATTS: dict[str, Size] = {
    "W": "1", "w": "1", "kW": "1e3", "mW": "1e-3", "mw": "1e-3", "uW": "1e-6", "nW": "1e-9",
    "dBm": dbm_to_w, "dbm": dbm_to_w,
}  # fmt: skip
# By the last word of a field's name.
_UNITS: Mapping[str, Mapping[str, Size]] = MappingProxyType(
    {
        "hz": {"Hz": "1", "kHz": "1e3", "MHz": "1e6", "GHz": "1e9"},
        "w": _WATTS,
        "s": {"s": "1", "ms": "1e-3", "us": "1e-6", "min": "60", "h": "3600"},
        "j": {"J": "1", "mJ": "1e-3", "kJ": "1e3", "mWh": "3.6", "Wh": "3600"},
        "db": {"dB": "1"},
        "dbm": {"dBm": "1", "dbm": "1"},
        "bits": {
            "bit": "1", "kbit": "1e3", "Mbit": "1e6", "Gbit": "1e9",
            "B": "8", "kB": "8e3", "MB": "8e6", "GB": "8e9",
        },
        "bytes": _BYTES,
    }
)  # fmt: skip
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*(.*)", re.IGNORECASE | re.ASCII)


def parse_number(field: str, text: str) -> float:
    """The number that a text stands for, in the units of a field.

    Args:
        field: its name; the last word is its unit, of a rate over time the one before "per".
        text: a number, alone or with a unit. A field without a unit takes a percentage.

    Example:
        >>> parse_number("uplink.bandwidth_hz", "20MHz"), parse_number("budget_w", "30 dBm")
        (20000000.0, 1.0)
        >>> parse_number("target", "80%")
        0.8
    """
    if text.strip() in ("inf", "nan"):  # numbers, which a field may refuse
        return float(text)
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{field} must be a number, got {text!r}")
    digits, unit = found.groups()
    size = _size(field, text, unit) if unit else "1"
    try:
        exact = Decimal(digits)
        value = float(exact * Decimal(size)) if isinstance(size, str) else size(float(exact))
    except ArithmeticError:  # of so many digits, or of so many decibels
        value = math.inf
    if not math.isfinite(value):
        raise InputError(f"{field} must be a number below 1e308, got {text!r}")
    return value


def parse_whole(field: str, text: str) -> int:
    """The whole number that a text stands for.

    Example:
        >>> parse_whole("rounds", "1e3")
        1000
    """
    try:
        return int(text)
    except ValueError:
        try:
            number = parse_number(field, text)
        except InputError:
            number = math.nan
        if "%" in text or not number.is_integer():
            raise InputError(f"{field} must be a whole number, got {text!r}") from None
        return int(number)


def _size(field: str, text: str, unit: str) -> Size:
    word = re.split(r"[._-]", field.partition("_per_")[0])[-1]
    units = _UNITS.get(word, _SHARE)
    if unit in units:
        return units[unit]
    near = difflib.get_close_matches(unit.lower(), [each.lower() for each in units], n=1)
    meant = [each for each in units if [each.lower()] == near]
    hint = f"; did you mean {meant[0]!r}?" if meant else ""
    raise InputError(
        f"{field}: {text!r} has the unit {unit!r}, which is not known here{hint} "
        f"(known: {', '.join(units)})"
    )
