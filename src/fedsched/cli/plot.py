"""``fedsched plot``: run folders become figures and tables for a paper."""

from collections.abc import Sequence
from pathlib import Path

import click

from fedsched.analysis.arrival import arrival_protocol
from fedsched.analysis.best import suited_range_s
from fedsched.analysis.groups import Group, group_runs
from fedsched.checks import one_of, positive_number, whole_number
from fedsched.cli.asked import (
    found_logs,
    numbers_above_0,
    own_computation_s,
    remark_other_times,
    remark_short,
)
from fedsched.cli.interrupts import telling
from fedsched.cli.options import NUMBER, WHOLE, json_option, out_option, protocol_options
from fedsched.cli.output import counted, print_json
from fedsched.errors import InputError, UnknownNameError
from fedsched.files import atomic_path, output_path
from fedsched.runs.runlog import RunLog
from fedsched.views.figures import FIGURE_SUFFIXES, save_figure
from fedsched.views.plots import KINDS, WIDTHS_IN, Asked, Kind, check_reached
from fedsched.views.tables import csv_table, latex_times

__all__ = ["command"]

_SUFFIXES = (*FIGURE_SUFFIXES, ".tex", ".csv")


@click.command("plot", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@click.option("--kind", default="convergence", help=f"What to draw: {', '.join(KINDS)}.")
@out_option(f"The file: {', '.join(_SUFFIXES)}.", metavar="FILE", default="figure.pdf")
@click.option("--targets", help="Test accuracies, such as 0.6,0.7,0.775.")
@click.option(
    "--computation-s", type=NUMBER,
    help="Computation time a round that all devices have in common.  [default: the runs' own]",
)  # fmt: skip
@click.option(
    "--until-s", type=NUMBER,
    help="Right end of time-to-target.  [default: behind the last crossing within 10 s]",
)  # fmt: skip
@protocol_options
@click.option("--policies", metavar="NAME,...", help="Show these, and uniform.  [default: all]")
@click.option("--environment", metavar="NAME", help="Show this one alone.  [default: a panel each]")
@click.option("--columns", default="one", help="Width: one column (3.5 in) or two (7.16 in).")
@click.option(
    "--smooth", type=WHOLE, default=1, help="Points of a running mean, of 200 on each curve."
)
@json_option
def command(
    runs: tuple[str, ...], kind: str, out: str, targets: str | None, computation_s: float | None,
    protocol: str | None, patience: int | None, every: int | None,
    policies: str | None, environment: str | None, columns: str, smooth: int,
    until_s: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Draw RUNS for a paper: run folders, or folders that hold them at any depth.

    \b
    convergence     test accuracy over simulated time
    rounds          test accuracy over rounds
    loss            training loss over simulated time
    time-to-target  seconds to each of --targets against the computation time
    speedup         how many times sooner than uniform, by target, with 95 % intervals

    The ending of FILE chooses the format. Figures have the width of a column and 300 dpi. Hue is
    m, dash the policy, shade lambda. A line is the mean of the seeds, and the band goes from the
    lowest to the highest. A .csv has the numbers of the figure; a .tex has a table of times.
    """  # noqa: D301 - Click's mark that keeps lines
    chosen, place = _kind(kind), output_path("out", out, _SUFFIXES)
    one_of("columns", columns, WIDTHS_IN)
    if place.suffix.lower() == ".tex" and not chosen.of_targets:
        raise InputError(
            f"out: {kind} has too many numbers for a table in LaTeX; name a file that ends in "
            ".csv, or ask for --kind time-to-target"
        )
    goals = _targets(targets, chosen)
    if computation_s is not None:
        positive_number("computation-s", computation_s, allow_zero=True)
    if until_s is not None:
        positive_number("until-s", until_s)
        if kind != "time-to-target":
            raise InputError(
                f"until-s is the right end of --kind time-to-target, and --kind {kind} has no axis "
                "of computation times; leave --until-s out"
            )
    logs = found_logs(runs)
    groups = _shown(logs, policies, environment)
    if not any(_policy(group) == "uniform" for group in groups):
        click.echo("there is no run of uniform here; without it nothing says what is gained",
                   err=True)  # fmt: skip
    asked = Asked(
        targets=goals,
        computation_s=own_computation_s(logs) if computation_s is None else computation_s,
        protocol=arrival_protocol(protocol, patience=patience, every=every),
        window=whole_number("smooth", smooth),
        width_in=WIDTHS_IN[columns],
        until_s=until_s,
    )
    if kind == "time-to-target":
        _remark_planners(groups)
    elif kind != "rounds":
        remark_other_times(groups, [asked.computation_s], "its lines are those of other schedules")
    if chosen.of_targets:
        remark_short([log for group in groups for log in group.logs], asked.protocol)
        check_reached(groups, asked)
    with telling(lambda: f"{place} is as it was before"):
        _write(place, chosen, groups, asked)
    seeds = sorted({len(group.logs) for group in groups})
    if as_json:
        about = {"out": str(place), "kind": kind, "computation_s": asked.computation_s}
        print_json({**about, "configurations": [g.label for g in groups], "seeds": seeds})
        return
    of = "" if len(seeds) == 1 else f"{seeds[0]} to "
    click.echo(
        f"wrote {place}: {chosen.about}; {counted(len(groups), 'configuration')} of "
        f"{of}{counted(seeds[-1], 'seed')}, computation {asked.computation_s:g} s a round"
    )


def _kind(name: str) -> Kind:
    one_of("kind", name, KINDS)
    return KINDS[name]


def _targets(text: str | None, kind: Kind) -> list[float]:
    if text is not None:
        return numbers_above_0("targets", text, "test accuracies in (0, 1]", "0.7,0.775", 1.0)
    if kind.of_targets:
        raise InputError(
            f"targets: name the test accuracies to reach for --kind {kind.name}, such as "
            "--targets 0.7,0.775"
        )
    return []


def _shown(logs: Sequence[RunLog], policies: str | None, environment: str | None) -> list[Group]:
    """The configurations asked for; uniform is always one of them."""
    groups = group_runs(logs)
    if environment is not None:
        known = dict.fromkeys(group.environment for group in groups)
        if environment and set(known) == {""}:
            raise InputError(
                f"environment: there is no {environment!r}: all runs have one environment, which "
                "has no name; leave --environment out"
            )
        one_of("environment", environment, known)
        groups = [group for group in groups if group.environment == environment]
    if policies is not None:
        names, there = {each.strip() for each in policies.split(",")}, set(map(_policy, groups))
        for name in sorted(names - there):
            raise UnknownNameError("policies", name, there)
        groups = [group for group in groups if _policy(group) in names | {"uniform"}]
    # Once more, so that names have only what differs between those that are left.
    return group_runs(log for group in groups for log in group.logs)


def _remark_planners(groups: Sequence[Group]) -> None:
    """Say which lines are of schedules that were made for one computation time."""
    for each in groups:
        if (suited_s := suited_range_s(each)) is not None:
            click.echo(
                f"{each.label} was made for {each.fields['policy.computation_s']:g} s of "
                f"computation: its line is meant from {suited_s[0]:g} to {suited_s[1]:g} s",
                err=True,
            )


def _policy(group: Group) -> str:
    return str(group.fields["policy.kind"])


def _write(place: Path, kind: Kind, groups: Sequence[Group], asked: Asked) -> None:
    suffix = place.suffix.lower()
    if suffix in FIGURE_SUFFIXES:
        save_figure(kind.figure(groups, asked), place)
        return
    table = latex_times if suffix == ".tex" else csv_table
    with atomic_path(place) as aside:
        aside.write_text(table(kind.rows(groups, asked)), encoding="utf-8")
