"""``fedsched bound``: the convergence bound of a run, or the example on which the paper's fails."""

import click

from fedsched.cli.output import print_json, print_table
from fedsched.results.figures import FIGURE_SUFFIXES, save_figure
from fedsched.results.files import output_path

__all__ = ["command"]


@click.command("bound", context_settings={"show_default": True})
@click.option("--counterexample", is_flag=True, help="Show where the printed bound fails.")
@click.option("--plot", metavar="FILE", help=f"Draw it: {', '.join(FIGURE_SUFFIXES)}.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(counterexample: bool, plot: str | None, as_json: bool) -> None:
    """The paper's convergence bound, and one that holds."""
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    if not counterexample:
        raise click.UsageError("say --counterexample")
    _counterexample(plot, as_json)


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
