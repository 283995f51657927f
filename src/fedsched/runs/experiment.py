"""Runs: a scenario becomes a run folder, and a run folder that is not finished goes on."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.clock import elapsed_s
from fedsched.errors import InputError
from fedsched.learning.pool import AbstractTrainingPool, training_pool
from fedsched.radio import AbstractChannel
from fedsched.rounds import ScheduleState, start, train
from fedsched.runs.assembly import (
    about_run,
    about_trace,
    air_of,
    channel_of,
    trainer_spec_of,
    training_of,
)
from fedsched.runs.checkpoint import Checkpoint, rounds_done
from fedsched.runs.folder import RunFolder
from fedsched.runs.manifest import LENGTH_FIELDS, MANIFEST, PACKED, read_manifest
from fedsched.runs.replay import replay
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, differences, scenario_from
from fedsched.runs.scenario_file import Source, load_scenario
from fedsched.runs.sections import RunSection
from fedsched.runs.tensorboard import EventFollower, events_are_current, write_events
from fedsched.values import TrainedRound

__all__ = ["Progress", "run"]

_LASTING = 5  # measurements in a row at or above ``run.stop_accuracy`` that end a run


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come, for whoever watches."""

    round: int  # rounds done
    rounds: int  # in all
    simulated_s: float
    accuracy: float | None  # the last one measured
    devices: int  # in the last round


def run(
    scenario: Source,
    out: str | Path,
    *,
    workers: int = 1,
    torch_device: str = "cpu",
    progress: Callable[[Progress], None] | None = None,
    tensorboard: bool = False,
    wait_s: float = 0.0,
    training_of: str | Path | None = None,
) -> RunLog:
    """Run a scenario to its end in the folder ``out``, from its last checkpoint there.

    The bits of the log and of the model do not depend on ``workers``, nor on how often the run was
    stopped. A folder that holds another scenario is refused, unless only its length differs: then
    the run goes on to the new end, round by round as one that had that end from the start.

    Args:
        scenario: what to run: a scenario file, plain values by section, or a scenario.
        out: the run folder, made if need be.
        workers: processes that train the devices of a round.
        torch_device: "cpu" or "cuda".
        progress: called after every round; if it raises ``KeyboardInterrupt`` the run stops there
            with a checkpoint.
        tensorboard: also write TensorBoard events, live, beside the log.
        wait_s: how long to wait for another process that is running the folder.
        training_of: folder of a run whose cohorts and weights are the same over its own channel:
            what it has trained is taken over instead of trained again. See ``replay``.
    """
    scenario = load_scenario(scenario).as_read()  # what a run depends on, and no more
    with RunFolder.held("out", out, wait_s) as folder:
        if folder.begun:
            _check_same(folder.path, scenario)
            if PACKED in read_manifest(folder.path):
                return _packed(folder.path, scenario)
            _set_length(folder, scenario)
        if not folder.finished:
            channel = channel_of(scenario)
            if training_of is not None and not rounds_done(folder.path):
                replay(scenario, folder, channel, training_of)
            spec = trainer_spec_of(scenario, channel.devices, torch_device)
            with (
                _events(folder.path, scenario, tensorboard) as log_grew,
                training_pool(spec, workers) as pool,
            ):
                _go_on(scenario, folder, channel, pool, progress, log_grew)
        elif tensorboard and not events_are_current(folder.path):
            write_events(folder.path)
        return read_run(folder.path)


def _go_on(
    scenario: Scenario,
    folder: RunFolder,
    channel: AbstractChannel,
    pool: AbstractTrainingPool,
    progress: Callable[[Progress], None] | None,
    log_grew: Callable[[], None],
) -> None:
    air = air_of(scenario, channel, len(pool.initial_parameters))
    last_round = scenario.run.rounds - 1
    saved = _opened(scenario, folder, about_run(scenario, channel, air.uplink))
    if saved is None:
        saved = _checkpoint(start(air), pool.initial_parameters)
    log_grew()
    state = ScheduleState(
        round=saved.round, channel=saved.channel, policy=saved.policy, memory=saved.memory
    )
    parameters = saved.parameters
    streak = _streak(folder.path, scenario, saved.round)
    if saved.round <= last_round and saved.round < streak.ends:
        rounds = train(air, training_of(scenario, pool), saved.parameters, state)
        accuracy: float | None = None
        for done, state in rounds:
            folder.add(done, done.scheduled.airtime_s)
            parameters = done.parameters
            accuracy = accuracy if np.isnan(done.accuracy) else done.accuracy
            streak = streak.then(state.round, done.accuracy, scenario.run)
            ended = state.round > last_round or state.round >= streak.ends
            if state.round % scenario.run.checkpoint_every == 0 or ended:
                folder.save(_checkpoint(state, parameters))
                log_grew()
            if progress is not None:
                try:
                    progress(_progress(scenario, state, folder.airtime_s, accuracy, done))
                except KeyboardInterrupt:  # between two rounds: all of them are kept
                    folder.save(_checkpoint(state, parameters))
                    raise
            if ended:
                break
    models = {"parameters": parameters}
    if "mean" in state.memory:
        models["mean"] = state.memory["mean"].astype(np.float32)
    folder.finish(models)


def _opened(scenario: Scenario, folder: RunFolder, about: Mapping[str, Any]) -> Checkpoint | None:
    """The last checkpoint, with a folder that describes it; None at its beginning.

    It does not begin anew over a log whose checkpoints were taken away. One that died while it
    wrote its first checkpoint, or whose checkpoints are damaged, of which there was a warning, has
    nothing else to do than begin anew.
    """
    if folder.begun and not rounds_done(folder.path):
        rounds = read_run(folder.path).rounds
        if rounds > scenario.run.checkpoint_every:
            raise InputError(
                f"out: {str(folder.path)!r} has a log of {rounds} rounds and no checkpoint to go "
                "on from; bring its checkpoint files back, or delete the folder to run it again"
            )
    saved = folder.open(scenario.as_dict(), about)
    if saved is None or not (folder.path / MANIFEST).is_file():
        folder.describe(scenario.as_dict(), about)
    return saved


def _checkpoint(state: ScheduleState, parameters: NDArray[np.float32]) -> Checkpoint:
    return Checkpoint(
        round=state.round,
        parameters=parameters,
        policy=state.policy,
        channel=state.channel,
        memory=state.memory,
    )


def _progress(
    scenario: Scenario,
    state: ScheduleState,
    airtime_s: float,
    accuracy: float | None,
    done: TrainedRound,
) -> Progress:
    return Progress(
        round=state.round,
        rounds=scenario.run.rounds,
        simulated_s=elapsed_s(airtime_s, state.round, scenario.uplink.computation.common_s),
        accuracy=accuracy,
        devices=done.scheduled.cohort.size,
    )


@dataclass(frozen=True)
class _Streak:
    """Measurements in a row at or above the goal, and after which round they end the run."""

    count: int = 0
    ends: float = math.inf

    def then(self, rounds: int, accuracy: float, run: RunSection) -> "_Streak":
        """After one more round (NaN: not measured)."""
        if run.stop_accuracy is None or np.isnan(accuracy) or self.count == _LASTING:
            return self
        count = self.count + 1 if accuracy >= run.stop_accuracy else 0
        return _Streak(count, rounds + run.stop_after if count == _LASTING else math.inf)


def _streak(folder: Path, scenario: Scenario, rounds: int) -> _Streak:
    """The streak after so many rounds of a log."""
    streak = _Streak()
    if rounds and scenario.run.stop_accuracy is not None:
        for t, accuracy in enumerate(read_run(folder).column("test_accuracy")[:rounds]):
            streak = streak.then(t + 1, accuracy, scenario.run)
    return streak


def _packed(folder: Path, scenario: Scenario) -> RunLog:
    """A packed run that is finished is done; another cannot go on, and is not written over."""
    log = read_run(folder)
    if not log.finished:
        raise InputError(
            f"out: {str(folder)!r} is a packed copy of a run that was not finished, without the "
            "checkpoint it would go on from; choose another folder, or pack with --resumable"
        )
    there, here = scenario_from(log.manifest["scenario"]).run, scenario.run
    ends_here = (
        log.rounds == here.rounds or _streak(folder, scenario, log.rounds).ends <= log.rounds
    )
    if there != here and not ends_here:
        raise InputError(
            f"out: {str(folder)!r} is a packed copy of a run that ended after {log.rounds} rounds, "
            f"and with run.rounds = {here.rounds} and run.stop_accuracy = {here.stop_accuracy} it "
            "would end elsewhere; choose another folder, as a packed copy cannot go on"
        )
    return log


def _set_length(folder: RunFolder, scenario: Scenario) -> None:
    """Give a run another end, if all it has done so far is also the beginning of the longer run."""
    there, here = scenario_from(read_manifest(folder.path)["scenario"]).run, scenario.run
    if there == here:
        return
    done = rounds_done(folder.path)
    beyond = done > here.rounds
    if not beyond and here.stop_accuracy is not None and done:
        beyond = _streak(folder.path, scenario, done - 1).ends <= done - 1
    why = "beyond the end" if beyond else None
    if not beyond and done and done % here.eval_every:
        # The last round is measured whether or not its turn has come.
        if done == there.rounds < here.rounds:
            why = "the last measured out of turn, which is not part"
        elif done == here.rounds < there.rounds:
            why = "the last not measured, as it is at the end"
    if why is not None:
        raise InputError(
            f"out: {str(folder.path)!r} has run {done} rounds, {why} of a run with run.rounds = "
            f"{here.rounds} and run.stop_accuracy = {here.stop_accuracy}; choose another folder or "
            "delete this one"
        )
    folder.reopen(scenario.as_dict())


def _check_same(folder: Path, scenario: Scenario) -> None:
    """Refuse to go on with a folder whose scenario or trace is another one, its length aside."""
    manifest = read_manifest(folder)
    for section, name, old, new in differences(manifest["scenario"], scenario):
        if (section, name) not in LENGTH_FIELDS:
            raise InputError(
                f"out: {str(folder)!r} holds a run with {section}.{name} = {old!r}, the "
                f"scenario says {new!r}; choose another folder or delete this one"
            )
    trace = Path(scenario.channel.kind)
    if "trace" in manifest and trace.is_file():  # a finished run outlives its trace
        old, new = manifest["trace"], about_trace(channel_of(scenario))["trace"]
        if old != new:
            raise InputError(
                f"out: {str(folder)!r} holds a run over {_in_words(old)}, and {str(trace)!r} now "
                f"holds {_in_words(new)}; bring the old trace back or choose another folder"
            )


def _in_words(trace: Mapping[str, Any]) -> str:
    return (
        f"a trace of {trace['rounds']} rounds and {trace['devices']} devices "
        f"(sha256 {trace['sha256'][:12]})"
    )


@contextmanager
def _events(folder: Path, scenario: Scenario, wanted: bool) -> Iterator[Callable[[], None]]:
    """What to call whenever the log has grown."""
    if not wanted:
        yield lambda: None
        return
    with EventFollower(folder, computation_s=scenario.uplink.computation.common_s) as events:
        yield events.follow
