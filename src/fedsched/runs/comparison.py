"""Comparisons: one scenario, many policies, the same data and channel draws."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from fedsched.checks import whole_number
from fedsched.errors import FedschedError
from fedsched.files import output_folder
from fedsched.policies import policy_info
from fedsched.runs.engines import Job, Outcome, check_failures, run_jobs
from fedsched.runs.experiment import run
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario
from fedsched.runs.scenario_file import NO_SETTINGS, Settings, Source, load_scenario

__all__ = ["compare", "comparison_jobs", "comparison_scenarios"]


def compare(
    scenario: Source,
    policies: Iterable[str],
    out: str | Path,
    *,
    settings: Settings = NO_SETTINGS,
    workers: int = 1,
) -> dict[str, RunLog]:
    """Train a scenario with each of the policies, on the same data and channel draws.

    Runs that are finished are read, others go on from their checkpoints. Where a run fails, the
    others are done before the error is raised.

    Args:
        scenario: a scenario file, plain values by section, or a scenario. Its ``policy.kind`` is
            replaced by each of the policies, which read their own fields of it.
        policies: names, as ``fedsched policies`` lists them, or import paths of classes.
        out: a folder, in which every policy gets a run folder of its own.
        settings: values by dotted names that take the place of those in the scenario.
        workers: runs side by side. More than one are processes of their own, which a script
            must start under ``if __name__ == "__main__"``.

    Returns:
        The logs by policy, in the order of the policies.
    """
    whole_number("workers", workers)
    jobs = comparison_jobs(comparison_scenarios(scenario, policies, settings), Path(out))
    output_folder("out", str(out))
    if workers == 1:
        outcomes = [_run_here(job) for job in jobs]
    else:
        outcomes = list(run_jobs(jobs, workers=workers))
    check_failures(outcomes)
    return {job.name: read_run(job.folder) for job in jobs}


def _run_here(job: Job) -> Outcome:
    """Run a job in this process; an error that is not ours is raised at once, with its trace."""
    try:
        run(job.scenario, job.folder)
    except FedschedError as error:
        return Outcome(job=job, failure=str(error))
    return Outcome(job=job, failure=None)


def comparison_scenarios(
    scenario: Source,
    policies: Iterable[str],
    settings: Settings = NO_SETTINGS,
    compressors: Iterable[str] | None = None,
) -> list[Scenario]:
    """The scenario with each of the policies, and of the compressors if any are named, once each.

    A bad name is refused at once.
    """
    names = list(policies)
    for name in names:
        policy_info(name)
    packed = [{}] if compressors is None else [{"training.compress": each} for each in compressors]
    each = (
        load_scenario(scenario, settings={**settings, **how, "policy.kind": name})
        for name in names
        for how in packed
    )
    return list(dict.fromkeys(each))


def comparison_jobs(
    scenarios: Sequence[Scenario], folder: Path, *, tagged: bool = False
) -> list[Job]:
    """A run for each, in a folder with the name of its policy, and of its compressor if tagged."""
    names = [
        each.policy.kind + (f"-{each.training.compress}" if tagged else "") for each in scenarios
    ]
    return [  # no name of a folder has a colon
        Job(name=name, scenario=each, folder=folder / name.replace(":", "-"))
        for name, each in zip(names, scenarios, strict=True)
    ]
