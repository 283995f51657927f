"""Recorded traces: gains or rates of shape (rounds, devices), from a file or another channel."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from fedsched.checks import whole_number
from fedsched.errors import InputError
from fedsched.radio.channel import AbstractChannel, ChannelState, as_float64
from fedsched.radio.trace_files import READERS, WRITERS
from fedsched.radio.units import (
    GAIN,
    UNITS,
    Quantity,
    Unit,
    agreed_unit,
    complete_unit,
    parse_unit,
)
from fedsched.randomness import stream
from fedsched.values import PerDevice

__all__ = ["TRACE_SUFFIXES", "Trace", "read_trace", "record", "write_trace"]

TRACE_SUFFIXES = tuple(READERS)


@final
@dataclass(frozen=True, eq=False)
class Trace(AbstractChannel):
    """The replay of recorded gains, one row a round.

    The state is the number of rounds played. NaN, and a gain of exactly 0, mean that the device
    cannot be reached in that round.

    Args:
        gain: linear power gains, shape (rounds, devices); or rates in bit/s.
        repeat: start again at the first row when the run is longer than the trace; if False,
            the first round beyond the trace raises an InputError.
        quantity: "gain", or "rate" for rates in bit/s, which leave the power to the modem.

    Example:
        >>> trace = Trace(np.array([[0.5, 2.0], [0.0, 1.0]]))
        >>> rng = np.random.default_rng(0)
        >>> gain, state = trace.step(trace.init(rng), rng)
        >>> gain.tolist(), trace.step(state, rng)[0].tolist()
        ([0.5, 2.0], [nan, 1.0])
    """

    gain: PerDevice
    repeat: bool = field(default=True, kw_only=True)
    quantity: Quantity = field(default="gain", kw_only=True)

    def __post_init__(self) -> None:
        unit = GAIN if self.quantity == "gain" else Unit("bit/s")
        object.__setattr__(self, "gain", _checked("trace", self.gain, unit))

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        unit: str | None = None,
        noise_w: float | None = None,
        bandwidth_hz: float | None = None,
    ) -> "Trace":
        """The replay of a file, as :func:`read_trace` reads it."""
        values, of = _read(Path(path), unit)
        converted = of.convert(values, noise_w=noise_w, bandwidth_hz=bandwidth_hz)
        _refuse_overflow(Path(path), values, converted, of)
        return cls(converted, quantity=of.quantity)

    @property
    def devices(self) -> int:
        """How many devices the trace has."""
        return int(self.gain.shape[1])

    @property
    def rounds(self) -> int:
        """How many rounds the trace has."""
        return len(self.gain)

    @property
    def sha256(self) -> str:
        """A digest of the gains, whatever file they came from; every NaN counts as the same."""
        same = np.where(np.isnan(self.gain), np.nan, self.gain).astype("<f8")
        what = "" if self.quantity == "gain" else " bit/s"
        return hashlib.sha256(
            f"{self.rounds} x {self.devices}{what}\n".encode() + same.tobytes()
        ).hexdigest()

    def init(self, rng: np.random.Generator) -> ChannelState:
        """The position before the first row."""
        del rng  # what is recorded is no longer chance
        return {"round": np.array(0, dtype=np.int64)}

    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """The next row, and the position after it."""
        del rng
        position = int(state["round"])
        if position >= self.rounds and not self.repeat:
            raise InputError(
                f"round {position} is beyond the trace, which has {self.rounds} rounds "
                f"(0 to {self.rounds - 1}); record a longer trace, run fewer rounds, "
                "or set repeat=True"
            )
        after = np.array(position + 1, dtype=np.int64)
        return self.gain[position % self.rounds].copy(), {"round": after}


def read_trace(
    path: str | Path,
    *,
    unit: str | None = None,
    noise_w: float | None = None,
    bandwidth_hz: float | None = None,
) -> PerDevice:
    """Read a recorded channel from a CSV, Parquet or NPZ file.

    Rounds are rows and devices are columns, both numbered from 0. An empty cell, a null, NaN or a
    gain of exactly 0 means that the device cannot be reached in that round.

    * CSV: numbers separated by commas; a first line without any number is a header.
    * Parquet: one column per device.
    * NPZ: the array ``gain``, or the only array.

    A CSV or Parquet file with columns named ``round``, ``device`` and ``gain`` is read as a long
    table, one row per round and device; rounds count from the smallest one, pairs that are left
    out are unreachable, and further columns are ignored.

    What the numbers are is named by the file (a first line ``# unit: mbit/s``, columns whose names
    end in a unit, metadata, a text ``unit``) or by the argument. It is never guessed.

    Args:
        path: the file.
        unit: what the numbers are, where the file does not say it.
        noise_w: of the link, to make gains of SNRs and of rates at a stated power.
        bandwidth_hz: of the link, to make gains of rates at a stated power.

    Returns:
        Linear power gains of shape (rounds, devices), NaN where unreachable; rates in bit/s if the
        file holds rates without a power.
    """
    return Trace.read(path, unit=unit, noise_w=noise_w, bandwidth_hz=bandwidth_hz).gain


def _read(path: Path, given: str | None) -> tuple[PerDevice, Unit]:
    """The numbers in a file as they stand there, checked, and what they are."""
    read = READERS[_known_suffix(path)]
    asked = None if given is None else parse_unit(given)
    try:
        values, said = read(path)
    except FileNotFoundError:
        raise InputError(
            f"trace {path}: there is no such file in {str(path.resolve().parent)!r}; a name in a "
            "scenario is looked for from the present folder and then beside the scenario"
        ) from None
    except OSError as error:
        raise InputError(
            f"trace {path} cannot be read: {error.strerror or error}; "
            "check that the file exists and that you may read it"
        ) from error
    unit = agreed_unit(f"trace {path}", asked, said) or _refuse_unnamed(path, values)
    return _checked(f"trace {path}", values, complete_unit(f"trace {path}", unit)), unit


def _refuse_unnamed(path: Path, values: PerDevice) -> Unit:
    """Ask for the unit. Rates look like gains, and decibels over the noise like any others."""
    checked = _checked(f"trace {path}", values, Unit("db"))  # what no unit allows is named first
    known = checked[np.isfinite(checked)]
    span = f" ({known.min():.4g} to {known.max():.4g})" if known.size else ""
    negative = known.size and known.min() < 0.0
    allowed = ("db", "snr-db@23dbm") if negative else (*UNITS[:2], "snr-db@23dbm", *UNITS[3:])
    raise InputError(
        f"trace {path} does not say what its numbers{span} are; name it with --unit or "
        f"channel.unit, or in a CSV file by a first line '# unit: mbit/s'"
        f"{'; negative numbers are decibels' if negative else ''} (known: {', '.join(allowed)})"
    )


def _refuse_overflow(path: Path, values: PerDevice, converted: PerDevice, unit: Unit) -> None:
    if (beyond := np.isinf(converted)).any():
        row, device = (int(index) for index in np.argwhere(beyond)[0])
        raise InputError(
            f"trace {path}: {values[row, device]} in round {row} of device {device} is no "
            f"possible number in {unit}; check the unit"
        )


def write_trace(path: str | Path, values: ArrayLike, *, unit: str = "gain") -> None:
    """Write numbers of shape (rounds, devices) as CSV, Parquet or NPZ, by the suffix.

    The file names the unit. :func:`read_trace` gives back the same gains to the last bit (a gain
    of 0 becomes NaN).
    """
    path = Path(path)
    write = WRITERS[_known_suffix(path)]
    of = parse_unit(unit)
    checked = _checked(of.name, values, complete_unit("unit", of))
    try:
        write(path, checked, of)
    except OSError as error:
        raise InputError(
            f"trace {path} cannot be written: {error.strerror or error}; "
            "check that the folder exists and that you may write there"
        ) from error


def record(channel: AbstractChannel, *, rounds: int, seed: int) -> PerDevice:
    """The gains of the first rounds of a channel, shape (rounds, devices).

    Uses the streams ``"channel"`` of the seed, so a run with this seed sees the same gains.

    Example:
        >>> from fedsched.radio.fading import Rayleigh
        >>> record(Rayleigh(np.ones(3)), rounds=5, seed=1).shape
        (5, 3)
    """
    whole_number("rounds", rounds)
    state = channel.init(stream(seed, "channel"))
    gain = np.empty((rounds, channel.devices))
    for position in range(rounds):
        gain[position], state = channel.step(state, stream(seed, "channel", position))
    return gain


_SHEETS = (".xlsx", ".xls", ".ods")


def _known_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise InputError(
            f"trace {path} has the suffix {path.suffix!r}; "
            f"a trace ends in one of {', '.join(TRACE_SUFFIXES)}"
            + ("; save the sheet as CSV" if suffix in _SHEETS else "")
        )
    return suffix


def _checked(what: str, value: ArrayLike, unit: Unit) -> PerDevice:
    """A read-only copy, zeros turned into NaN, if it is a table of possible numbers of the unit."""
    table = as_float64(what, value, "a table of numbers, one row per round")
    if table.ndim != 2:
        raise InputError(f"{what} must have the shape (rounds, devices), got {table.shape}")
    for axis, name in enumerate(("rounds", "devices")):
        if table.shape[axis] == 0:
            raise InputError(f"{what} has zero {name}; it needs at least one round and one device")
    bad = np.isinf(table) if unit.is_logarithmic else (table < 0.0) | np.isinf(table)
    if bad.any():
        row, device = (int(index) for index in np.argwhere(bad)[0])
        number = f"in round {row} of device {device} is {table[row, device]}"
        raise InputError(f"{what}: {_impossible(number, unit)}")
    if not unit.is_logarithmic:  # 0 dB is as good a gain as any
        table[table == 0.0] = np.nan
    table.setflags(write=False)
    return table


def _impossible(number: str, unit: Unit) -> str:
    """What is wrong with a number of that unit."""
    empty = "and empty or NaN means unreachable"
    if unit == GAIN:
        return f"the gain {number}; gains are linear (not dB), finite and not negative, {empty}"
    if unit.is_logarithmic:
        return f"the number {number}; numbers are finite, {empty}"
    return f"the rate {number}; rates are finite and not negative, {empty}"
