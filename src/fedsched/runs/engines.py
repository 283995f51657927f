"""Engines: many runs side by side, on this machine or on a Ray cluster.

A run is a function of its scenario, and its folder holds all of its state; so an engine only
decides where runs happen. What a lost worker leaves behind goes on elsewhere from its last
checkpoint, provided that the folder is on storage both can reach.
"""

import dataclasses
import os
import signal
import socket
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from fedsched.checks import one_of, whole_number
from fedsched.errors import FedschedError, InputError, require
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.scenario import Scenario

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from fedsched.runs.experiment import Progress

__all__ = [
    "ENGINES",
    "Job",
    "Outcome",
    "check_engine",
    "check_failures",
    "run_jobs",
    "shared_counts",
]

ENGINES = ("local", "ray")

_LOSSES = 3  # workers in a row that a run may cost a cluster without getting on
_LOCK_WAIT_S = 120.0
_KNOCK_S = 10.0
_ON_RAY = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to be done."""

    name: str
    scenario: Scenario
    folder: Path
    device: str = "cpu"
    tensorboard: bool = False  # write its events too
    training_of: Path | None = None  # a run whose training to take over as far as it has come


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended: a sentence if it failed."""

    job: Job
    failure: str | None


def check_engine(engine: str, address: str | None) -> None:
    """Refuse an engine that is not known, and the address of a cluster that nobody would join."""
    one_of("engine", engine, ENGINES)
    if address is not None and engine != "ray":
        raise InputError(
            f"address: {address!r} is that of a Ray cluster, and the engine is {engine!r}; choose "
            "the engine ray, or leave the address out"
        )


def check_failures(outcomes: Sequence[Outcome]) -> None:
    """Refuse to go on if any job failed, with its name and its sentence."""
    failed: dict[str, list[str]] = {}
    for each in outcomes:
        if each.failure is not None:
            failed.setdefault(each.failure, []).append(each.job.name)
    if failed:
        reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in failed.items())
        count = sum(map(len, failed.values()))
        raise FedschedError(f"{count} of {len(outcomes)} runs failed: {reasons}")


def shared_counts(jobs: Sequence[Job]) -> Any:
    """A number for each job that workers of this machine write the rounds done into."""
    return get_context("spawn").Array("q", max(len(jobs), 1))


def run_jobs(
    jobs: Sequence[Job], *, engine: str = "local", workers: int = 1, address: str | None = None,
    counts: Any = None,
) -> Iterator[Outcome]:  # fmt: skip
    """Run jobs side by side and tell of each as it ends.

    Finished runs are passed over and others go on from their checkpoints, so calling this again
    with the same jobs does only what is left. A failing run stops nothing else.

    Args:
        jobs: what to run.
        engine: "local" for processes of this machine, "ray" for a Ray cluster.
        workers: how many at a time; a Ray cluster decides by itself.
        address: of the Ray cluster; None starts one on this machine, unless RAY_ADDRESS is set.
            Workers need this package and the same folders under the same names.
        counts: of :func:`shared_counts`, for whoever watches between checkpoints.
    """
    check_engine(engine, address)
    whole_number("workers", workers)
    return _on_ray(jobs, address) if engine == "ray" else _locally(jobs, workers, counts)


def _run(
    job: Job, wait_s: float = 0.0, progress: "Callable[[Progress], None] | None" = None
) -> str | None:
    """Run one job in this process; a sentence if it fails."""
    # One thread a process: two that spin for the same core are many times slower.
    os.environ["OMP_NUM_THREADS"] = "1"
    from fedsched.runs.experiment import run

    begun = job.training_of is not None and rounds_done(job.training_of)
    try:
        run(
            job.scenario,
            job.folder,
            torch_device=job.device,
            tensorboard=job.tensorboard,
            wait_s=wait_s,
            progress=progress,
            training_of=job.training_of if begun else None,
        )
    except FedschedError as error:
        return str(error)
    except Exception as error:  # a failing run must not stop the others
        return f"{type(error).__name__}: {error}"
    return None


def _locally(jobs: Sequence[Job], workers: int, counts: Any) -> Iterator[Outcome]:
    # A pool for each process, so that one that is killed takes no other run with it. Fresh
    # interpreters: forking a process that has loaded torch may hang.
    context = get_context("spawn")
    stop = context.Event()

    def pool() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, context, initializer=_begin_worker, initargs=(stop, counts))

    places = {job.name: place for place, job in enumerate(jobs)}
    waiting = deque(_Attempts(job=job) for job in jobs)
    free = [pool() for _ in range(min(workers, len(jobs)))]
    running: dict[Future[str | None], tuple[ProcessPoolExecutor, _Attempts]] = {}
    try:
        while waiting or running:
            while waiting and free:
                attempts, one = waiting.popleft(), free.pop()
                job = attempts.job
                running[one.submit(_run_in_worker, job, places[job.name])] = one, attempts
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                one, attempts = running.pop(future)
                lost = future.exception()  # of the process, not of the run
                if lost is None:
                    free.append(one)
                    yield Outcome(job=attempts.job, failure=future.result())
                    continue
                one.shutdown()
                free.append(pool())
                attempts = attempts.after_loss()
                if attempts.left > 0:
                    waiting.append(attempts)
                else:
                    sentence = f"its process was lost {_LOSSES} times with no checkpoint in between"
                    yield Outcome(job=attempts.job, failure=f"{sentence}: {lost}")
    except KeyboardInterrupt:
        stop.set()  # the runs under way end with their round, and keep it
        raise
    finally:
        # Whoever stops listening waits for the runs under way, not for those not yet begun.
        for one in [*free, *(each for each, _ in running.values())]:
            one.shutdown(cancel_futures=True)


_stop: "Event | None" = None  # of a process of a pool
_counts: Any = None


def _begin_worker(stop: "Event", counts: Any) -> None:
    """In a process of a pool: the parent decides when it stops, and it ends when the parent has.

    A pool's process otherwise finishes its run first, hours after a sweep was killed, with the run
    folder locked to whoever gives the command again. Nothing is lost: checkpoints are whole.
    """
    global _stop, _counts  # what a process of a pool is given, it can only keep here
    _stop, _counts = stop, counts
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            connection.wait([parent.sentinel])
            os._exit(1)

        threading.Thread(target=watch, name="fedsched-parent-watch", daemon=True).start()


def _run_in_worker(job: Job, place: int) -> str | None:
    """Between two rounds: say how many are done, and stop if the parent was told to."""

    def between(now: "Progress") -> None:
        if _counts is not None:
            _counts[place] = now.round
        if _stop is not None and _stop.is_set():
            raise KeyboardInterrupt

    return _run(job, progress=between)


def _on_ray(jobs: Sequence[Job], address: str | None) -> Iterator[Outcome]:
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    ray = _ray(address)
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    # Lost workers are replaced here and not by Ray, which would do so for ever.
    on_worker = ray.remote(max_retries=0, runtime_env={"env_vars": _ON_RAY})(_run_on_ray)
    place = Path.cwd()

    def submit(job: Job) -> Any:
        gpus = 1 if job.device.startswith("cuda") else 0
        twin = None if job.training_of is None else place / job.training_of
        absolute = dataclasses.replace(job, folder=place / job.folder, training_of=twin)
        return on_worker.options(num_cpus=1, num_gpus=gpus).remote(absolute, place)

    running = {submit(job): _Attempts(job=job) for job in jobs}
    try:
        while running:
            (ended,), _ = ray.wait(list(running), num_returns=1)
            attempts = running.pop(ended)
            try:
                failure = ray.get(ended)
            except ray.exceptions.RayTaskError as error:  # not of the run, which is caught there
                failure = f"it could not be started on a worker: {error}"
            except ray.exceptions.RayError as error:
                attempts = attempts.after_loss()
                if attempts.left > 0:
                    running[submit(attempts.job)] = attempts
                    continue
                failure = (
                    f"its worker was lost {_LOSSES} times with no checkpoint in between: {error}"
                )
            yield Outcome(job=attempts.job, failure=failure)
    finally:
        for task in running:  # of whoever stopped listening
            ray.cancel(task, force=True)
        if ours:
            ray.shutdown()


def _ray(address: str) -> ModuleType:
    """Ray itself, set up before it is imported: it and what it starts read their settings once."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address == "local":
        # A cluster of one machine answers this machine alone. On Linux Ray would listen on every
        # network and run what anybody sends; the setting is meant for other systems and does here
        # what it does there. Whoever has set it has chosen.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    return require("ray", extra="ray", purpose="the engine ray")


def _connect(ray: ModuleType, address: str) -> None:
    """Join a Ray cluster, or start one that is called "local"."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    if address == "local":
        quiet["include_dashboard"] = False
    with warnings.catch_warnings():
        # Ray announces what a later version will do with the GPUs of tasks that ask for none.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            _check_answers(address)
            ray.init(address=address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"address: the Ray cluster at {address!r} cannot be joined: {error}; start one "
                "with `ray start --head`, or leave the address out to use this machine alone"
            ) from error


def _check_answers(address: str) -> None:
    """Knock at an address with a port: Ray itself would take minutes to find nobody there."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


@dataclass(frozen=True, kw_only=True)
class _Attempts:
    """A job, and how many more workers it may lose before its next checkpoint."""

    job: Job
    left: int = _LOSSES
    rounds: int = 0  # of its last checkpoint when a worker was lost

    def after_loss(self) -> Self:
        """A run that has come further since has not earned its loss."""
        rounds = rounds_done(self.job.folder)
        left = (_LOSSES if rounds > self.rounds else self.left) - 1
        return dataclasses.replace(self, left=left, rounds=rounds)


def _run_on_ray(job: Job, place: Path) -> str | None:
    """Run one job in a worker of a cluster; a sentence if it fails."""
    # Trace files and modules of the user's own are named from where the command was given; a
    # worker that does not have the place can still run whatever needs none of them.
    with suppress(OSError):
        os.chdir(place)
    # The lock of a lost worker's run lasts until its machine, or the file server, has noticed.
    return _run(job, wait_s=_LOCK_WAIT_S)
