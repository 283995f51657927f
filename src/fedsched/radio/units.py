r"""Units: what the numbers of a recorded channel are, and the gains or rates they stand for.

With noise power :math:`N_0` and bandwidth B of the link that schedules, a number x is

.. math::
    \text{gain: } |h|^2 = x, \qquad \text{db: } |h|^2 = 10^{x/10}, \qquad
    \text{snr-db@P: } |h|^2 = 10^{x/10} N_0 / P,

.. math:: \text{mbit/s: the rate } R = 10^6 x, \qquad
          \text{mbit/s@P: } |h|^2 = (2^{R/B} - 1) N_0 / P.

A rate alone leaves the power to the modem: the channel is then one of rates. A rate at a stated
power P is turned around into the gain that gives it, and powers are scheduled.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import positive_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.quantities import parse_number

__all__ = [
    "GAIN",
    "UNITS",
    "Quantity",
    "Unit",
    "agreed_unit",
    "complete_unit",
    "named_unit",
    "parse_unit",
]

Quantity: TypeAlias = Literal["gain", "rate"]  # what a channel yields: |h|^2, or bits a second

# Bits a second in one of each.
_RATES: Mapping[str, float] = MappingProxyType(
    {
        f"{prefix}{name}/s": size * factor
        for name, size in (("bit", 1.0), ("byte", 8.0))
        for prefix, factor in (("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9))
    }
)
UNITS = ("gain", "db", "snr-db", *_RATES)
_OTHER_NAMES = {
    "linear": "gain", "gain-db": "db", "snr": "snr-db",
    "bps": "bit/s", "kbps": "kbit/s", "mbps": "mbit/s", "gbps": "gbit/s",
    "bits/s": "bit/s", "kbits/s": "kbit/s", "mbits/s": "mbit/s", "gbits/s": "gbit/s",
    "bytes/s": "byte/s", "kbytes/s": "kbyte/s", "mbytes/s": "mbyte/s", "gbytes/s": "gbyte/s",
}  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """What the numbers of a trace are.

    Attributes:
        name: one of :data:`UNITS`.
        power_w: the transmit power at which they were measured, where one was named.
    """

    name: str
    power_w: float | None = None

    def __str__(self) -> str:
        return self.name if self.power_w is None else f"{self.name}@{self.power_w!r}w"

    @property
    def quantity(self) -> Quantity:
        """What the numbers become: gains, or rates where no power is known."""
        return "rate" if self.name in _RATES and self.power_w is None else "gain"

    @property
    def is_logarithmic(self) -> bool:
        """Whether numbers may be negative."""
        return self.name in ("db", "snr-db")

    def convert(
        self,
        values: NDArray[np.float64],
        *,
        noise_w: float | None = None,
        bandwidth_hz: float | None = None,
    ) -> NDArray[np.float64]:
        """Gains, or rates in bit/s, of numbers in this unit.

        Example:
            >>> Unit("snr-db", 0.5).convert(np.array([10.0]), noise_w=2.0).tolist()
            [40.0]
            >>> Unit("mbit/s").convert(np.array([1.5])).tolist()
            [1500000.0]
        """
        if self.name in _RATES:
            rate = values * _RATES[self.name] if _RATES[self.name] != 1.0 else values
            if self.power_w is None:
                return rate
            band = self._known("bandwidth_hz", bandwidth_hz)
            with np.errstate(over="ignore"):
                ratio = np.expm1(rate * (np.log(2.0) / band))
        elif self.is_logarithmic:
            with np.errstate(over="ignore"):
                ratio = np.power(10.0, values / 10.0)
        else:
            return values
        if self.power_w is None:
            return np.asarray(ratio)
        return np.asarray(ratio * (self._known("noise_w", noise_w) / self.power_w))

    def _known(self, field: str, value: float | None) -> float:
        if value is None:
            raise InputError(
                f"{field} is missing: numbers in {self} become gains by the link's {field}; give it"
            )
        return positive_number(field, value)


GAIN = Unit("gain")


def parse_unit(text: str, field: str = "unit") -> Unit:
    """The unit that a text names: ``mbit/s``, ``db``, ``snr-db@23dbm``, ``mbit/s@0.2w``, ...

    Example:
        >>> parse_unit("Mbps"), str(parse_unit("snr-db@20dbm"))
        (Unit(name='mbit/s', power_w=None), 'snr-db@0.1w')
    """
    text = text.strip()
    name, at, power = (part.strip() for part in text.partition("@"))
    plain = name.lower().replace(" ", "-").replace("_", "-")
    if re.fullmatch(r"[kmg]?b/s|[kmg]b", plain):
        size = plain[0] if plain[0] != "b" else ""
        raise InputError(
            f"{field}: {name!r} may be bits or bytes; write {size}bit/s or {size}byte/s"
        )
    plain = _OTHER_NAMES.get(plain, plain)
    if plain not in UNITS:
        raise UnknownNameError(field, text, UNITS)
    if plain in ("gain", "db") and at:
        raise InputError(
            f"{field}: {text!r} has a power, and a gain has none; write {plain}, or snr-db@POWER "
            "for a signal-to-noise ratio"
        )
    return Unit(plain, _power_w(power, text, field) if at else None)


def agreed_unit(where: str, *units: Unit | None) -> Unit | None:
    """The one unit that several places name, with the power that one of them names; None of none.

    Example:
        >>> agreed_unit("a.csv", Unit("mbit/s"), None, Unit("mbit/s", 0.2))
        Unit(name='mbit/s', power_w=0.2)
    """
    said = list(dict.fromkeys(unit for unit in units if unit is not None))
    with_power = [unit for unit in said if unit.power_w is not None]
    if len({unit.name for unit in said}) > 1 or len(with_power) > 1:
        raise InputError(
            f"{where}: its numbers are said to be {' and '.join(map(str, said))}; they have one "
            "unit, so keep one"
        )
    return next(iter(with_power or said), None)


def complete_unit(where: str, unit: Unit) -> Unit:
    """The unit, refused if a power is missing without which its numbers say nothing."""
    if unit.name == "snr-db" and unit.power_w is None:
        raise InputError(
            f"{where}: an SNR needs the transmit power at which it was measured; name the unit as "
            "snr-db@23dbm or snr-db@0.2w"
        )
    return unit


def _power_w(text: str, whole: str, field: str) -> float:
    try:
        if text[-1:].isdigit():
            raise InputError(text)  # watts or decibels, it does not say
        return positive_number(field, parse_number("power_w", text))
    except InputError:
        raise InputError(
            f"{field}: {whole!r} has no power after the @; write it in dbm, mw or w, for instance "
            "snr-db@23dbm"
        ) from None


def named_unit(column: str) -> Unit | None:
    """The unit that the name of a column begins or ends with; None if it has none.

    A bare "db" does not count: it may be a loss, whose sign is the other one, or an SNR.

    Example:
        >>> [str(named_unit(name)) for name in ("phone 3 (Mbit/s)", "gain_0", "gain_db", "loss_db")]
        ['mbit/s', 'gain', 'db', 'None']
    """
    plain = re.sub(r"\b(snr|gain)[ -]?db(?![a-z])", r"\1-db", column.lower().replace("_", " "))
    words = [word for word in re.split(r"[\s\[\](),:]+", plain) if word]
    for word in words[-1:] + words[:1]:
        name = word.partition("@")[0]
        if name != "db" and _OTHER_NAMES.get(name, name) in UNITS:
            return parse_unit(word, f"column {column!r}")
    return None
