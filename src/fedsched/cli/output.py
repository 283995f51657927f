"""What commands share: tables and progress on the terminal, JSON for programs."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from rich.cells import cell_len
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedsched.cli.interrupts import gentle_interrupt, telling
from fedsched.cli.terminal import clean, console
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.engines import Job, Outcome, check_failures, run_jobs, shared_counts
from fedsched.runs.manifest import MODEL

__all__ = [
    "counted",
    "end_with",
    "grid_progress",
    "live_progress",
    "print_json",
    "print_table",
    "run_all",
    "run_each",
    "seconds",
    "sent",
    "track",
]

if TYPE_CHECKING:
    from fedsched.runs.experiment import Progress as RunProgress

T = TypeVar("T")

_UNBOUNDED = 10_000  # columns of a console that is no terminal: nothing is folded
_FRAME = 3  # columns of the terminal beside the letters of a column: two margins and a rule
_TEXT = 24  # a cell with more letters is a text to be read, not a number or a name
_NUMERIC = frozenset("0123456789.+-")  # what a number begins with, or what stands for none
_SPEAK_S = 60.0  # between lines of progress where there is no terminal to draw a bar on


def seconds(value: float) -> str:
    """Seconds as tables have them; of less than one two digits, as whole runs over 5G take.

    Example:
        >>> seconds(1557.04), seconds(0.0412), seconds(0.4), seconds(0.0)
        ('1557.0', '0.041', '0.40', '0.0')
    """
    return f"{value:#.2g}" if 0.0 < value < 0.95 else f"{value:.1f}"


def sent(bits: float | None, omega: float | None) -> list[str]:
    """How many Mbit an upload was, and what compression added."""
    return ["-" if bits is None else f"{bits / 1e6:.4g}", "-" if omega is None else f"{omega:.3g}"]


def counted(number: int, what: str) -> str:
    """A number of things, in the plural but for one.

    Example:
        >>> counted(1, "run"), counted(3, "configuration")
        ('1 run', '3 configurations')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    text = json.dumps(value, indent=2, allow_nan=False)
    click.echo(text.replace("\x7f", "\\u007f"))  # the one control character that JSON leaves


def print_table(
    title: str, header: list[str], rows: Iterable[list[str]], *, markdown: bool = False
) -> None:
    """A table on standard output; names are left-aligned, numbers to the right."""
    rows = list(rows)
    sides = [_side(place, rows) for place in range(len(header))]
    if markdown:
        ruler = [":--" if side == "left" else "--:" for side in sides]
        lines = [f"| {' | '.join(row)} |" for row in (header, ruler, *rows)]
        click.echo("\n".join([f"**{title}**", "", *lines, ""]))
        return
    here = console()
    width = here.width if here.is_terminal else _UNBOUNDED
    title, header = clean(title), [clean(name) for name in header]
    body = [[clean(cell) for cell in row] for row in rows]
    for number, columns in enumerate(columns_that_fit(header, body, width)):
        above = title if number == 0 else None
        table = Table(title=above, title_justify="left", title_style="bold")
        widths = column_widths([_texts(header, body, place) for place in columns], width)
        for place, letters in zip(columns, widths, strict=True):
            table.add_column(header[place], justify=sides[place], overflow="fold", width=letters)
        for row in body:
            table.add_row(*(row[place] for place in columns))
        # Brackets and colons in names are letters, not the marks of a style or a picture.
        console(width=width, markup=False, emoji=False).print(table)


def _side(place: int, rows: Sequence[Sequence[str]]) -> Literal["left", "right"]:
    """Where the cells of a column begin: a column is of numbers if one of its cells is."""
    numbers = any(row[place][:1] in _NUMERIC for row in rows)
    return "right" if place and numbers else "left"


def columns_that_fit(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[list[int]]:
    """The columns of a table in parts that fit side by side, each beginning with the first column.

    Example:
        >>> columns_that_fit(["run", "seconds", "rounds"], [["uniform", "12,418", "4,127"]], 24)
        [[0, 1], [0, 2]]
    """
    needed = [_least(_texts(header, rows, place)) + _FRAME for place in range(len(header))]
    beside_first = width - needed[0] - 1
    parts, left = [[0]], beside_first
    for place in range(1, len(header)):
        if needed[place] > left and len(parts[-1]) > 1:
            parts.append([0])
            left = beside_first
        parts[-1].append(place)
        left -= needed[place]
    return parts


def column_widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Letters for each column, given its texts: what it needs, and of the rest who lacks most.

    Example:
        >>> column_widths([["run", "uniform"], ["airtime s/round", "0.4"]], 24)
        [7, 10]
    """
    given = [_least(texts) for texts in columns]
    lacks = [max(map(cell_len, texts)) - own for texts, own in zip(columns, given, strict=True)]
    spare = width - 1 - sum(own + _FRAME for own in given)
    for place in sorted(range(len(columns)), key=lambda place: -lacks[place]):
        more = max(0, min(spare, lacks[place]))
        given[place] += more
        spare -= more
    return given


def _texts(header: Sequence[str], rows: Sequence[Sequence[str]], place: int) -> list[str]:
    return [header[place], *(row[place] for row in rows)]


def _least(texts: Sequence[str]) -> int:
    """Of a column with this title and cells; long texts fold between words, others nowhere."""
    words = max(cell_len(word) for text in texts for word in (text.split() or [""]))
    return max(words, *(cell_len(text) for text in texts[1:] if cell_len(text) <= _TEXT), 0)


def track(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
    """Pass items through with their progress on standard error."""
    with _bars() as (bars, say):
        task = bars.add_task(clean(label), total=total, state="")
        for done, item in enumerate(items):
            say(f"{label}: {done} of {total}")
            yield item
            bars.advance(task)


@contextmanager
def live_progress(
    label: str, folder: Path, rounds: int
) -> "Iterator[Callable[[RunProgress], None]]":
    """A live line for one training run: round, simulated time, accuracy, devices, time left."""
    with (
        _bars() as (bars, say),
        telling(_what_is_kept([folder])),
        gentle_interrupt() as interrupt,
    ):
        done = rounds_done(folder)
        task = bars.add_task(clean(label), completed=done, total=rounds, state="starting")

        def show(now: "RunProgress") -> None:
            accuracy = "-" if now.accuracy is None else f"{now.accuracy:.3f}"
            state = f"{now.simulated_s:,.1f} s  accuracy {accuracy}  {now.devices} devices"
            bars.update(task, completed=now.round, total=now.rounds, state=state)
            say(f"{label}: round {now.round} of {now.rounds}  {state}")
            interrupt.begun = True
            if interrupt.asked:
                raise KeyboardInterrupt

        yield show


@contextmanager
def grid_progress(jobs: Sequence[Job], counts: Sequence[int] = ()) -> Iterator[None]:
    """One line for many runs: rounds done of all, runs finished, time left.

    It looks at the run folders, so it is right whatever engine fills them. Between checkpoints it
    goes by ``counts``, the rounds of each job, where workers write them.
    """
    stop = threading.Event()
    with _bars() as (bars, say), telling(_what_is_kept([job.folder for job in jobs])):
        task = bars.add_task("rounds", total=None, state="")

        def look() -> None:
            finished, done, total = _progress_of(jobs, counts)
            label = f"{finished} of {counted(len(jobs), 'run')}, rounds"
            bars.update(task, completed=done, total=total, description=label)
            say(f"{label} {done} of {total}")

        def look_on() -> None:
            while not stop.wait(0.5):
                look()

        look()
        threading.Thread(target=look_on, daemon=True).start()
        try:
            yield
        finally:
            stop.set()


def run_each(
    jobs: Sequence[Job], *, engine: str = "local", workers: int = 1, address: str | None = None
) -> dict[str, str]:
    """Run jobs to their ends, with progress; those that failed by name, with a sentence each."""
    outcomes = _outcomes(jobs, engine, workers, address)
    return {each.job.name: each.failure for each in outcomes if each.failure is not None}


def run_all(
    jobs: Sequence[Job], *, engine: str = "local", workers: int = 1, address: str | None = None
) -> None:
    """The same where all are needed: refuse to go on if any failed, once the others are done."""
    check_failures(_outcomes(jobs, engine, workers, address))


def _outcomes(jobs: Sequence[Job], engine: str, workers: int, address: str | None) -> list[Outcome]:
    counts = shared_counts(jobs)
    with grid_progress(jobs, counts):
        return list(run_jobs(jobs, engine=engine, workers=workers, address=address, counts=counts))


def end_with(failed: Mapping[str, str]) -> None:
    """Name the runs that failed, if any did, and end in failure; the rest has been shown."""
    for reason in dict.fromkeys(failed.values()):
        names = [name for name, failure in failed.items() if failure == reason]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        click.echo(f"failed: {names[0]}{more}: {reason}", err=True)
    if failed:
        sys.exit(1)


def _progress_of(jobs: Sequence[Job], counts: Sequence[int] = ()) -> tuple[int, int, int]:
    """Runs finished, rounds done, and rounds there will be if none ends early that has not yet."""
    finished, done, total = 0, 0, 0
    for place, job in enumerate(jobs):
        ended = (job.folder / MODEL).is_file()
        count = counts[place] if counts else 0
        rounds = min(max(rounds_done(job.folder), count), job.scenario.run.rounds)
        finished, done = finished + ended, done + rounds
        total += rounds if ended else job.scenario.run.rounds
    return finished, done, total


@contextmanager
def _bars() -> Iterator[tuple[Progress, Callable[[str], None]]]:
    """Progress on standard error: bars on a terminal, elsewhere a line a minute by ``say``."""
    here = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    due_s = math.inf if here.is_terminal else time.monotonic() + _SPEAK_S

    def say(line: str) -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + _SPEAK_S
            click.echo(line, err=True)

    with Progress(
        *columns, TextColumn("{task.fields[state]}"), TimeRemainingColumn(), console=here,
        transient=True, disable=not here.is_terminal,
    ) as bars:  # fmt: skip
        yield bars, say


def _what_is_kept(folders: Sequence[Path]) -> Callable[[], str]:
    """What whoever interrupts learns: that nothing is lost, and how to go on."""

    def sentence() -> str:
        kept = sum(map(rounds_done, folders))
        return f"{kept} rounds are kept: give the same command to go on"

    return sentence
