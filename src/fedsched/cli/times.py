"""``fedsched times``: from run folders to seconds, rounds and speed-ups, as tables of text."""

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from fedsched.analysis.arrival import (
    ACCURACY,
    IN_A_ROW,
    TRAINING_LOSS,
    ArrivalProtocol,
    Measure,
    Reach,
    arrival_protocol,
)
from fedsched.analysis.best import Best, best_against_best
from fedsched.analysis.groups import Group, group_runs
from fedsched.analysis.speedup import Speedup
from fedsched.analysis.times import Row, times_to_targets
from fedsched.checks import positive_number
from fedsched.cli.asked import (
    found_logs,
    numbers_above_0,
    own_computation_s,
    remark_other_times,
    remark_short,
)
from fedsched.cli.budgets import print_budgets
from fedsched.cli.options import NUMBER, json_option, protocol_options
from fedsched.cli.output import print_json, print_table, seconds, sent
from fedsched.errors import InputError
from fedsched.quantities import parse_number

__all__ = ["command"]


@click.command("times", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@click.option("--targets", help="Test accuracies, such as 0.6,0.7,0.775.")
@click.option("--losses", help="Training losses in place of --targets, such as 1,0.8,0.6.")
@click.option(
    "--computation-s", type=NUMBER,
    help="Computation time a round that all devices have in common.  [default: the runs' own]",
)  # fmt: skip
@click.option(
    "--slower", type=NUMBER, default=1.0, help="Devices compute so many times as long as they did."
)
@partial(protocol_options, more=["both"])
@click.option(
    "--against",
    metavar="CONFIGURATION",
    help="Compare all with this one.  [default: uniform, draws and design alike]",
)
@click.option(
    "--best", metavar="SECONDS,...",
    help="Each policy with its best configuration, at each of these computation times.",
)  # fmt: skip
@click.option("--by-seed", is_flag=True, help="A row for each run, not for each configuration.")
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
@json_option
def command(
    runs: tuple[str, ...], targets: str | None, losses: str | None, computation_s: float | None,
    slower: float, protocol: str | None, patience: int | None, every: int | None,
    against: str | None, best: str | None, by_seed: bool, markdown: bool, as_json: bool,
) -> None:  # fmt: skip
    """Say when the RUNS reached each accuracy, and how many times sooner than uniform selection.

    RUNS are run folders, or folders that hold them at any depth. Runs that differ in their seed
    alone are one configuration: its time is the mean, its speed-up the geometric mean of the
    seeds' ratios with a 95 % interval. It has reached a target when all its seeds have. "On
    average" is the geometric mean over the targets, the steadier number where curves are flat.

    With --best each policy is compared with its own best m and lambda, found with hindsight among
    its configurations with the most seeds, with the best of uniform.

    With --losses it is the training loss of the rounds since the last measurement that must fall
    that low. It has far less noise than a test accuracy; but each device trains on its own data,
    so where these are unlike it says little of the model.
    """
    measure, goals = _asked(targets, losses)
    if computation_s is not None:
        positive_number("computation-s", computation_s, allow_zero=True)
    protocols = (
        [arrival_protocol(every=every), arrival_protocol(IN_A_ROW.name, patience=patience)]
        if protocol == "both"
        else [arrival_protocol(protocol, patience=patience, every=every)]
    )
    if markdown and as_json:
        raise click.UsageError("tables come as --markdown or as --json, not as both")
    if best is not None:
        _refuse_beside_best(
            {"--computation-s": computation_s is not None, "--against": against is not None,
             "--by-seed": by_seed}
        )  # fmt: skip
    logs = found_logs(runs, slower=positive_number("slower", slower, allow_zero=True))
    groups = group_runs(logs)
    for each in protocols:
        remark_short(logs, each, measure)
    if best is not None:
        computations_s = _seconds(best)
        remark_other_times(groups, computations_s, "it takes no part there")
        _print_best(groups, goals, measure, protocols, computations_s, markdown, as_json)
        return
    if computation_s is None:
        computation_s = slower * own_computation_s(logs)
    remark_other_times(groups, [computation_s], "its rows are those of other schedules")
    tables = {
        each: times_to_targets(
            groups, goals, computation_s=computation_s, protocol=each, against=against,
            by_seed=by_seed, measure=measure,
        )
        for each in protocols
    }  # fmt: skip
    if as_json:
        about = {"measure": measure.name, "targets": goals,
                 "computation_s": computation_s, "slower": slower}  # fmt: skip
        plain = [
            {"protocol": each.name, **_plain(row, computation_s)}
            for each, rows in tables.items()
            for row in rows
        ]
        print_json({**about, "rows": plain})
        return
    for each, rows in tables.items():
        _print(each, rows, goals, measure, computation_s, markdown)


def _refuse_beside_best(given: Mapping[str, bool]) -> None:
    """Refuse what --best has no use for."""
    instead = {
        "--computation-s": "--best has the computation times itself, such as --best 0,0.1,1",
        "--against": "--best compares with the best of uniform",
        "--by-seed": "--best takes the mean of the seeds of a configuration",
    }
    for name in (name for name, is_given in given.items() if is_given):
        raise click.UsageError(f"{name} does not go with --best: {instead[name]}; leave one out")


def _print(
    protocol: ArrivalProtocol,
    rows: list[Row],
    goals: list[float],
    measure: Measure,
    computation_s: float,
    markdown: bool,
) -> None:
    """Two tables for each environment: times, and how many times sooner."""
    what = "" if measure is ACCURACY else f" to a {measure.name}"
    what = f"{what} {protocol.title}, computation {computation_s:g} s a round"
    names = [f"to {goal:g}" for goal in goals]
    overall = ["on average"] if len(goals) > 1 else []
    if not markdown:
        print_budgets([(row.configuration, row.budgets) for row in rows])
    for environment in dict.fromkeys(row.environment for row in rows):
        here = [row for row in rows if row.environment == environment]
        where = f"{environment}: " if environment else ""
        packed = len({row.upload_bits for row in here}) > 1 or any(row.omega for row in here)
        print_table(
            f"{where}seconds and rounds{what}",
            ["configuration", "seeds", *(["Mbit an upload", "omega"] if packed else []), *names],
            [
                [
                    row.configuration,
                    _seeds(row),
                    *(sent(row.upload_bits, row.omega) if packed else []),
                    *(_time(r, computation_s) for r in row.reached),
                ]
                for row in here
            ],
            markdown=markdown,
        )
        if measured := [row for row in here if any(each is not None for each in row.wall_s)]:
            print_table(
                f"{where}seconds on the wall",
                ["configuration", "seeds", *names],
                [[row.configuration, _seeds(row), *map(_wall, row.wall_s)] for row in measured],
                markdown=markdown,
            )
        if compared := [row for row in here if any(row.sooner)]:
            print_table(
                f"{where}times sooner{what}",
                ["configuration", "seeds", "than", *names, *overall],
                [
                    [row.configuration, _seeds(row), str(row.against), *map(_gain, _gains(row))]
                    for row in compared
                ],
                markdown=markdown,
            )


def _print_best(
    groups: list[Group],
    goals: list[float],
    measure: Measure,
    protocols: list[ArrivalProtocol],
    computations_s: list[float],
    markdown: bool,
    as_json: bool,
) -> None:
    """A table for each environment and protocol."""
    found = {
        protocol: best_against_best(
            groups, goals, computations_s, protocol=protocol, measure=measure
        )
        for protocol in protocols
    }
    if as_json:
        print_json({"measure": measure.name, "targets": goals, "rows": [
            {"protocol": protocol.name, **dataclasses.asdict(each),
             "seconds": [one.time_s(each.computation_s) for one in each.reached]}
            for protocol, rows in found.items() for each in rows
        ]})  # fmt: skip
        return
    what = "" if measure is ACCURACY else f" to a {measure.name}"
    overall = ["on average"] if len(goals) > 1 else []
    for protocol, rows in found.items():
        for environment in dict.fromkeys(each.environment for each in rows):
            where = f"{environment}: " if environment else ""
            print_table(
                f"{where}best against best{what} {protocol.title}",
                [
                    "computation",
                    "the best",
                    "seeds",
                    f"to {goals[-1]:g}",
                    *(f"sooner to {goal:g}" for goal in goals),
                    *overall,
                ],
                [
                    [
                        f"{each.computation_s:g} s",
                        each.configuration,
                        ",".join(map(str, each.seeds)),
                        _time(each.reached[-1], each.computation_s),
                        *map(_gain, _gains(each)),
                    ]
                    for each in rows
                    if each.environment == environment
                ],
                markdown=markdown,
            )


def _seconds(text: str) -> list[float]:
    """Computation times, with commas between."""
    try:
        found = [parse_number("best", word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0.0 <= each < math.inf for each in found):
        raise InputError(
            "best must be computation times in seconds with commas between, such as 0,0.1,1,10, "
            f"got {text!r}"
        )
    return found


def _asked(targets: str | None, losses: str | None) -> tuple[Measure, list[float]]:
    """What is to be reached, and the values of it."""
    if (targets is None) == (losses is None):
        raise InputError(
            "targets: name the test accuracies to reach with --targets, such as --targets "
            "0.7,0.775, or training losses with --losses; one of the two"
        )
    if targets is not None:
        return ACCURACY, numbers_above_0(
            "targets", targets, "test accuracies in (0, 1]", "0.7,0.775", 1.0
        )
    return TRAINING_LOSS, numbers_above_0(
        "losses", str(losses), "training losses above 0", "1,0.8", math.inf
    )


def _seeds(row: Row) -> str:
    return ",".join(map(str, row.seeds))


def _time(reached: Reach | None, computation_s: float) -> str:
    if reached is None:
        return "-"
    time_s = reached.time_s(computation_s)
    said = f"{time_s:,.0f}" if time_s >= 100 else seconds(time_s)
    return f"{said} s, {reached.rounds:,.0f}"


def _wall(wall_s: float | None) -> str:
    return "-" if wall_s is None else f"{wall_s:,.{0 if wall_s >= 100 else 1}f} s"


def _gains(row: Row | Best) -> list[Speedup | None]:
    """To each target and, of several, on average."""
    return [*row.sooner, row.sooner_overall] if len(row.sooner) > 1 else list(row.sooner)


def _gain(gain: Speedup | None) -> str:
    if gain is None:
        return "-"
    digits = 2 if gain.ratio < 2.0 else 1  # as many as a few seeds can tell
    said = f"{gain.ratio:.{digits}f}" if gain.ratio >= 0.1 else f"{gain.ratio:.2g}"
    if gain.interval is None:
        return said
    low, high = gain.interval
    return f"{said} ({low:.{digits}f} to {high:.{digits}f})"


def _plain(row: Row, computation_s: float) -> dict[str, Any]:
    overall = row.sooner_overall
    return {
        "configuration": row.configuration,
        "environment": row.environment,
        "seeds": list(row.seeds),
        "against": row.against,
        "upload_bits": row.upload_bits,
        "omega": row.omega,
        "budgets": list(row.budgets),
        "seconds": [None if each is None else each.time_s(computation_s) for each in row.reached],
        "rounds": [None if each is None else each.rounds for each in row.reached],
        "wall_s": list(row.wall_s),
        "sooner": [None if each is None else each.ratio for each in row.sooner],
        "sooner_low": [None if each is None else each.low for each in row.sooner],
        "sooner_high": [None if each is None else each.high for each in row.sooner],
        "sooner_overall": None if overall is None else dataclasses.asdict(overall),
    }
