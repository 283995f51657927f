"""From logs to answers: when a target was reached, and how much sooner."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.results.runlog import RunLog

__all__ = ["Curve", "accuracy_curve", "time_to_target"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """A quantity at the rounds where it was measured; time is airtime plus rounds x computation."""

    rounds: NDArray[np.float64]  # rounds done
    airtime_s: NDArray[np.float64]  # seconds on air until then
    value: NDArray[np.float64]

    def time_s(self, computation_s: float) -> NDArray[np.float64]:
        """The clock at each point, for any computation time a round."""
        return np.asarray(self.airtime_s + computation_s * self.rounds)


def accuracy_curve(log: RunLog, column: str = "test_accuracy") -> Curve:
    """A column of a log at the rounds where it was measured."""
    value = log.column(column)
    measured = np.flatnonzero(~np.isnan(value))
    airtime_s = np.cumsum(log.column("airtime_s"))
    return Curve(rounds=measured + 1.0, airtime_s=airtime_s[measured], value=value[measured])


def time_to_target(
    curve: Curve, target: float, *, computation_s: float = 0.0, patience: int = 1
) -> float | None:
    """The clock at the first crossing of ``target`` that lasts ``patience`` measurements.

    A noisy curve passes a target and falls back; a crossing counts if the next ``patience``
    measurements, itself included, are all at or above it. None if that never happens.

    Example:
        >>> curve = Curve(rounds=np.array([1.0, 2, 3, 4]), airtime_s=np.array([2.0, 4, 6, 8]),
        ...               value=np.array([0.5, 0.9, 0.7, 0.9]))
        >>> time_to_target(curve, 0.8), time_to_target(curve, 0.8, patience=2)
        (4.0, None)
    """
    above = curve.value >= target
    held = np.convolve(above, np.ones(patience), mode="full")[patience - 1 :][: len(above)]
    crossings: Sequence[int] = np.flatnonzero(held >= patience).tolist()
    crossings = [at for at in crossings if at + patience <= len(above)]
    return float(curve.time_s(computation_s)[crossings[0]]) if crossings else None
