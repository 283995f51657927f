"""What commands that read runs are asked for: the runs, the targets, the computation time."""

import math
from collections.abc import Sequence

import click

from fedsched.analysis.arrival import ACCURACY, ArrivalProtocol, Measure
from fedsched.analysis.best import made_for_other_times
from fedsched.analysis.collect import collect_runs
from fedsched.analysis.groups import Group
from fedsched.analysis.times import scenario_times_s
from fedsched.cli.output import counted
from fedsched.errors import InputError
from fedsched.quantities import parse_number
from fedsched.runs.runlog import RunLog

__all__ = [
    "found_logs",
    "numbers_above_0",
    "own_computation_s",
    "remark_other_times",
    "remark_short",
]


def found_logs(runs: Sequence[str], *, slower: float = 1.0) -> list[RunLog]:
    """The logs of the runs in and below some folders; what is left out is said, with the reason."""
    found = collect_runs(runs, slower=slower)
    for left_out in found.left_out:
        click.echo(f"left out: {left_out.name}: {left_out.reason}", err=True)
    if not found.runs:
        raise InputError(f"runs: there is no run that can be read in {', '.join(runs)}")
    return [run.log for run in found.runs]


def remark_short(
    logs: Sequence[RunLog], protocol: ArrivalProtocol, measure: Measure = ACCURACY
) -> None:
    """Say which runs have too few measurements to reach anything, however well they learn."""
    short = sum(not len(protocol.levels(measure.curve(log)).value) for log in logs)
    if short:
        click.echo(
            f"{short} of {counted(len(logs), 'run')} cannot reach a target: fewer than "
            f"{protocol.fewest} measurements count; measure more often (run.eval_every), or take "
            "the first measurement at the target with --protocol row --patience 1",
            err=True,
        )


def remark_other_times(
    groups: Sequence[Group], computations_s: Sequence[float], consequence: str
) -> None:
    """Say which policies plan with the computation time and have no run for one of these."""
    for each in made_for_other_times(groups, computations_s):
        where = f"{each.environment}: " if each.environment else ""
        click.echo(
            f"{where}{each.policy} plans with the computation time, and no run of it was made for "
            f"about {_listed(each.computations_s, 'or')} s, only for "
            f"{_listed(each.made_for_s, 'and')} s; {consequence}",
            err=True,
        )


def _listed(values: Sequence[float], word: str) -> str:
    *first, last = [f"{each:g}" for each in values]
    return f"{', '.join(first)} {word} {last}" if first else last


def own_computation_s(logs: Sequence[RunLog]) -> float:
    """The computation time that all the scenarios have."""
    found = sorted(scenario_times_s(logs))
    if len(found) > 1:
        raise InputError(
            f"computation-s is missing: the runs have {', '.join(f'{each:g}' for each in found)} s "
            "a round in their scenarios; name the one to compare them at"
        )
    return found[0]


def numbers_above_0(field: str, text: str, allowed: str, example: str, most: float) -> list[float]:
    """Numbers above 0 and up to ``most``, from a text with commas between them."""
    try:
        goals = [parse_number(field, word) for word in text.split(",")]
    except ValueError:
        goals = []
    if not goals or not all(0.0 < goal <= most and goal < math.inf for goal in goals):
        raise InputError(
            f"{field} must be {allowed} with commas between, such as {example}, got {text!r}"
        )
    return goals
