"""``fedsched advise``: which m, lambda, V and design, before any training."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import click

from fedsched.analysis.arrival import arrival_protocol
from fedsched.checks import number_within, positive_number, whole_number
from fedsched.cli.options import NUMBER, WHOLE, json_option, set_option
from fedsched.cli.output import print_json, print_table, track
from fedsched.errors import InputError
from fedsched.files import output_path
from fedsched.runs.scenario import Scenario, scenario_from
from fedsched.runs.scenario_file import load_scenarios
from fedsched.views.figures import FIGURE_SUFFIXES, save_figure

__all__ = ["command"]


@click.command("advise", context_settings={"show_default": True})
@click.argument("scenario", nargs=-1, required=True)
@click.option(
    "--rounds", type=WHOLE, default=400, help="Rounds of scheduling to simulate for each."
)
@click.option(
    "--computation-s",
    type=NUMBER,
    help="Computation time a round.  [default: the scenario's]",
)
@click.option(
    "--step",
    type=click.Choice(["own", "tuned"]),
    default="own",
    help="Rounds for the scenario's own step size, or for one tuned to each schedule.",
)
@click.option("--weight", type=NUMBER, help="Rho, in place of what --step stands for.")
@click.option("--top", type=WHOLE, default=12, help="Rows to print.")
@click.option(
    "--compare",
    metavar="RUNS",
    multiple=True,
    help="Compare with the times of the runs in this folder; may be given again.",
)
@click.option(
    "--target",
    type=NUMBER,
    default=0.9,
    help="Test accuracy. Predicted times are relative, the same for all; --compare measures to it.",
)
@click.option(
    "--patience",
    type=WHOLE,
    help="For --compare: a target is reached by so many measurements in a row.  [default: by the "
    "200-round mean]",
)
@set_option
@click.option("--plot", metavar="FILE", help=f"Draw the trade-off: {', '.join(FIGURE_SUFFIXES)}.")
@json_option
def command(
    scenario: tuple[str, ...], rounds: int, computation_s: float | None, step: str,
    weight: float | None, top: int, compare: tuple[str, ...], target: float,
    patience: int | None, plot: str | None, as_json: bool, settings: dict[str, Any],
) -> None:  # fmt: skip
    """Rank ways to schedule the file SCENARIO by predicted time to a target, without training.

    A file with a [sweep] has its policies compared; any other, a grid of m, lambda, V and design.
    Several files are ranked together, if they differ in policies alone.
    Time is time a round, simulated, times rounds, which grow with the mean of 1/q: T ~ 1 + rho
    (mean 1/q - 1). A tuned step has rho = 1; for the scenario's own, rho is measured at the first
    model. Times are relative to the best: how many rounds the target takes is common to all
    schedules and not predicted, so the ranking is the same for every target. A second table names
    the first of all, and of each policy, for every computation time.
    """
    from fedsched.theory.advice import (
        LEAST_PAIRS,
        best_by_computation,
        candidates,
        measured_times,
        model_parameters,
        rank_correlation,
        simulate,
        step_weight,
        together,
    )

    whole_number("rounds", rounds)
    whole_number("top", top)
    number_within("target", target, "(0, 1)", "it is a test accuracy")
    if patience is not None and not compare:
        raise InputError(
            f"patience = {patience} says how a run reaches the target, and there is no run to "
            "measure; name runs with --compare, or leave out --patience"
        )
    protocol = arrival_protocol(patience=patience)
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    wanted = together(
        [candidates(load_scenarios(each, settings=settings), settings) for each in scenario]
    )
    first = wanted[0]
    computation = first.uplink.computation.common_s if computation_s is None else computation_s
    positive_number("computation-s", computation, allow_zero=True)
    if weight is None:
        rho = 1.0 if step == "tuned" else step_weight(first)
    else:
        rho = positive_number("weight", weight, allow_zero=True)
    # Before the long part, for there may be nothing to compare with.
    times = {}
    if compare:
        times = dict(
            measured_times(
                _logs(compare, first), target, computation_s=computation, protocol=protocol
            )
        )  # fmt: skip
    parameters = model_parameters(first)
    simulated = [
        simulate(each, parameters=parameters, rounds=rounds)
        for each in track(wanted, total=len(wanted), label="scheduling")
    ]
    simulated.sort(key=lambda each: each.time_s(rho, computation))
    best = simulated[0].time_s(rho, computation)
    rows: list[dict[str, Any]] = [
        {
            "label": each.label,
            "policy": each.policy.kind,
            "design": each.policy.design,
            "draws": each.policy.draws,
            "lam": each.policy.lam,
            "v": each.policy.v,
            "airtime_s_per_round": each.airtime_s,
            "mean_inverse_probability": each.mean_inverse,
            "devices_per_round": each.devices,
            "worst_mean_power_w": None if math.isnan(each.worst_power_w) else each.worst_power_w,
            "relative_rounds": each.rounds(rho),
            "relative_time": each.time_s(rho, computation) / best,
            "measured_s": times.get(each.policy),
        }
        for each in simulated
    ]
    kinds = list(dict.fromkeys(each.policy.kind for each in simulated))
    firsts = {
        kind: best_by_computation([each for each in simulated if each.policy.kind == kind], rho)
        for kind in kinds
    }
    if len(kinds) > 1:
        firsts = {"all": best_by_computation(simulated, rho), **firsts}
    about: dict[str, Any] = {
        "weight": rho, "computation_s": computation, "rounds": rounds, "target": target,
    }  # fmt: skip
    if compare:
        pairs = [(row["relative_time"], row["measured_s"]) for row in rows if row["measured_s"]]
        about["compared"] = len(pairs)
        enough = len(pairs) >= LEAST_PAIRS
        about["rank_correlation"] = rank_correlation(*zip(*pairs, strict=True)) if enough else None
    if plot is not None:
        from fedsched.theory.drawing import advice_figure

        save_figure(advice_figure(rows, about), plot)
    if as_json:
        ranges = {
            among: [
                {**dataclasses.asdict(each), "end_s": each.end_s if each.end_s < math.inf else None}
                for each in segments
            ]
            for among, segments in firsts.items()
        }
        print_json({**about, "candidates": rows, "best_by_computation": ranges})
        return
    _print(" + ".join(scenario), rows[:top], about)
    print_table(
        "First by computation time",
        ["predicted first", "among", "from s/round", "to"],
        [
            [each.name, among, f"{each.begin_s:.3g}", f"{each.end_s:.3g}".replace("inf", "∞")]
            for among, segments in firsts.items()
            for each in segments
        ],
    )
    if plot is not None:
        click.echo(f"wrote {plot}")


def _logs(folders: tuple[str, ...], like: Scenario) -> list[Any]:
    """Runs on the scenario's own channel, link, data and training; the others are no evidence."""
    from fedsched.analysis.collect import collect_runs

    found = collect_runs(list(folders))
    for each in found.left_out:
        click.echo(f"left out: {each.name}: {each.reason}", err=True)
    runs = [run.log for run in found.runs]
    if not runs:
        raise InputError(f"compare: there is no run that can be read in {', '.join(folders)}")
    alike = [log for log in runs if _is_like(log.manifest["scenario"], like)]
    if len(alike) < len(runs):
        click.echo(f"left out: {len(runs) - len(alike)} runs of another setting", err=True)
    if not alike:
        raise InputError(
            f"compare: none of the {len(runs)} runs in {', '.join(folders)} has the channel, link, "
            "data and training of the scenario; name runs of the scenario itself"
        )
    return alike


def _is_like(there: Mapping[str, Any], like: Scenario) -> bool:
    """Whether a manifest's scenario has the setting; one of a Flower run has other fields."""
    try:
        return _setting(scenario_from(there)) == _setting(like)
    except InputError:
        return False


def _setting(scenario: Scenario) -> tuple[Any, ...]:
    link = scenario.uplink
    if link.computation.common_s > 0.0:  # rounds do not depend on it
        link = dataclasses.replace(link, computation_s=0.0)
    return scenario.channel, link, scenario.data, scenario.training


def _print(scenario: str, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    header = ["schedule", "predicted time", "airtime s/round", "mean 1/q", "rounds ×",
              "devices/round", "worst mean power W"]  # fmt: skip
    compared = "rank_correlation" in about
    print_table(
        f"{scenario}: computation {about['computation_s']:g} s/round, rho = {about['weight']:.3g}",
        header + (["measured s"] if compared else []),
        [
            [
                row["label"],
                f"{row['relative_time']:.2f}",
                f"{row['airtime_s_per_round']:.4f}",
                f"{row['mean_inverse_probability']:.1f}",
                f"{row['relative_rounds']:.2f}",
                f"{row['devices_per_round']:.2f}",
                "-" if (mean_w := row["worst_mean_power_w"]) is None else f"{mean_w:.2f}",
            ]
            + ([f"{row['measured_s']:.1f}" if row["measured_s"] else "-"] if compared else [])
            for row in rows
        ],
    )
    best, last = rows[0], rows[-1]
    click.echo(
        f"Predicted times to a test accuracy of {about['target']:g} (or any other) are in units of "
        f"the best, which is {best['label']}; {last['label']}, the last shown, takes "
        f"{last['relative_time']:.2f} times as long. 'rounds ×' is relative to everybody "
        "taking part. How long the best takes in seconds, only training can tell."
    )
    if compared:
        correlation = about["rank_correlation"]
        click.echo(
            f"rank correlation with the measured times to {about['target']:g} of "
            f"{about['compared']} configurations: "
            + ("too few for one" if correlation is None else f"{correlation:.2f}")
        )
