"""``fedsched advise``: which m, lambda, V and design, before any training."""

import sys
from pathlib import Path
from typing import Any

import click

from fedsched.cli.output import print_json, print_table, track
from fedsched.config import load_scenarios
from fedsched.core.checks import positive_number, whole_number
from fedsched.errors import InputError
from fedsched.results.figures import FIGURE_SUFFIXES, save_figure
from fedsched.results.files import output_path

__all__ = ["command"]


@click.command("advise", context_settings={"show_default": True})
@click.argument("scenario")
@click.option("--rounds", default=400, help="Rounds of scheduling to simulate for each.")
@click.option(
    "--computation-s",
    type=float,
    help="Computation time a round.  [default: the scenario's]",
)
@click.option(
    "--step",
    type=click.Choice(["own", "tuned"]),
    default="own",
    help="Rounds for the scenario's own step size, or for one tuned to each schedule.",
)
@click.option("--weight", type=float, help="Rho, in place of what --step stands for.")
@click.option("--top", default=12, help="Rows to print.")
@click.option("--compare", metavar="RUNS", help="Compare with the times of these runs.")
@click.option("--target", default=0.9, help="Test accuracy, for --compare.")
@click.option("--patience", default=3, help="Measurements a crossing must last, for --compare.")
@click.option("--plot", metavar="FILE", help=f"Draw the trade-off: {', '.join(FIGURE_SUFFIXES)}.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    scenario: str, rounds: int, computation_s: float | None, step: str, weight: float | None,
    top: int, compare: str | None, target: float, patience: int, plot: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Rank ways to schedule the file SCENARIO by predicted time to a target, without training.

    A file with a [sweep] has its policies compared; any other, a grid of m, lambda, V and design.
    Time is time a round, simulated, times rounds, which grow with the mean of 1/q: T ~ 1 + rho
    (mean 1/q - 1). A tuned step has rho = 1; for the scenario's own, rho is measured at the first
    model. Times are relative to the best.
    """
    from fedsched.theory.advice import (
        candidates,
        measured_time,
        measured_times,
        model_parameters,
        rank_correlation,
        simulate,
        step_weight,
    )

    whole_number("rounds", rounds)
    whole_number("top", top)
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    sys.path.insert(0, str(Path.cwd()))
    wanted = candidates(load_scenarios(scenario))
    first = wanted[0]
    computation = first.uplink.computation_s if computation_s is None else computation_s
    positive_number("computation-s", computation, allow_zero=True)
    if weight is None:
        rho = 1.0 if step == "tuned" else step_weight(first)
    else:
        rho = positive_number("weight", weight, allow_zero=True)
    parameters = model_parameters(first)
    simulated = [
        simulate(each, parameters=parameters, rounds=rounds)
        for each in track(wanted, total=len(wanted), label="scheduling")
    ]
    simulated.sort(key=lambda each: each.time_s(rho, computation))
    best = simulated[0].time_s(rho, computation)
    times = {}
    if compare is not None:
        times = dict(
            measured_times(
                _logs(compare), target, computation_s=computation, patience=patience
            )
        )  # fmt: skip
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
            "worst_mean_power_w": each.worst_power_w,
            "relative_rounds": each.rounds(rho),
            "relative_time": each.time_s(rho, computation) / best,
            "measured_s": measured_time(each, times),
        }
        for each in simulated
    ]
    about: dict[str, Any] = {"weight": rho, "computation_s": computation, "rounds": rounds}
    if compare is not None:
        pairs = [(row["relative_time"], row["measured_s"]) for row in rows if row["measured_s"]]
        about |= {"compared": len(pairs), "target": target}
        about["rank_correlation"] = rank_correlation(
            *zip(*pairs, strict=True) if pairs else ([], [])
        )
    if plot is not None:
        from fedsched.theory.drawing import advice_figure

        save_figure(advice_figure(rows, about), plot)
    if as_json:
        print_json({**about, "candidates": rows})
        return
    _print(scenario, rows[:top], about)
    if plot is not None:
        click.echo(f"wrote {plot}")


def _logs(folder: str) -> list[Any]:
    from fedsched.results.collect import collect_runs

    runs = [run.log for run in collect_runs([folder]).runs]
    if not runs:
        raise InputError(f"compare: there is no run that can be read in {folder!r}")
    return runs


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
                f"{row['worst_mean_power_w']:.2f}",
            ]
            + ([f"{row['measured_s']:.1f}" if row["measured_s"] else "-"] if compared else [])
            for row in rows
        ],
    )
    if compared:
        click.echo(
            f"rank correlation with the measured times to {about['target']:g} of "
            f"{about['compared']} configurations: {about['rank_correlation']:.2f}"
        )
