"""``fedsched reproduce``: the paper's figures and tables from one command."""

import csv
import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fedsched.analysis.curves import curve_of
from fedsched.analysis.groups import group_runs
from fedsched.checks import number_within
from fedsched.cli.options import NUMBER, engine_options, json_option, out_option, workers_option
from fedsched.cli.output import counted, print_json, run_all, track
from fedsched.errors import InputError, UnknownNameError, require
from fedsched.files import atomic_path, output_folder
from fedsched.paper.scales import SCALES, Scale, make_scale
from fedsched.paper.targets import PRINTED, TARGETS, Product
from fedsched.runs.engines import Job, check_engine
from fedsched.runs.manifest import MANIFEST
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, run_name
from fedsched.views.figures import save_figure

__all__ = ["command"]

_FIRST_CHANNEL = "heterogeneous"  # over which most targets run


@click.command("reproduce", context_settings={"show_default": True})
@click.argument("target")
@click.option(
    "--scale", default="small", help=f"One of {', '.join(dict.fromkeys(s for s, _ in SCALES))}."
)
@click.option(
    "--dataset", help="digits or cifar10.  [default: cifar10 at scale paper, else digits]"
)
@out_option("Runs, figures and numbers.", default="reproduction")
@workers_option()
@engine_options
@click.option("--seeds", metavar="LIST", help="For instance 1 or 1,2,3.  [default: the scale's]")
@click.option(
    "--target", "accuracy", type=NUMBER,
    help="Test accuracy asked for in figures and numbers, which then have a folder of their own.  "
    "[default: the scale's, by alpha]",
)  # fmt: skip
@click.option("--draw", is_flag=True, help="Run nothing; draw from the runs in DIR as they are.")
@json_option
def command(
    target: str, scale: str, dataset: str | None, out: str, workers: int, engine: str,
    address: str | None, seeds: str | None, accuracy: float | None, draw: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run what the figure or table TARGET of the paper needs, and draw it.

    \b
    TARGET is one of time-to-target, table-heterogeneous, table-homogeneous, convergence,
    data-heterogeneity, rounds, homogeneous, effect-of-v, device-statistics, or all;
    or what the paper calls it: fig2 to fig8, table1, table2.
    Runs are shared between targets and never done twice.
    """  # noqa: D301 - Click's mark that keeps lines
    check_engine(engine, address)
    target = PRINTED.get(re.sub(r"[ ._-]|ure", "", target.lower()), target)
    if target != "all" and target not in TARGETS:
        raise UnknownNameError("target", target, (*TARGETS, *PRINTED, "all"))
    size = make_scale(scale, dataset)
    if seeds is not None:
        size = dataclasses.replace(size, seeds=_seeds(seeds))
    shown = size if accuracy is None else _asking(size, accuracy)
    chosen = list(TARGETS.values()) if target == "all" else [TARGETS[target]]
    began, folder = time.perf_counter(), Path(out)
    names = {each.name: [run_name(s) for s in each.scenarios(size)] for each in chosen}
    jobs = _jobs([scenario for each in chosen for scenario in each.scenarios(size)], folder)
    logs = {}
    if draw:
        logs = _measured(jobs)
        if jobs and not logs:
            raise InputError(
                f"out: none of the {len(jobs)} runs of {target} is in {str(folder / 'runs')!r}; "
                "leave --draw out to run them, or name the folder of `fedsched reproduce` that has "
                "them"
            )
    output_folder("out", out)  # made only now: where there is nothing to draw, nothing is left
    if not draw:
        run_all(jobs, engine=engine, workers=workers, address=address)
        logs = {job.name: read_run(job.folder) for job in jobs}
    pictures: dict[str, str | None] = {}
    for each in track(chosen, total=len(chosen), label="drawing"):
        groups = group_runs(logs[name] for name in names[each.name] if name in logs)
        if names[each.name] and not groups:
            missing = f"{each.name}: none of its {len(names[each.name])} runs is in {folder}"
            click.echo(missing, err=as_json)
            pictures[each.name] = None
            continue
        # Another accuracy has a folder of its own: the paper's figure stays as it is.
        place = each.name if accuracy is None else f"{each.name}-to-{accuracy:g}"
        written = _write(folder / place, each.make(shown, groups), each.tables(size))
        pictures[each.name] = str(written)
        if not as_json:
            click.echo(f"{each.name}: {each.about} -> {written}")
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"out": out, "runs": len(logs), "pictures": pictures, "seconds": seconds})
        return
    click.echo(f"{counted(len(logs), 'run')}, {seconds:.0f} s, in {folder}")


def _jobs(scenarios: Sequence[Scenario], folder: Path) -> list[Job]:
    """A run for each, once: the longest first, those that may take over another's training last."""
    jobs = {run_name(scenario): _job(scenario, folder / "runs") for scenario in scenarios}
    return sorted(
        jobs.values(),
        key=lambda job: (
            job.training_of is not None,
            -job.scenario.run.rounds * job.scenario.policy.draws,
        ),
    )


def _job(scenario: Scenario, runs: Path) -> Job:
    """A run in its folder. Uniform trains the same over every channel, so once is enough."""
    twin = None
    if scenario.policy.kind == "uniform" and scenario.channel.kind != _FIRST_CHANNEL:
        channel = dataclasses.replace(scenario.channel, kind=_FIRST_CHANNEL)
        twin = runs / run_name(dataclasses.replace(scenario, channel=channel))
    name = run_name(scenario)
    return Job(name=name, scenario=scenario, folder=runs / name, training_of=twin)


def _seeds(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in given.split(","))
    except ValueError:
        raise InputError(
            f"seeds must be whole numbers with commas between them, got {given!r}; for instance 1,2"
        ) from None


def _asking(size: Scale, accuracy: float) -> Scale:
    """The scale with another target, the same for every alpha; its runs are the same.

    The paper's numbers are for its own targets and have no place beside these.
    """
    number_within("target", accuracy, "(0, 1)", "it is a test accuracy, such as 0.8 or 80%")
    targets = dict.fromkeys(size.targets, accuracy)
    return dataclasses.replace(size, targets=targets, paper_beside=False)


def _measured(jobs: Sequence[Job]) -> dict[str, RunLog]:
    """The logs of those that have been measured at least once, finished or not, by name."""
    begun = [job for job in jobs if (job.folder / MANIFEST).is_file()]
    logs = {job.name: read_run(job.folder) for job in begun}
    return {name: log for name, log in logs.items() if len(curve_of(log).rounds)}


def _write(folder: Path, product: Product, tables: Sequence[Mapping[str, Any]]) -> Path:
    """The figure, the numbers and the scenarios of one target."""
    toml = require("tomli_w", extra="report", purpose="writing the scenarios of a figure")
    folder.mkdir(parents=True, exist_ok=True)
    save_figure(product.figure, folder / "figure.svg")
    picture = save_figure(product.figure, folder / "figure.png")
    names = list(dict.fromkeys(name for row in product.rows for name in row))
    with (
        atomic_path(folder / "numbers.csv") as aside,
        aside.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(product.rows)
    for table in tables:
        draws = table["sweep"]["draws"][0]
        alpha = table["data"]["alpha"]
        with atomic_path(folder / f"scenario-m{draws}-alpha-{alpha:g}.toml") as aside:
            aside.write_text(toml.dumps(table), encoding="utf-8")
    return picture
