"""Opening the run folder of a start, and going on with what it holds."""

import logging
from collections.abc import Mapping

from flwr.app import ConfigRecord
from flwr.serverapp import Grid

from fedsched.flower.folder import NoFolder, RunFolder, origin_of
from fedsched.flower.session import Session
from fedsched.flower.settings import Settings

__all__ = ["go_on", "open_folder"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines


def open_folder(
    given: Settings,
    session: Session,
    grid: Grid,
    rounds: int,
    configs: Mapping[str, ConfigRecord | None],
) -> RunFolder | NoFolder:
    """The folder that was asked for, as a run of that many rounds and configurations."""
    if given.folder is None:
        return NoFolder()
    about = {
        "update_bits": session.uplink.bits,
        "model": [[name, *each.shape] for name, each in session.model.items()],
    }
    return RunFolder(
        given.folder,
        given.scenario(session.uplink, rounds, session.scheduler.seed),
        about,
        origin_of(grid, session.model, {**configs, "run": given.run_config}),
        given.checkpoint_every,
    )


def go_on(session: Session, folder: RunFolder | NoFolder) -> None:
    """Take up what the folder holds, and say so."""
    for words in folder.warnings:
        _log.warning("%s", words)
    saved = folder.restored(session.model)
    if saved is None:
        return
    session.restore(saved)
    if folder.finished:
        _log.warning(
            "the run in %s is finished: its %d rounds are done and nothing is trained. Ask for "
            "more rounds to go on, or choose another folder to begin anew.",
            folder.path, saved.round,
        )  # fmt: skip
    else:
        _log.info("going on after round %d of %s", saved.round, folder.path)
