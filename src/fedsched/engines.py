"""Engines: many runs side by side, on this machine or on a Ray cluster.

A run is a function of its scenario, and its folder holds all of its state; so an engine only
decides where runs happen. What a lost worker leaves behind goes on elsewhere from its last
checkpoint, provided that the folder is on storage both can reach.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from fedsched.config import Scenario
from fedsched.errors import require

__all__ = ["ENGINES", "Job", "Outcome", "run_jobs"]

ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to be done."""

    name: str
    scenario: Scenario
    folder: Path
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended: a sentence if it failed."""

    job: Job
    failure: str | None


def run_jobs(
    jobs: Sequence[Job], *, engine: str = "local", processes: int = 1, address: str | None = None
) -> Iterator[Outcome]:
    """Run jobs side by side and tell of each as it ends.

    Finished runs are passed over and others go on from where they stand, so calling this again
    with the same jobs does only what is left. A failing run stops nothing else.

    Args:
        jobs: what to run.
        engine: "local" for processes of this machine, "ray" for a Ray cluster.
        processes: how many at a time; a Ray cluster decides by itself.
        address: of the Ray cluster; None starts one on this machine.
    """
    if engine == "ray":
        return _on_ray(jobs, address)
    return _locally(jobs, processes)


def _run(job: Job) -> str | None:
    """Run one job in this process; a sentence if it fails."""
    # One thread a process: two that spin for the same core are many times slower.
    os.environ["OMP_NUM_THREADS"] = "1"
    from fedsched.experiment import run

    try:
        run(job.scenario, job.folder, torch_device=job.device)
    except Exception as error:  # a failing run must not stop the others
        return f"{type(error).__name__}: {error}"
    return None


def _locally(jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    # Fresh interpreters: forking a process that has loaded torch may hang.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_run, job): job for job in jobs}
        try:
            for future in as_completed(running):
                lost = future.exception()  # of the process, not of the run
                failure = future.result() if lost is None else f"its process was lost: {lost}"
                yield Outcome(job=running[future], failure=failure)
        finally:
            # Whoever stops listening waits for the runs under way, not for those not yet begun.
            pool.shutdown(cancel_futures=True)


def _on_ray(jobs: Sequence[Job], address: str | None) -> Iterator[Outcome]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = require("ray", extra="ray", purpose="the engine ray")
    ray.init(
        address=address, log_to_driver=False, include_dashboard=False if address is None else None
    )
    try:
        # A lost node is no fault of the run: it is placed again, as often as it takes.
        remote = ray.remote(num_cpus=1, max_retries=-1)(_run)
        running = {remote.remote(job): job for job in jobs}
        while running:
            (ended,), _ = ray.wait(list(running), num_returns=1)
            job = running.pop(ended)
            try:
                failure = ray.get(ended)
            except ray.exceptions.RayError as error:
                failure = f"its worker was lost: {error}"
            yield Outcome(job=job, failure=failure)
    finally:
        ray.shutdown()
