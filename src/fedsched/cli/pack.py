"""``fedsched pack``: runs become small copies to keep or to send."""

from collections import Counter
from pathlib import Path

import click

from fedsched.errors import InputError
from fedsched.results.collect import collect_runs
from fedsched.results.runlog import pack_run

__all__ = ["command"]


@click.command("pack", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@click.option("--out", required=True, metavar="DIR", help="One folder in it for each run.")
def command(runs: tuple[str, ...], out: str) -> None:
    """Copy RUNS, run folders or folders that hold them, without checkpoints and models.

    What is left, the manifest and the compressed log, is all that `fedsched report` and `reproduce
    --draw` read.
    """
    target = Path(out)
    found = collect_runs(runs)
    for each in found.left_out:
        click.echo(f"left out: {each.name}: {each.reason}", err=True)
    names = Counter(run.log.folder.name for run in found.runs)
    if twice := [name for name, count in names.items() if count > 1]:
        raise InputError(
            f"runs: several folders are called {twice[0]!r} and would be written over each other; "
            "pack them into different folders"
        )
    for run in found.runs:
        if (target / run.log.folder.name).resolve() == run.log.folder.resolve():
            raise InputError(f"out: {out!r} holds the runs themselves; name another folder")
        pack_run(run.log.folder, target / run.log.folder.name)
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    click.echo(f"wrote {len(found.runs)} runs to {out}, {size / 1e6:.1f} MB there in all")
