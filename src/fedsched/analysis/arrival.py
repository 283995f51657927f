"""When a run reached a target: one answer for every command, by a protocol that has a name.

A noisy curve passes a target and falls back, so a single measurement is luck. Two protocols guard
against it. Each gives every place of a curve a level: the highest target that counts as reached
there. A target is reached at the first place whose level is at or above it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from fedsched.analysis.curves import Curve, curve_of, training_loss
from fedsched.checks import one_of, whole_number
from fedsched.clock import elapsed_s
from fedsched.runs.runlog import RunLog

__all__ = [
    "ACCURACY",
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

    def levels(self, curve: Curve) -> Curve:
        """The least of each measurement and those that follow it."""
        if len(curve.value) < self.patience:
            return curve.at(np.zeros(0, dtype=np.int64))
        windows = np.lib.stride_tricks.sliding_window_view(curve.value, self.patience)
        return replace(curve.at(np.arange(len(windows))), value=windows.min(axis=1))


@dataclass(frozen=True)
class RunningMean:
    r"""Reached when the mean of the measurements of the last ``rounds`` rounds is at the target.

    The level at a measurement after round r is the mean of those in :math:`(r - W, r]`, where W is
    the window. It looks back only, and there is none before W rounds are done.
    """

    name: ClassVar[str] = "mean"
    rounds: int = 200

    def __post_init__(self) -> None:
        whole_number("rounds", self.rounds)

    @property
    def in_words(self) -> str:
        """When a target is reached, to follow these words."""
        return f"when the mean of the measurements of the last {self.rounds} rounds has reached it"

    def levels(self, curve: Curve) -> Curve:
        """The mean of each measurement and those within the window before it."""
        begin = np.searchsorted(curve.rounds, curve.rounds - self.rounds, side="right")
        places = np.flatnonzero(curve.rounds >= self.rounds)
        # Summed exactly: the mean of equal values is that value.
        means = [math.fsum(curve.value[begin[k] : k + 1]) / (k + 1 - begin[k]) for k in places]
        return replace(curve.at(places), value=np.array(means, dtype=np.float64))


IN_A_ROW = InARow()  # what every command goes by, unless it is asked otherwise
PROTOCOLS: dict[str, ArrivalProtocol] = {each.name: each for each in (IN_A_ROW, RunningMean())}


def arrival_protocol(name: str, *, patience: int = IN_A_ROW.patience) -> ArrivalProtocol:
    """The protocol of that name; ``patience`` is read by "row"."""
    one_of("protocol", name, PROTOCOLS)
    return InARow(patience) if name == InARow.name else PROTOCOLS[name]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """When a target was reached: a straight line in the computation time."""

    airtime_s: float
    rounds: float

    def time_s(self, computation_s: float) -> float:
        """The clock at that moment."""
        return elapsed_s(self.airtime_s, self.rounds, computation_s)


def reach(
    curve: Curve, target: float, protocol: ArrivalProtocol = IN_A_ROW, *, falls: bool = False
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
        >>> reach(curve, 0.8, RunningMean(2))
        Reach(airtime_s=6.0, rounds=3.0)
    """
    sign = -1.0 if falls else 1.0
    levels = protocol.levels(replace(curve, value=sign * curve.value))
    there = np.flatnonzero(levels.value >= sign * target)
    if not len(there):
        return None
    first = there[0]
    return Reach(airtime_s=float(levels.airtime_s[first]), rounds=float(levels.rounds[first]))


def reach_steps(curve: Curve, protocol: ArrivalProtocol = IN_A_ROW) -> Curve:
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
        self, log: RunLog, target: float, protocol: ArrivalProtocol = IN_A_ROW
    ) -> Reach | None:
        """When a run reached a target; None if it never did."""
        return reach(self.curve(log), target, protocol, falls=self.falls)


ACCURACY = Measure(name="test accuracy", curve=curve_of)
TRAINING_LOSS = Measure(name="training loss", curve=training_loss, falls=True)
