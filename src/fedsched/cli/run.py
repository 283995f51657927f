"""``fedsched run``: a scenario file becomes a run folder, or a folder of them."""

import os
from pathlib import Path
from typing import Any

import click

from fedsched.analysis.curves import training_loss
from fedsched.checks import whole_number
from fedsched.cli.options import set_option
from fedsched.cli.output import end_with, live_progress, print_table, run_each
from fedsched.clock import elapsed_s
from fedsched.errors import InputError, UnknownNameError
from fedsched.files import output_folder
from fedsched.runs.engines import ENGINES, Job, check_engine
from fedsched.runs.manifest import MANIFEST, read_manifest
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, run_name
from fedsched.runs.scenario_file import Settings, is_sweep, load_scenario, load_scenarios

__all__ = ["command"]

_LOGS = ("tensorboard",)


@click.command("run", context_settings={"show_default": True})
@click.argument("scenario")
@click.option(
    "--out",
    metavar="DIR",
    help="Run folder; run again to resume.  [default: SCENARIO, if that is a run folder]",
)
@click.option(
    "--workers",
    default=min(2, os.cpu_count() or 1),
    help="Processes: that train the devices of one run, or runs of a sweep side by side.",
)
@set_option
@click.option("--device", default="cpu", help="cpu or cuda.")
@click.option("--engine", default="local", help=f"Where a sweep runs: {', '.join(ENGINES)}.")
@click.option("--address", help="Ray cluster to join, for instance auto.")
@click.option(
    "--training-of",
    metavar="RUN",
    help="Folder of a run with the same cohorts over another channel: take its training over.",
)
@click.option("--log", help=f"Also log the rounds, live, for: {', '.join(_LOGS)}.")
def command(
    scenario: str,
    out: str | None,
    workers: int,
    device: str,
    engine: str,
    address: str | None,
    training_of: str | None,
    log: str | None,
    settings: dict[str, Any],
) -> None:
    """Train what the file SCENARIO describes, under the radio clock.

    One run goes into DIR; a file with a [sweep] makes a folder in DIR for each of its runs. Run it
    again and finished runs are passed over, others go on from where they stand. Whatever the
    number of workers and interruptions, logs and models come out the same to the bit. In place of
    a file, SCENARIO may be a run folder, which knows its own: the run there goes on.
    """
    whole_number("workers", workers)
    check_engine(engine, address)
    if log not in (None, *_LOGS):
        raise UnknownNameError("log", str(log), _LOGS)
    scenarios, alone = _scenarios(scenario, settings)
    if out is None:
        if not Path(scenario).is_dir():
            raise InputError(
                f"out is missing: name the folder that the run of {scenario!r} goes into with --out"
            )
        if engine != "local":
            raise InputError(
                f"engine: the run in {scenario!r} goes on where it stands, with the engine local, "
                f"got {engine!r}; name a scenario file and --out for a cluster"
            )
        out = scenario
    if training_of is not None and not (alone and engine == "local"):
        raise InputError(
            f"training_of: {training_of!r} is the training of one run, and {scenario!r} makes "
            f"{len(scenarios)} with the engine {engine}; use it with a scenario without a sweep "
            "and the engine local"
        )
    if training_of is not None:
        read_manifest(Path(training_of))  # also where the run has begun and needs it no more
    place = output_folder("out", out)
    if alone and engine == "local":
        # Torch and the data are loaded only once the scenario is known to be sound.
        from fedsched.runs.experiment import run

        only = scenarios[0]
        label = f"{only.policy.kind}, m = {only.policy.draws}"
        with live_progress(label, place) as progress:
            done = run(
                only, place, workers=workers, torch_device=device, progress=progress,
                tensorboard=log == "tensorboard", training_of=training_of,
            )  # fmt: skip
        _print(scenario, {only.policy.kind: (only, done)})
        click.echo(f"wrote {out}")
        return
    jobs = [
        Job(
            name=run_name(each),
            scenario=each,
            folder=place if alone else place / run_name(each),
            device=device,
            tensorboard=log == "tensorboard",
        )
        for each in scenarios
    ]
    failed = run_each(jobs, engine=engine, processes=workers, address=address)
    ended = [job for job in jobs if job.name not in failed]
    runs = {job.name: (job.scenario, read_run(job.folder)) for job in ended}
    _print(scenario, runs)
    click.echo(f"wrote {len(runs)} of {len(jobs)} runs to {out}")
    end_with(failed)


def _scenarios(path: str, settings: Settings) -> tuple[list[Scenario], bool]:
    """Those of a file, or the one of a run folder; and whether it is one run, not a sweep."""
    folder = Path(path)
    if not folder.is_dir():
        return load_scenarios(path, settings=settings), not is_sweep(path)
    runs = len(list(folder.glob(f"*/{MANIFEST}")))
    if runs and not (folder / MANIFEST).is_file():
        raise InputError(
            f"scenario: {path!r} holds {runs} runs and is none itself; name one of them, or the "
            "scenario file they were made from and --out"
        )
    return [load_scenario(read_manifest(folder)["scenario"], settings=settings)], True


def _print(title: str, runs: dict[str, tuple[Scenario, RunLog]]) -> None:
    rows = []
    for name, (scenario, log) in runs.items():
        accuracy = log.column("test_accuracy")
        loss = training_loss(log).value
        on_air_s = float(log.column("airtime_s").sum())
        rows.append(
            [
                name + (" (biased)" if log.manifest.get("biased") else ""),
                str(log.rounds),
                f"{on_air_s:.1f}",
                f"{elapsed_s(on_air_s, log.rounds, scenario.uplink.computation_s):.1f}",
                f"{accuracy[-1]:.4f}",
                f"{accuracy[accuracy == accuracy].max():.4f}",
                f"{loss[-1]:.4f}" if len(loss) else "-",
            ]
        )
    header = ["run", "rounds", "airtime s", "clock s", "test accuracy", "best", "train loss"]
    print_table(title, header, rows)
