"""Engines: many runs side by side, each in a process of its own."""

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from fedsched.config import Scenario

__all__ = ["Job", "Outcome", "run_locally"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to be done."""

    name: str
    scenario: Scenario
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended: a sentence if it failed."""

    job: Job
    failure: str | None


def run_locally(jobs: Sequence[Job], *, processes: int) -> Iterator[Outcome]:
    """Run jobs on this machine, as many at a time as there are processes, as they end.

    Finished runs are passed over and others go on from where they stand, so calling this again
    with the same jobs does only what is left. A failing run stops nothing else.
    """
    # Fresh interpreters: forking a process that has loaded torch may hang.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_one_thread)
    with pool:
        running = {pool.submit(_run, job): job for job in jobs}
        for future in as_completed(running):
            error = future.exception()
            sentence = None if error is None else f"{type(error).__name__}: {error}"
            yield Outcome(job=running[future], failure=sentence)


def _one_thread() -> None:
    """One thread a process: two that spin for the same core are many times slower."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _run(job: Job) -> None:
    from fedsched.experiment import run

    run(job.scenario, job.folder)
