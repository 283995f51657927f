"""``fedsched pack``: runs become small copies to keep or to send."""

from collections import Counter
from pathlib import Path

import click

from fedsched.analysis.collect import find_runs
from fedsched.cli.interrupts import telling
from fedsched.cli.options import json_option, out_option
from fedsched.cli.output import counted, print_json, track
from fedsched.errors import InputError
from fedsched.files import output_folder
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.manifest import MANIFEST, MODEL, PACKED, PACKED_ROUNDS, read_manifest
from fedsched.runs.pack import pack_run
from fedsched.runs.runlog import RunLog

__all__ = ["command"]


@click.command("pack", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@out_option("One folder in it for each run.", required=True)
@click.option(
    "--resumable", is_flag=True, help="Of a run that is not finished, keep the last checkpoint too."
)
@json_option
def command(runs: tuple[str, ...], out: str, resumable: bool, as_json: bool) -> None:
    """Copy RUNS, run folders or folders that hold them, without checkpoints and models.

    What is left, the manifest and the compressed log, is all that `fedsched report` and `reproduce
    --draw` read. With --resumable, `fedsched run` on the copy goes on where the run ended, on
    whatever machine it is.
    """
    found = find_runs(runs, without=Path(out) if out else None)
    for each in found.left_out:
        click.echo(f"left out: {each.name}: {each.reason}", err=True)
    names = Counter(run.log.folder.name for run in found.runs)
    if twice := [name for name, count in names.items() if count > 1]:
        raise InputError(
            f"runs: several folders are called {twice[0]!r} and would be written over each other; "
            "pack them into different folders"
        )
    if not found.runs:
        raise InputError(f"runs: there is no run to pack in {', '.join(runs)}; name run folders")
    if Path(out).resolve() in {run.log.folder.resolve() for run in found.runs}:
        raise InputError(f"out: {out!r} is one of the runs; name a folder for the copies")
    target = output_folder("out", out)
    for run in found.runs:
        _check_free(target / run.log.folder.name, run.log)
    all_runs, packed = counted(len(found.runs), "run"), 0
    with telling(lambda: f"{packed} of {all_runs} are in {out}: give the same command to go on"):
        for run in track(found.runs, total=len(found.runs), label="packing"):
            pack_run(run.log.folder, target / run.log.folder.name, resumable=resumable)
            packed += 1
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    if bare := sum(not run.log.verified for run in found.runs):
        why = "of an earlier version, or before their first checkpoint"
        click.echo(f"not verified: {counted(bare, 'run')} without a checksum ({why})", err=True)
    if as_json:
        left_out = {each.name: each.reason for each in found.left_out}
        print_json({"out": out, "runs": sorted(names), "bytes": size, "left_out": left_out})
        return
    click.echo(f"wrote {all_runs} to {out}, {_size(size)} there in all")


def _size(count: int) -> str:
    """Bytes as people read them: two digits of a small folder, a tenth of a large one."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _check_free(place: Path, log: RunLog) -> None:
    """Refuse to write over anything but an earlier copy of the same run."""
    if not (place / MANIFEST).is_file():
        return
    there = read_manifest(place)
    # A copy that has gone on is a run of its own, and one that can must not lose its checkpoint. A
    # copy that was interrupted may have none yet.
    apart = place.resolve() != log.folder.resolve()
    gone_on = (place / MODEL).exists() or rounds_done(place) > there.get(PACKED_ROUNDS, -1)
    copy = PACKED in there or (apart and not gone_on)
    if not copy or there["scenario"] != log.manifest["scenario"]:
        raise InputError(
            f"out: {str(place)!r} holds a run, and not a packed copy of {str(log.folder)!r}, which "
            "would be written over it; name another folder"
        )
