"""What commands share: tables and progress on the terminal, JSON for programs."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedsched.engines import Job
from fedsched.results.checkpoint import rounds_done

__all__ = ["grid_progress", "live_progress", "print_json", "print_table", "track"]

if TYPE_CHECKING:
    from fedsched.experiment import Progress as RunProgress

T = TypeVar("T")


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def print_table(
    title: str, header: list[str], rows: Iterable[list[str]], *, markdown: bool = False
) -> None:
    """A table on standard output; the first column is left-aligned, numbers to the right."""
    if markdown:
        ruler = [":--", *["--:"] * (len(header) - 1)]
        lines = [f"| {' | '.join(row)} |" for row in (header, ruler, *rows)]
        click.echo("\n".join([f"**{title}**", "", *lines, ""]))
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*row)
    # Piped into a file or another program there is no terminal to fit, so nothing is cut off.
    console = Console()
    Console(width=console.width if console.is_terminal else 160).print(table)


def track(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
    """Pass items through with a progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(label, total=total)
        for item in items:
            yield item
            progress.advance(task)


@contextmanager
def live_progress(label: str) -> "Iterator[Callable[[RunProgress], None]]":
    """A live line for one training run: round, simulated time, accuracy, devices, time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    fields = TextColumn("{task.fields[state]}")
    console = Console(stderr=True)
    with Progress(
        *columns, fields, TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bars:  # fmt: skip
        task = bars.add_task(label, total=None, state="starting")

        def show(now: "RunProgress") -> None:
            accuracy = "-" if now.accuracy is None else f"{now.accuracy:.3f}"
            state = f"{now.simulated_s:,.1f} s  accuracy {accuracy}  {now.devices} devices"
            bars.update(task, completed=now.round, total=now.rounds, state=state)

        yield show


@contextmanager
def grid_progress(jobs: Sequence[Job]) -> Iterator[None]:
    """One line for many runs: rounds done of all, runs finished, time left.

    It looks at the run folders, so it is right whatever engine fills them.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    stop = threading.Event()
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bars:  # fmt: skip
        total = sum(job.scenario.run.rounds for job in jobs)
        task = bars.add_task("rounds", total=total)

        def look() -> None:
            while not stop.wait(0.5):
                done = [min(rounds_done(job.folder), job.scenario.run.rounds) for job in jobs]
                finished = sum(
                    each == job.scenario.run.rounds for each, job in zip(done, jobs, strict=True)
                )
                label = f"{finished} of {len(jobs)} runs, rounds"
                bars.update(task, completed=sum(done), description=label)

        watcher = threading.Thread(target=look, daemon=True)
        if console.is_terminal:
            watcher.start()
        try:
            yield
        finally:
            stop.set()
