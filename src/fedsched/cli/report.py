"""``fedsched report``: run folders become one page to look at."""

from collections.abc import Mapping
from pathlib import Path

import click

from fedsched.analysis.arrival import arrival_protocol
from fedsched.cli.interrupts import telling
from fedsched.cli.options import NUMBER, json_option, out_option, protocol_options
from fedsched.cli.output import counted, print_json
from fedsched.views.report import write_report

__all__ = ["command"]


@click.command("report", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@out_option("The page.", metavar="FILE", default="report.html")
@click.option(
    "--target",
    type=NUMBER,
    help="Test accuracy the page opens with.  [default: what every configuration reaches]",
)
@protocol_options
@click.option(
    "--slower",
    type=NUMBER,
    default=1.0,
    help="Devices with times of their own compute so much longer.",
)
@click.option("--title", default="Time to accuracy", help="Heading of the page.")
@json_option
def command(
    runs: tuple[str, ...], out: str, target: float | None,
    protocol: str | None, patience: int | None, every: int | None,
    slower: float, title: str, as_json: bool,
) -> None:  # fmt: skip
    """Write one page about RUNS: run folders, or folders that hold them at any depth.

    It needs no network and opens in any browser: sliders for computation time and target accuracy
    redraw curves, speed-ups and the best configurations. Damaged or foreign folders are named and
    left out.
    """
    chosen = arrival_protocol(protocol, patience=patience, every=every)
    again = " anew" if Path(out).exists() else ""
    with telling(lambda: f"{out} is as it was before"):
        report = write_report(runs, out, target=target, protocol=chosen, title=title, slower=slower)
    for each in report.left_out:
        click.echo(f"left out: {each.name}: {each.reason}", err=True)
    if target is not None and report.unreached:
        click.echo(_unreached(target, report.unreached), err=True)
    if as_json:
        left_out = {each.name: each.reason for each in report.left_out}
        print_json(
            {"out": str(report.path), "runs": report.runs,
             "configurations": report.configurations, "left_out": left_out}
        )  # fmt: skip
        return
    click.echo(
        f"wrote {report.path}{again}: {counted(report.runs, 'run')}, "
        f"{counted(report.configurations, 'configuration')}"
    )


def _unreached(target: float, opening: Mapping[str, float]) -> str:
    """Where the page does not open with the target, and what it opens with."""
    where = ", ".join(
        f"{f'in {name} ' if name else ''}(the page opens with {each:g})"
        for name, each in opening.items()
    )
    return f"target: no configuration reaches {target:g} with all its seeds {where}"
