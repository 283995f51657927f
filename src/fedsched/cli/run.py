"""``fedsched run``: a scenario file becomes a run folder, or a folder of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fedsched.analysis.curves import training_loss
from fedsched.analysis.groups import group_runs
from fedsched.cli.options import (
    engine_options,
    json_option,
    out_option,
    set_option,
    workers_option,
)
from fedsched.cli.output import (
    counted,
    end_with,
    live_progress,
    print_json,
    print_table,
    run_each,
    seconds,
)
from fedsched.clock import elapsed_s
from fedsched.errors import InputError, UnknownNameError
from fedsched.files import output_folder
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.engines import Job, check_engine
from fedsched.runs.manifest import MANIFEST, MODEL, read_manifest
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, run_name
from fedsched.runs.scenario_file import (
    Settings,
    code_in,
    is_sweep,
    load_scenario,
    load_scenarios,
)

__all__ = ["command"]

_LOGS = ("tensorboard",)


@click.command("run", context_settings={"show_default": True})
@click.argument("scenario")
@out_option("Run folder; run again to resume.  [default: SCENARIO, if that is a run folder]")
@workers_option("Processes: that train the devices of one run, or runs of a sweep side by side.")
@set_option
@click.option("--device", default="cpu", help="cpu or cuda.")
@engine_options
@click.option(
    "--training-of",
    metavar="RUN",
    help="Folder of a run with the same cohorts over another channel: take its training over.",
)
@click.option("--check", is_flag=True, help="Say what it would run, and run nothing of it.")
@click.option("--log", help=f"Also log the rounds, live, for: {', '.join(_LOGS)}.")
@json_option
def command(
    scenario: str, out: str | None, workers: int, device: str, engine: str, address: str | None,
    training_of: str | None, check: bool, log: str | None, as_json: bool,
    settings: dict[str, Any],
) -> None:  # fmt: skip
    """Train what the file SCENARIO describes, under the radio clock.

    One run goes into DIR; a file with a [sweep] makes a folder in DIR for each of its runs. Run it
    again and finished runs are passed over, others go on from their last checkpoint. Whatever the
    number of workers and interruptions, models and all values in logs come out the same to the
    bit. In place of a file, SCENARIO may be a run folder, which knows its own: the run there goes
    on.
    """
    if check:
        _check(scenario, settings)
        return
    check_engine(engine, address)
    if log not in (None, *_LOGS):
        raise UnknownNameError("log", str(log), _LOGS)
    scenarios, single = _scenarios(scenario, settings)
    here = single and engine == "local"  # in this process, with workers for its devices
    _check_training(training_of, scenario, len(scenarios), engine, here)
    place = output_folder("out", _folder(scenario, engine) if out is None else out)
    _remark_others(place)
    names = [each.policy.kind if here else run_name(each) for each in scenarios]
    jobs = [
        Job(
            name=name,
            scenario=each,
            folder=place if single else place / name,
            device=device,
            tensorboard=log == "tensorboard",
            training_of=None if training_of is None else Path(training_of),
        )
        for name, each in zip(names, scenarios, strict=True)
    ]
    ended = {job.name: rounds_done(job.folder) for job in jobs if _has_ended(job)}
    failed = {}
    if here:
        _train(jobs[0], workers)
    else:
        failed = run_each(jobs, engine=engine, workers=workers, address=address)
    logs = {job.name: read_run(job.folder) for job in jobs if job.name not in failed}
    rows = [_row(job, logs[job.name]) for job in jobs if job.name in logs]
    if as_json:
        print_json({"out": str(place), "runs": rows, "failed": failed})
    else:
        _print(scenario, rows, {} if here else _labels(logs))
        told = "" if here else f"{len(rows)} of {counted(len(jobs), 'run')} to "
        as_before = sum(rounds_done(job.folder) == ended.get(job.name) for job in jobs)
        written = "" if as_before == len(jobs) else f"wrote {told}{place}; "
        click.echo(f"{written}{_passed_over(as_before, len(jobs), place)}".removesuffix("; "))
    end_with(failed)


def _has_ended(job: Job) -> bool:
    return (job.folder / MODEL).is_file()


def _passed_over(as_before: int, jobs: int, place: Path) -> str:
    """What a command says that had nothing to do, or less than it seems."""
    if not as_before:
        return ""
    if jobs == 1:
        return f"the run in {place} was finished already, and nothing was done"
    if as_before == jobs:
        return f"all {jobs} runs in {place} were finished already, and nothing was done"
    return f"{as_before} were finished already and were passed over"


def _remark_others(place: Path) -> None:
    """Say so if a folder for runs holds something else: it may be the wrong one."""
    if not place.is_dir() or (place / MANIFEST).is_file() or any(place.glob(f"*/{MANIFEST}")):
        return
    if others := sorted(each.name for each in place.iterdir() if not each.name.startswith(".")):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        click.echo(f"out: {str(place)!r} holds {others[0]!r}{more}, left as found", err=True)


def _labels(logs: Mapping[str, RunLog]) -> dict[str, str]:
    """Of runs by their names: what was swept, in words."""
    of_log = {id(log): name for name, log in logs.items()}
    return {
        of_log[id(log)]: f"{group.label}, seed {seed}"
        for group in group_runs(logs.values())
        for log, seed in zip(group.logs, group.seeds, strict=True)
    }


def _train(job: Job, workers: int) -> None:
    # Torch and the data are loaded only once the scenario is known to be sound.
    from fedsched.runs.experiment import run

    policy = job.scenario.policy
    rounds = job.scenario.run.rounds
    with live_progress(f"{policy.kind}, m = {policy.draws}", job.folder, rounds) as progress:
        run(
            job.scenario, job.folder, workers=workers, torch_device=job.device, progress=progress,
            tensorboard=job.tensorboard, training_of=job.training_of,
        )  # fmt: skip


def _folder(scenario: str, engine: str) -> str:
    """Where a run goes whose command names no folder: on in its own."""
    if not Path(scenario).is_dir():
        raise InputError(
            f"out is missing: name the folder that the run of {scenario!r} goes into with --out"
        )
    if engine != "local":
        raise InputError(
            f"engine: the run in {scenario!r} goes on where it is, with the engine local, "
            f"got {engine!r}; name a scenario file and --out for a cluster"
        )
    return scenario


def _check_training(
    training_of: str | None, scenario: str, runs: int, engine: str, here: bool
) -> None:
    if training_of is None:
        return
    if not here:
        raise InputError(
            f"training_of: {training_of!r} is the training of one run, and {scenario!r} makes "
            f"{runs} with the engine {engine}; use it with a scenario without a sweep and the "
            "engine local"
        )
    read_manifest(Path(training_of))  # also where the run has begun and needs it no more


def _scenarios(path: str, settings: Settings) -> tuple[list[Scenario], bool]:
    """Those of a file, or the one of a run folder; and whether it is one run, not a sweep."""
    folder = Path(path)
    if not folder.is_dir():
        _name_code(code_in(path))
        return load_scenarios(path, settings=settings), not is_sweep(path)
    runs = len(list(folder.glob(f"*/{MANIFEST}")))
    if runs and not (folder / MANIFEST).is_file():
        raise InputError(
            f"scenario: {path!r} holds {runs} runs and is none itself; name one of them, or the "
            "scenario file they were made from and --out"
        )
    there = read_manifest(folder)["scenario"]
    _name_code(code_in(there))
    return [load_scenario(there, settings=settings)], True


def _check(path: str, settings: Settings) -> None:
    """What a scenario of a stranger would run: nothing of it is imported."""
    folder = Path(path)
    named = code_in(read_manifest(folder)["scenario"] if folder.is_dir() else path)
    _name_code(named)
    if named:
        click.echo("it names code, so no more can be checked without running that; read it first")
        return
    found, _ = _scenarios(path, settings)
    click.echo(f"it is sound, brings no code of its own, and makes {counted(len(found), 'run')}")


def _name_code(named: Sequence[tuple[str, str]]) -> None:
    """Say what code a scenario brings along, before any of it is run."""
    for where, name in named:
        click.echo(f"this scenario runs code of its own: {where} = {name}", err=True)


def _row(job: Job, log: RunLog) -> dict[str, Any]:
    accuracy = log.column("test_accuracy")
    loss = training_loss(log).value
    on_air_s = float(log.column("airtime_s").sum())
    computation_s = job.scenario.uplink.computation.common_s
    return {
        "run": job.name,
        "folder": str(job.folder),
        "biased": bool(log.manifest.get("biased")),
        "rounds": log.rounds,
        "airtime_s": on_air_s,
        "clock_s": elapsed_s(on_air_s, log.rounds, computation_s),
        "final_accuracy": float(accuracy[-1]),
        "best_accuracy": float(accuracy[accuracy == accuracy].max()),
        "training_loss": float(loss[-1]) if len(loss) else None,
    }


def _loss(value: float) -> str:
    """A loss; one of a training that came apart is no long row of digits."""
    return f"{value:.4f}" if value < 1e4 else f"{value:.2e}"


def _print(title: str, rows: list[dict[str, Any]], labels: Mapping[str, str]) -> None:
    """A row for each run: by what was swept and its folder, or by its policy."""
    header = ["run", "rounds", "airtime s", "clock s", "test accuracy", "best", "train loss"]
    header += ["folder"] if labels else []
    table = [
        [
            labels.get(row["run"]) or row["run"] + (" (biased)" if row["biased"] else ""),
            str(row["rounds"]),
            seconds(row["airtime_s"]),
            seconds(row["clock_s"]),
            f"{row['final_accuracy']:.4f}",
            f"{row['best_accuracy']:.4f}",
            "-" if (loss := row["training_loss"]) is None else _loss(loss),
            *([row["run"]] if labels else []),
        ]
        for row in rows
    ]
    print_table(title, header, table)
