"""From logs to answers: curves, groups of runs, times to a target."""

from fedsched.analysis.arrival import (
    ACCURACY,
    ARRIVAL,
    TRAINING_LOSS,
    ArrivalProtocol,
    InARow,
    Measure,
    Reach,
    RunningMean,
    reach,
)
from fedsched.analysis.best import Best, best_against_best
from fedsched.analysis.collect import Collection, GoodRun, LeftOut, collect_runs
from fedsched.analysis.comparison import comparison_row
from fedsched.analysis.curves import Curve, curve_of, mean_curve, training_loss
from fedsched.analysis.envelope import Segment, lower_envelope
from fedsched.analysis.groups import Group, group_runs, mean_reach, paired_speedup
from fedsched.analysis.speedup import Speedup
from fedsched.analysis.tally import ScheduleSummary, ScheduleTally
from fedsched.analysis.times import Row, times_to_targets

__all__ = [
    "ACCURACY",
    "ARRIVAL",
    "TRAINING_LOSS",
    "ArrivalProtocol",
    "Best",
    "Collection",
    "Curve",
    "GoodRun",
    "Group",
    "InARow",
    "LeftOut",
    "Measure",
    "Reach",
    "Row",
    "RunningMean",
    "ScheduleSummary",
    "ScheduleTally",
    "Segment",
    "Speedup",
    "best_against_best",
    "collect_runs",
    "comparison_row",
    "curve_of",
    "group_runs",
    "lower_envelope",
    "mean_curve",
    "mean_reach",
    "paired_speedup",
    "reach",
    "times_to_targets",
    "training_loss",
]
