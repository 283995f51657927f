"""Checks at the boundary: which field, what was given, what is allowed, what to do."""

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.errors import InputError, UnknownNameError

__all__ = [
    "finite_array",
    "number_within",
    "one_of",
    "positive_each",
    "positive_number",
    "whole_number",
]

_MOST = 2**63 - 1  # of a 64-bit integer


def finite_array(name: str, values: ArrayLike, *, allow_zero: bool) -> NDArray[np.float64]:
    """The values as float64, refused unless all are finite and positive (or zero, if allowed)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, got {values!r}") from None
    # One pass decides the common case; only a failing array is searched for its culprit.
    low, high = (array.min(), array.max()) if array.size else (1.0, 1.0)
    if not ((low >= 0.0 if allow_zero else low > 0.0) and high < math.inf):
        bad = ~np.isfinite(array) | ((array < 0.0) if allow_zero else (array <= 0.0))
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = "" if not where else f"[{', '.join(map(str, where))}]"
        allowed = "finite and not negative" if allow_zero else "finite and positive"
        raise InputError(
            f"{name}{place} must be {allowed}, got {array[where]}; "
            f"{int(bad.sum())} of {array.size} values are refused"
        )
    return array


def positive_number(name: str, value: float, *, allow_zero: bool = False) -> float:
    """The number, refused unless finite and positive (or zero, if allowed)."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and (value > 0 or (allow_zero and value == 0))):
        allowed = "a finite number, zero or more" if allow_zero else "a positive finite number"
        raise InputError(f"{name} must be {allowed}, got {value if number else repr(value)}")
    return float(value)


def positive_each(name: str, value: ArrayLike, *, allow_zero: bool = False) -> None:
    """Refuse one number for all, or one each, unless finite and positive (or zero, if allowed)."""
    if isinstance(value, np.ndarray) and value.ndim:
        finite_array(name, value, allow_zero=allow_zero)
    else:
        positive_number(name, value, allow_zero=allow_zero)  # type: ignore[arg-type]


def whole_number(name: str, value: int, *, least: int = 1, most: int = _MOST) -> int:
    """The number, refused unless an integer from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if value > most:
        raise InputError(f"{name} must be at most {most}, got {value}")
    return int(value)


def number_within(name: str, value: float, interval: str, about: str) -> float:
    """The number, refused unless it lies in the interval.

    Example:
        >>> number_within("qmin", 1.0, "[0, 1)", "it is a probability")
        Traceback (most recent call last):
        fedsched.errors.InputError: qmin must lie in [0, 1), got 1.0; it is a probability
    """
    low, high = map(float, interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    if not (above and below):
        raise InputError(f"{name} must lie in {interval}, got {value}; {about}")
    return value


def one_of(field: str, name: str, known: Collection[str]) -> str:
    """The name, refused unless it is among those that are known.

    Example:
        >>> one_of("channel", "homogeneous", ["heterogeneous", "homogeneous"])
        'homogeneous'
    """
    if name not in known:
        raise UnknownNameError(field, name, known)
    return name
