"""``fedsched advise``: when scheduling pays on a radio, and when not, before any training."""

from collections.abc import Sequence
from typing import Any

import click

from fedsched.checks import positive_number
from fedsched.cli.budgets import ABOVE
from fedsched.cli.options import NUMBER, WHOLE, joined, json_option, out_option, set_option
from fedsched.cli.output import counted, print_json, print_table, track
from fedsched.files import atomic_path, output_path
from fedsched.runs.scenario_file import load_scenarios, states
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.theory.advice import Study, simulate
from fedsched.theory.verdicts import SNR_SHIFTS_DB, TIE, UPLOADS, Point, point
from fedsched.views.figures import FIGURE_SUFFIXES, save_figure
from fedsched.views.tables import csv_table

__all__ = ["command"]

# What advice is for without a file: the paper's radio and fleet.
_PAPER: dict[str, dict[str, Any]] = {
    "run": {"rounds": 4000, "seed": 0},
    "uplink": {"bits": float(PAPER_UPLINK.bits)},
}
_COMPUTATION = "uplink.computation_s"


@click.command("advise", context_settings={"show_default": True})
@click.argument("scenario", required=False)
@click.option(
    "--computation-s", type=NUMBER, help="Of a device in a round.  [default: the scenario's]"
)
@click.option(
    "--kappa", type=NUMBER,
    help="Mean 1/q that doubles the rounds.  [default: devices, and a third and three times that]",
)  # fmt: skip
@click.option(
    "--rounds",
    type=WHOLE,
    help="Of each schedule, that count.  [default: 15 to 100, fewer for more devices]",
)
@click.option(
    "--seeds", type=WHOLE, help="Schedules of each kind.  [default: 2; 1 from 3,000 devices on]"
)
@set_option
@click.option("--plot", metavar="FILE", help=f"Draw it: {', '.join(FIGURE_SUFFIXES)}.")
@out_option("Write all predictions as a table: .csv.", metavar="FILE")
@json_option
def command(
    scenario: str | None, computation_s: float | None, kappa: float | None, rounds: int | None,
    seeds: int | None, plot: str | None, out: str | None, as_json: bool, settings: dict[str, Any],
) -> None:  # fmt: skip
    """Predict when `auto` reaches a target sooner than uniform cohorts, and when it does not.

    SCENARIO is a scenario file; without one it is the paper's radio and fleet. Schedules are
    simulated and nothing is trained. Time to a target is in proportion to (kappa + mean 1/q)
    (computation + airtime a round), so times are relative, and the same for every target. Uniform
    cohorts have 1, 2, 3, 5, ... devices up to all. Other policies that SCENARIO or its [sweep]
    names are predicted as well.
    """
    if kappa is not None:
        positive_number("kappa", kappa)
    joined({"policy.kappa": kappa}, settings)  # refused if set twice
    settings = {**joined({_COMPUTATION: computation_s}, settings)}
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    table = None if out is None else output_path("out", out, (".csv",))
    source = scenario or _PAPER
    study = Study.of(load_scenarios(source, settings=settings), kappa, rounds, seeds)
    upload_s = study.upload_s()
    # A scenario that says nothing of computation is looked at where that is as long as an upload.
    stated = study.own_s > 0.0 or states(source, settings, _COMPUTATION)
    here_s = study.own_s if stated else upload_s
    timed, shifted = _predicted(study, upload_s, here_s)
    here = next(each for each in timed if each.computation_s == here_s)
    if table is not None:
        with atomic_path(table) as aside:
            aside.write_text(csv_table(_flat([*timed, *shifted])), encoding="utf-8", newline="\n")
    if plot is not None:
        from fedsched.theory.drawing import advice_figure

        save_figure(advice_figure(timed, shifted, here, upload_s), plot)
    if as_json:
        about = {
            "devices": study.channel.devices, "upload_s": upload_s, "own_computation_s":
            study.own_s, "kappas": study.kappas, "rounds": study.rounds, "seeds": study.seeds,
        }  # fmt: skip
        print_json({**about, "points": [each.as_dict() for each in (*timed, *shifted)]})
        return
    _print(study, upload_s, timed, shifted, here)
    for name in filter(None, (out, plot)):
        click.echo(f"wrote {name}")


def _predicted(study: Study, upload_s: float, here_s: float) -> tuple[list[Point], list[Point]]:
    """The points of all computation times, and those of other SNRs at one of them."""
    times_s = sorted({study.own_s, here_s, *(each * upload_s for each in UPLOADS)})
    wanted = [(each, 0.0) for each in times_s]
    wanted += [(here_s, shift_db) for shift_db in SNR_SHIFTS_DB] if study.has_snr else []
    cases = list(dict.fromkeys(case for at in wanted for case in study.cases(*at).values()))
    costs = {
        case: simulate(study, case) for case in track(cases, total=len(cases), label="schedules")
    }
    points = [point(study, costs, *at) for at in wanted]
    return points[: len(times_s)], points[len(times_s) :]


def _flat(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A row for each schedule, with the worst share of its budgets."""
    return [
        {"computation_s": each.computation_s, "snr_shift_db": each.snr_db, **row,
         "budgets": max((use["worst_use"] for use in row["budgets"]), default=None)}
        for each in points
        for row in each.rows()
    ]  # fmt: skip


def _print(
    study: Study, upload_s: float, timed: Sequence[Point], shifted: Sequence[Point], here: Point
) -> None:
    devices = study.channel.devices
    click.echo(
        f"{study.scenario.channel.kind}, {counted(devices, 'device')}; an upload by one of them, "
        f"drawn at random, takes {upload_s:.3g} s on average"
    )
    rows = [
        [
            f"{each.computation_s:.3g}" + (" *" if each.computation_s == study.own_s else ""),
            f"{each.computation_s / upload_s:.3g}",
            f"{each.costs['auto'].devices:.3g}",
            *_compared(each, devices),
        ]
        for each in timed
    ]
    print_table(
        "By computation time",
        ["computation s/round", "in uploads", "auto: devices/round", *_COMPARED],
        rows,
    )
    click.echo("*: the scenario's own\n" + _when(timed))
    _print_schedules(here)
    if shifted:
        both = sorted([*shifted, here], key=lambda each: each.snr_db)
        print_table(
            f"By SNR, at {here.computation_s:.3g} s of computation",
            ["SNR against this link's, dB", *_COMPARED],
            [
                [f"{each.snr_db:+g}" if each.snr_db else "0, this link", *_compared(each, devices)]
                for each in both
            ],
        )
    kappas = " and ".join(f"{each:.3g}" for each in (min(study.kappas), max(study.kappas)))
    span = f"kappa between {kappas}" if len(study.kappas) > 1 else f"kappa = {study.kappas[0]:g}"
    click.echo(
        f"Predicted from {counted(study.rounds, 'round')} of each schedule. Ranges are over {span} "
        f"and over {counted(len(study.seeds), 'seed')} (1 for other SNRs), with the error of so "
        f"few rounds. A tie is a difference of {100 * TIE:g} % or less; 'likely' means that the "
        "range has both."
    )


_SHOWN = 10.0  # times the time of the best uniform
_COMPARED = ["best uniform: devices/round", "auto is sooner, times", "range", "sooner"]


def _compared(each: Point, devices: int) -> list[str]:
    """The best number of devices, and how `auto` stands beside it."""
    edge = {1: " (least)", devices: " (all)"}.get(each.best, "")
    near = [m for m in each.alike if m != each.best]
    also = f" or {', '.join(map(str, near))}" if near else ""
    return [
        f"{each.best}{edge}{also}{'' if each.kept else ABOVE}",
        f"{each.gain:.2f}",
        f"{each.low:.2f} to {each.high:.2f}",
        each.verdict,
    ]


def _when(timed: Sequence[Point]) -> str:
    """When `auto` pays, in a sentence; a best value on the edge of what was tried says so."""
    pays = [each.computation_s for each in timed if each.verdict == "auto"]
    most = max(timed, key=lambda each: each.gain)
    edge = ""
    if most.computation_s > 0.0 and most in (timed[0], timed[-1]):
        edge = f", the {'shortest' if most is timed[0] else 'longest'} tried; beyond it may be more"
    if not pays:
        return f"auto does not pay for certain at any of these times; {most.gain:.2f} is the most."
    where = ", ".join(f"{each:.3g}" for each in pays)
    times = f"at {where} s" if len(pays) < len(timed) else "at all of these times"
    return (
        f"auto pays {times}. It gains most, {most.gain:.2f} times, at "
        f"{most.computation_s:.3g} s{edge}."
    )


def _print_schedules(here: Point) -> None:
    """All schedules at one computation time."""
    every = [*here.rows()]
    rows = [row for row in every if row["relative_time"] <= _SHOWN]
    names = [use["name"] for use in rows[0]["budgets"]]
    print_table(
        f"At {here.computation_s:.3g} s of computation",
        ["schedule", "time, to the best uniform", "airtime s/round", "devices/round", "mean 1/q",
         *[f"{name}: worst device" for name in names]],
        [
            [
                row["schedule"],
                f"{row['relative_time']:.2f}",
                f"{row['airtime_s_per_round']:.3g}",
                f"{row['devices_per_round']:.3g}",
                f"{row['mean_inverse_probability']:.4g}",
                *[
                    f"{use['worst_use'] * use['limit']:.3g} of {use['limit']:.3g} {use['unit']}"
                    for use in row["budgets"]
                ],
            ]
            for row in rows
        ],
    )  # fmt: skip
    if left := len(every) - len(rows):
        click.echo(f"{left} more take over {_SHOWN:g} times as long as the best uniform")
