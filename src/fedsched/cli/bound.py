"""``fedsched bound``: the convergence bound of a run, or the example on which the paper's fails."""

from typing import TYPE_CHECKING

import click
import numpy as np

from fedsched.cli.options import WHOLE, json_option
from fedsched.cli.output import print_json, print_table, track
from fedsched.files import output_path
from fedsched.views.figures import FIGURE_SUFFIXES, save_figure

if TYPE_CHECKING:
    from fedsched.theory.bounds import Bound
    from fedsched.theory.runs import RunBound

__all__ = ["command"]


@click.command("bound", context_settings={"show_default": True})
@click.argument("run", required=False)
@click.option("--counterexample", is_flag=True, help="Show where the printed bound fails.")
@click.option(
    "--replay-every",
    type=WHOLE,
    metavar="ROUNDS",
    help="Train again, to the bit, and measure the gradient every so many rounds.",
)
@click.option(
    "--devices", type=WHOLE, default=10, help="Devices on which L and nu^2 are estimated."
)
@click.option("--plot", metavar="FILE", help=f"Draw it: {', '.join(FIGURE_SUFFIXES)}.")
@json_option
def command(
    run: str | None,
    counterexample: bool,
    replay_every: int | None,
    devices: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """The convergence bound of the finished run in the folder RUN, beside its measured gradients.

    Both bounds are computed from the q's of its schedule: the paper's, which is false, and one that
    holds. L, nu^2 and epsilon^2 are estimated at the models that the folder holds.
    """
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    if (run is None) != counterexample:
        raise click.UsageError("name a run folder or say --counterexample, one of the two")
    if run is None:
        _counterexample(plot, as_json)
        return
    from fedsched.theory.runs import bound_of_run

    found = bound_of_run(run, replay_every=replay_every, devices=devices, track=track)
    if plot is not None:
        from fedsched.theory.drawing import bound_figure

        save_figure(bound_figure(found), plot)
    if as_json:
        print_json(found.as_dict())
        return
    _print(run, found)
    if plot is not None:
        click.echo(f"wrote {plot}")


def _print(run: str, found: "RunBound") -> None:
    limit = found.corrected_step_limit
    at_limit = f"γ = {limit:.2g}"
    rows = [
        _row("as printed (false)", f"γ = {found.learning_rate:g}", found.printed()),
        _row("corrected", f"γ = {found.learning_rate:g}", found.corrected()),
        _row("corrected, at a step sure to be allowed", at_limit, found.corrected(limit)),
    ]
    header = ["bound on the mean of ‖∇f‖²", "step", "start", "drift", "noise", "unlike devices",
              "total", "its conditions"]  # fmt: skip
    print_table(f"{run}: {found.rounds} rounds", header, rows)
    constants = found.constants
    for name, field in (("L", "smoothness"), ("ν²", "noise_sq"), ("ε²", "divergence_sq")):
        low, high = found.intervals[field]
        click.echo(f"{name} = {getattr(constants, field):.4g}  [{low:.4g}, {high:.4g}]")
    click.echo(
        f"mean 1/q = {found.inverse.mean():.4g}, least q = {found.least_probability:.4g}, "
        f"kappa = {found.kappa:.4g}, K = {constants.steps}, N = {constants.devices}"
    )
    click.echo(
        f"steps sure to be allowed: {found.printed_step_limit:.3g} by Theorem 1, {limit:.3g} by "
        f"the corrected bound, which may hold beyond it; the run's is {found.learning_rate:g}"
    )
    if found.realised_drift_gap is not None:
        click.echo(
            "the mean of the objective over these rounds is at most "
            f"{found.realised_drift_gap:.3g} above the best: the drift they had, divided by V"
        )
    if found.ended_early:
        click.echo(
            f"the run ended by run.stop_accuracy, so chance chose its {found.rounds} rounds; the "
            "bounds are for a number of rounds fixed beforehand"
        )
    places = np.unique(np.linspace(0, len(found.measured_round) - 1, 6).round().astype(int))
    shown = ", ".join(
        f"{found.measured_gradient_sq[place]:.4g} after {found.measured_round[place]}"
        for place in places
    )
    click.echo(f"measured ‖∇f‖² by rounds done, {len(found.measured_round)} models: {shown}")


def _row(name: str, step: str, bound: "Bound") -> list[str]:
    terms = (bound.start, bound.drift, bound.noise, bound.heterogeneity, bound.total)
    met = "hold" if bound.conditions_met else "do not hold"
    return [name, step, *(f"{value:.3g}" for value in terms), met]


def _counterexample(plot: str | None, as_json: bool) -> None:
    from fedsched.theory.drawing import counterexample_figure, counterexample_rows

    rows = counterexample_rows()
    if plot is not None:
        save_figure(counterexample_figure(rows), plot)
    if as_json:
        print_json({"counterexample": rows})
        return
    header = ["problem", "step size", "true", "printed bound", "corrected bound", "true / printed"]
    shown = [row for place, row in enumerate(rows) if place % 10 == 9]
    print_table(
        "mean squared gradient in the long run",
        header,
        [
            [
                row["case"],
                f"{row['learning_rate']:.2e}",
                f"{row['true']:.3e}",
                f"{row['printed']:.3e}",
                f"{row['corrected']:.3e}",
                f"{row['true'] / row['printed']:.2f}",
            ]
            for row in shown
        ],
    )
    if plot is not None:
        click.echo(f"wrote {plot}")
