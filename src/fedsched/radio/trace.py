"""Recorded traces: gains of shape (rounds, devices), from a file or from another channel."""

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
        gain: linear power gains, shape (rounds, devices).
        repeat: start again at the first row when the run is longer than the trace; if False,
            the first round beyond the trace raises an InputError.

    Example:
        >>> trace = Trace(np.array([[0.5, 2.0], [0.0, 1.0]]))
        >>> rng = np.random.default_rng(0)
        >>> gain, state = trace.step(trace.init(rng), rng)
        >>> gain.tolist(), trace.step(state, rng)[0].tolist()
        ([0.5, 2.0], [nan, 1.0])
    """

    gain: PerDevice
    repeat: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", _checked("trace", self.gain))

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
        return hashlib.sha256(
            f"{self.rounds} x {self.devices}\n".encode() + same.tobytes()
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


def read_trace(path: str | Path) -> PerDevice:
    """Read recorded gains from a CSV, Parquet or NPZ file.

    Rounds are rows and devices are columns, both numbered from 0. An empty cell, a null, NaN or a
    gain of exactly 0 means that the device cannot be reached in that round.

    * CSV: numbers separated by commas; a first line without any number is a header.
    * Parquet: one column per device.
    * NPZ: the array ``gain``, or the only array.

    A CSV or Parquet file with columns named ``round``, ``device`` and ``gain`` is read as a long
    table, one row per round and device; rounds count from the smallest one, pairs that are left
    out are unreachable, and further columns are ignored.

    Returns:
        Linear power gains of shape (rounds, devices), NaN where unreachable.
    """
    path = Path(path)
    read = READERS[_known_suffix(path)]
    try:
        gain = read(path)
    except OSError as error:
        raise InputError(
            f"trace {path} cannot be read: {error.strerror or error}; "
            "check that the file exists and that you may read it"
        ) from error
    return _checked(f"trace {path}", gain)


def write_trace(path: str | Path, gain: ArrayLike) -> None:
    """Write gains of shape (rounds, devices) as CSV, Parquet or NPZ, by the suffix.

    :func:`read_trace` gives back the same numbers to the last bit (a gain of 0 becomes NaN).
    """
    path = Path(path)
    write = WRITERS[_known_suffix(path)]
    checked = _checked("gain", gain)
    try:
        write(path, checked)
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


def _known_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise InputError(
            f"trace {path} has the suffix {path.suffix!r}; "
            f"a trace ends in one of {', '.join(TRACE_SUFFIXES)}"
        )
    return suffix


def _checked(what: str, value: ArrayLike) -> PerDevice:
    """A read-only copy with zeros turned into NaN, if it is a table of possible gains."""
    gain = as_float64(what, value, "a table of numbers, one row per round")
    if gain.ndim != 2:
        raise InputError(f"{what} must have the shape (rounds, devices), got {gain.shape}")
    for axis, name in enumerate(("rounds", "devices")):
        if gain.shape[axis] == 0:
            raise InputError(f"{what} has zero {name}; it needs at least one round and one device")
    bad = (gain < 0.0) | np.isinf(gain)
    if bad.any():
        row, device = (int(index) for index in np.argwhere(bad)[0])
        raise InputError(
            f"{what}: the gain in round {row} of device {device} is {gain[row, device]}; gains "
            "are linear (not dB), finite and not negative, and empty or NaN means unreachable"
        )
    gain[gain == 0.0] = np.nan
    gain.setflags(write=False)
    return gain
