"""Seconds on the wall of runs whose rounds were measured, as those of Flower are."""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from fedsched.runs.runlog import RunLog

__all__ = ["on_the_wall", "walls_s"]

Values = NDArray[np.float64]


def walls_s(log: RunLog, rounds: Values) -> list[float] | None:
    """The seconds on the wall until so many rounds were done; None of a run that is simulated."""
    wall_s = _measured(log)
    if wall_s is None:
        return None
    return [float(each) for each in np.cumsum(wall_s)[rounds.astype(np.int64) - 1]]


def on_the_wall(logs: Sequence[RunLog]) -> dict[str, float | None]:
    """Seconds of a round on the wall, and of its exchange: until the last reply came; means."""
    walls = [each for log in logs if (each := _measured(log)) is not None]
    exchanges = [it for log in logs if (it := _exchange_s(log)) is not None]
    return {
        "wall_s_per_round": fmean(float(each.mean()) for each in walls)
        if len(walls) == len(logs)
        else None,
        "exchange_s_per_round": fmean(exchanges) if len(exchanges) == len(logs) else None,
    }


def _measured(log: RunLog) -> Values | None:
    wall_s = log.column("wall_s") if log.has("wall_s") else np.empty(0)
    return wall_s if len(wall_s) and np.isfinite(wall_s).all() else None


def _exchange_s(log: RunLog) -> float | None:
    rounds = log.lists("took_s") if log.has("took_s") else []
    replies = [[each for each in took if math.isfinite(each)] for took in rounds]
    longest = [max(each) for each in replies if each]
    return fmean(longest) if longest else None
