"""When every configuration reached which accuracy or loss, and how much sooner than another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from fedsched.analysis.arrival import ACCURACY, ARRIVAL, ArrivalProtocol, Measure, Reach
from fedsched.analysis.comparison import budget_uses, mean_omega, upload_bits
from fedsched.analysis.groups import (
    Group,
    baseline_of,
    mean_reach,
    paired_speedup,
    seed_reaches,
)
from fedsched.analysis.speedup import Speedup
from fedsched.analysis.wall import walls_s
from fedsched.errors import UnknownNameError
from fedsched.runs.manifest import common_computation_s
from fedsched.runs.runlog import RunLog

__all__ = ["Row", "scenario_times_s", "times_to_targets"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One configuration, or one run of it; tuples have a place for each target asked for."""

    configuration: str
    environment: str  # only within one are times comparable
    seeds: tuple[int, ...]
    against: str | None  # what it is compared with; None if there is nothing like it
    reached: tuple[Reach | None, ...]  # None: not yet, or not by all of its seeds
    sooner: tuple[Speedup | None, ...]
    sooner_overall: Speedup | None  # the geometric mean over the targets
    upload_bits: float | None = None  # mean over uploads
    omega: float | None = None  # what compression added; None without it
    budgets: tuple[dict[str, Any], ...] = ()  # each with what the worst device used of its limit
    wall_s: tuple[float | None, ...] = ()  # where rounds were measured: on the wall, mean


def scenario_times_s(logs: Sequence[RunLog]) -> Counter[float]:
    """The computation times that the scenarios have in common for all devices, and how often."""
    return Counter(common_computation_s(log.manifest) for log in logs)


def times_to_targets(
    groups: Sequence[Group],
    targets: Sequence[float],
    *,
    computation_s: float = 0.0,
    protocol: ArrivalProtocol = ARRIVAL,
    against: str | None = None,
    by_seed: bool = False,
    measure: Measure = ACCURACY,
) -> list[Row]:
    """Rows in the order of ``groups``.

    Args:
        groups: configurations, as :func:`fedsched.analysis.groups.group_runs` makes them.
        targets: test accuracies, or values of another ``measure``.
        computation_s: computation time a round, for the comparison of times.
        protocol: what counts as having reached a target.
        against: the configuration that all others of its environment are compared with; if None,
            each is compared with uniform selection that is like it in all that uniform reads.
        by_seed: a row for each run instead of one for all runs of a configuration.
        measure: what is to reach the targets.
    """
    known = [group.choice for group in groups]
    if against is not None and against not in known:
        raise UnknownNameError("against", against, dict.fromkeys(known))
    return [
        _row(each, base, targets, measure, computation_s=computation_s, protocol=protocol)
        for group in groups
        for base in [_base(group, groups, against)]
        for each in (_single(group) if by_seed else [group])
    ]


def _row(
    group: Group,
    base: Group | None,
    targets: Sequence[float],
    measure: Measure,
    *,
    computation_s: float,
    protocol: ArrivalProtocol,
) -> Row:
    def sooner(*goals: float) -> Speedup | None:
        if base is None:
            return None
        return paired_speedup(
            base, group, *goals, computation_s=computation_s, protocol=protocol, measure=measure
        )

    return Row(
        configuration=group.choice,
        environment=group.environment,
        seeds=tuple(group.seeds),
        against=None if base is None else base.choice,
        upload_bits=upload_bits(group.logs),
        omega=mean_omega(group.logs),
        budgets=tuple(budget_uses(group.logs)),
        wall_s=tuple(_wall_s(group, goal, protocol, measure) for goal in targets),
        reached=tuple(mean_reach(group, goal, protocol, measure=measure) for goal in targets),
        sooner=tuple(sooner(goal) for goal in targets),
        sooner_overall=sooner(*targets),
    )


def _wall_s(group: Group, goal: float, protocol: ArrivalProtocol, measure: Measure) -> float | None:
    """Seconds on the wall until a target, mean over seeds; None where they are not known."""
    reached = seed_reaches(group, goal, protocol, measure=measure)
    known = [
        wall_s
        for log, each in zip(group.logs, reached, strict=False)
        for wall_s in walls_s(log, np.array([each.rounds])) or []
    ]
    return fmean(known) if known and len(known) == len(group.logs) else None


def _base(group: Group, groups: Sequence[Group], against: str | None) -> Group | None:
    if against is None:
        return baseline_of(group, groups)
    here = [each for each in groups if each.environment == group.environment]
    return next((each for each in here if each.choice == against and each is not group), None)


def _single(group: Group) -> list[Group]:
    return [replace(group, logs=(log,)) for log in group.logs]
