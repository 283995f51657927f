"""When a run reached a target: one answer for every command, by a protocol that has a name.

A noisy curve passes a target and falls back, so a single measurement is luck. Two protocols guard
against it. Each gives every place of a curve a level: the highest target that counts as reached
there. A target is reached at the first place whose level is at or above it. All commands go by
:data:`ARRIVAL`, unless they are asked otherwise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from fedsched.analysis.curves import Curve, curve_of, training_loss
from fedsched.checks import one_of, whole_number
from fedsched.clock import elapsed_s
from fedsched.errors import InputError
from fedsched.runs.runlog import RunLog

__all__ = [
    "ACCURACY",
    "ARRIVAL",
    "IN_A_ROW",
    "PROTOCOLS",
    "TRAINING_LOSS",
    "ArrivalProtocol",
    "InARow",
    "Measure",
    "Reach",
    "RunningMean",
    "arrival_protocol",
    "reach",
    "reach_steps",
]


class ArrivalProtocol(Protocol):
    """What counts as having reached a target."""

    name: ClassVar[str]

    @property
    def in_words(self) -> str:
        """When a target is reached, to follow these words."""

    @property
    def title(self) -> str:
        """The same for the title of a table."""

    @property
    def fewest(self) -> int:
        """Measurements that a run must have for a target to be reached."""

    def levels(self, curve: Curve) -> Curve:
        """Places of a curve that rises, with the highest target that is reached at each."""


@dataclass(frozen=True)
class InARow:
    r"""Reached at the first of ``patience`` measurements in a row at or above the target.

    The level at place i is :math:`\min(v_i, \dots, v_{i+p-1})` for patience p.
    """

    name: ClassVar[str] = "row"
    patience: int = 3

    def __post_init__(self) -> None:
        whole_number("patience", self.patience)

    @property
    def in_words(self) -> str:
        """When a target is reached, to follow these words."""
        if self.patience == 1:
            return "at the first measurement at or above it"
        return f"at the first of {self.patience} measurements in a row at or above it"

    @property
    def title(self) -> str:
        """The same for the title of a table."""
        return f"by {self.patience} measurement{'s in a row' if self.patience > 1 else ''}"

    @property
    def fewest(self) -> int:
        """Measurements that a run must have for a target to be reached."""
        return self.patience

    def levels(self, curve: Curve) -> Curve:
        """The least of each measurement and those that follow it."""
        if len(curve.value) < self.patience:
            return curve.at(np.zeros(0, dtype=np.int64))
        windows = np.lib.stride_tricks.sliding_window_view(curve.value, self.patience)
        return replace(curve.at(np.arange(len(windows))), value=windows.min(axis=1))


_SHARE = 5  # a window is at most this part of the rounds done
_FEWEST = 4  # measurements in it


@dataclass(frozen=True)
class RunningMean:
    r"""Reached when the mean of the measurements of the last ``rounds`` rounds is at the target.

    The level at a measurement after round r is the mean of those in :math:`(r - w, r]` with the
    window :math:`w = \min(W, r/5)`, and of the last four where these are fewer. It looks back only.
    With ``every`` the first measurement at or after each multiple of so many rounds counts and no
    other, so that runs that were measured more and less often have equal luck.
    """

    name: ClassVar[str] = "mean"
    rounds: int = 200
    every: int = 1

    def __post_init__(self) -> None:
        whole_number("rounds", self.rounds)
        whole_number("every", self.every)

    @property
    def in_words(self) -> str:
        """When a target is reached, to follow these words."""
        grid = f", counted every {self.every} rounds," if self.every > 1 else ""
        return (
            f"when the mean of the measurements{grid} of the last {self.rounds:,} rounds, or of "
            f"the last fifth where that is less, has reached it"
        )

    @property
    def title(self) -> str:
        """The same for the title of a table."""
        grid = f" every {self.every} rounds" if self.every > 1 else ""
        return f"by the {self.rounds:,}-round mean{grid}"

    @property
    def fewest(self) -> int:
        """Measurements that a run must have for a target to be reached."""
        return _FEWEST

    def levels(self, curve: Curve) -> Curve:
        """The mean of each measurement and those within the window before it."""
        counted = curve.at(np.diff(curve.rounds // self.every, prepend=0.0) > 0.0)
        rounds, value = counted.rounds, counted.value
        windows = np.minimum(self.rounds, rounds / _SHARE)
        ends = np.arange(1, len(value) + 1)
        begins = np.minimum(np.searchsorted(rounds, rounds - windows, side="right"), ends - _FEWEST)
        places = np.flatnonzero(begins >= 0)
        # Summed exactly: the mean of equal values is that value.
        means = [math.fsum(value[begins[k] : ends[k]]) / (ends[k] - begins[k]) for k in places]
        return replace(counted.at(places), value=np.array(means, dtype=np.float64))


IN_A_ROW = InARow()
ARRIVAL = RunningMean()  # what every command goes by, unless it is asked otherwise
PROTOCOLS: dict[str, ArrivalProtocol] = {each.name: each for each in (ARRIVAL, IN_A_ROW)}


def arrival_protocol(
    name: str | None = None, *, patience: int | None = None, every: int | None = None
) -> ArrivalProtocol:
    """The protocol of that name, else :data:`ARRIVAL`; with a ``patience`` it is "row"."""
    if name is not None:
        one_of("protocol", name, PROTOCOLS)
    if every is not None:
        if name == InARow.name or patience is not None:
            raise InputError(
                f"every = {every} says which measurements a mean is of, and measurements in a row "
                "all count; leave out one of the two"
            )
        return RunningMean(every=every)
    if patience is None:
        return ARRIVAL if name is None else PROTOCOLS[name]
    if name == RunningMean.name:
        raise InputError(
            f"patience = {patience} counts measurements in a row, and the protocol {name!r} takes "
            'their mean; leave out one of the two, or ask for the protocol "row"'
        )
    return InARow(patience)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """When a target was reached: a straight line in the computation time."""

    airtime_s: float
    rounds: float

    def time_s(self, computation_s: float) -> float:
        """The clock at that moment."""
        return elapsed_s(self.airtime_s, self.rounds, computation_s)


def reach(
    curve: Curve, target: float, protocol: ArrivalProtocol = ARRIVAL, *, falls: bool = False
) -> Reach | None:
    """When a curve reached a target, by a protocol; None if it never did.

    Of one that ``falls`` the target is reached from above.

    Example:
        >>> curve = Curve(rounds=np.array([1.0, 2, 3, 4]), airtime_s=np.array([2.0, 4, 6, 8]),
        ...               value=np.array([0.5, 0.9, 0.7, 0.9]))
        >>> reach(curve, 0.8, InARow(1))
        Reach(airtime_s=4.0, rounds=2.0)
        >>> reach(curve, 0.8, InARow(2)) is None
        True
        >>> reach(curve, 0.7, RunningMean(2))
        Reach(airtime_s=8.0, rounds=4.0)
    """
    sign = -1.0 if falls else 1.0
    levels = protocol.levels(replace(curve, value=sign * curve.value))
    there = np.flatnonzero(levels.value >= sign * target)
    if not len(there):
        return None
    first = there[0]
    return Reach(airtime_s=float(levels.airtime_s[first]), rounds=float(levels.rounds[first]))


def reach_steps(curve: Curve, protocol: ArrivalProtocol = ARRIVAL) -> Curve:
    """The places where a curve's level is higher than ever before, with these levels.

    They answer for every target without loss, and are few.

    Example:
        >>> curve = Curve(rounds=np.array([1.0, 2, 3, 4]), airtime_s=np.array([2.0, 4, 6, 8]),
        ...               value=np.array([0.5, 0.9, 0.7, 0.8]))
        >>> steps = reach_steps(curve, InARow(2))
        >>> steps.rounds.tolist(), steps.value.tolist()
        ([1.0, 2.0], [0.5, 0.7])
    """
    levels = protocol.levels(curve)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(levels.value)[:-1]])
    return levels.at(levels.value > before[: len(levels.value)])


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a run is to reach: a curve of its log, and the way it goes."""

    name: str
    curve: Callable[[RunLog], Curve]
    falls: bool = False

    def reach(
        self, log: RunLog, target: float, protocol: ArrivalProtocol = ARRIVAL
    ) -> Reach | None:
        """When a run reached a target; None if it never did."""
        return reach(self.curve(log), target, protocol, falls=self.falls)


ACCURACY = Measure(name="test accuracy", curve=curve_of)
TRAINING_LOSS = Measure(name="training loss", curve=training_loss, falls=True)
