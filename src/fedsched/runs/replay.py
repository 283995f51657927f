"""Replays: what one run has trained, logged again over another channel.

A model depends on who took part in which round with which weight, not on how long that took. So a
policy that chooses the same cohorts over another channel (uniform, round robin, everybody) trains
the same models there, and what was trained once need not be trained again.
"""

import math
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedsched.errors import InputError, RunLogError
from fedsched.policies import Need
from fedsched.policies.ledger import entered, first_entries, uses
from fedsched.radio import AbstractChannel
from fedsched.rounds import scheduled_rounds
from fedsched.runs.assembly import about_run, air_of
from fedsched.runs.checkpoint import Checkpoint, read_checkpoint
from fedsched.runs.folder import RunFolder
from fedsched.runs.manifest import MANIFEST, read_manifest, run_id
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, differences
from fedsched.values import ScheduledRound, TrainedRound

__all__ = ["replay"]

_TRAINING = ("run", "data", "training")  # sections that two runs with the same models share


def replay(
    scenario: Scenario, folder: RunFolder, channel: AbstractChannel, training_of: str | Path
) -> None:
    """Bring a new run to the last checkpoint of another, by scheduling only.

    Every round is scheduled over the new channel, and its cohort and weights are compared with
    those of the other run. They must be equal to the bit; the first that are not end the replay
    with a sentence. Losses and accuracies are then those of the other run, and so is the model. The
    folder is left at the other run's last checkpoint, as if it had been trained up to there.

    Args:
        scenario: of the new run; its run, data and training are those of the other.
        folder: of the new run, held by this process.
        channel: of the scenario.
        training_of: folder of the other run, finished or not, with its checkpoint.
    """
    source = Path(training_of)
    saved, trained = _trained(scenario, channel, source)
    air = air_of(scenario, channel, len(saved.parameters))
    if air.policy.needs - {Need.GAIN} or air.policy.follows_course:
        raise InputError(
            f"training_of: policy {air.policy.name!r} learns from the training itself, which "
            "is not in the log of another run; leave training_of out and train it"
        )
    if air.sizes is not None and len(air.sizes.bits) > 1:
        raise InputError(
            f"training_of: training.compress = {scenario.training.compress!r} chooses bits by what "
            "updates are like, which is not in the log of another run; leave training_of out, or "
            "choose one compressor"
        )
    about = about_run(scenario, channel, air.uplink)
    folder.open(scenario.as_dict(), about)
    spent_w, entries = np.zeros(channel.devices), first_entries(air.budgets, channel.devices)
    logged = trained.table.slice(0, saved.round).to_pylist()
    for row, (scheduled, state) in zip(
        logged, islice(scheduled_rounds(air), saved.round), strict=True
    ):
        try:
            _check_same_cohort(scheduled, row, source)
        except InputError:
            folder.discard_log()
            raise
        spent_w += scheduled.decision.expected_power_w
        entries = entered(entries, scheduled)
        folder.add(
            TrainedRound(
                scheduled=scheduled,
                parameters=saved.parameters,  # only the last round's, and not logged
                rejected=row["rejected"],
                train_loss=row["train_loss"],
                accuracy=row["test_accuracy"],
                test_loss=row["test_loss"],
                worst_power_w=float(spent_w.max()) / state.round,
                omega=row.get("omega", math.nan),
                uses=uses(entries, air.budgets),
            ),
            scheduled.airtime_s,
        )
        if state.round % scenario.run.checkpoint_every == 0:  # in batches, as a run does
            folder.flush()
    folder.describe(scenario.as_dict(), {**about, "training_of": source.name})
    memory = {**saved.memory, **entries, "spent_w": spent_w}
    folder.save(replace(saved, policy=state.policy, channel=state.channel, memory=memory))


def _trained(
    scenario: Scenario, channel: AbstractChannel, source: Path
) -> tuple[Checkpoint, RunLog]:
    """The checkpoint of the other run, and its log up to there, if it is of the same training."""
    if not (source / MANIFEST).is_file():
        raise InputError(
            f"training_of: {str(source)!r} is not a run folder, which holds {MANIFEST}; name the "
            "folder a run was made in"
        )
    # In this order: the other run may be going on, and its log grows before its checkpoint does.
    saved = read_checkpoint(source, run=run_id(read_manifest(source)))
    log = read_run(source)
    _check_same_training(scenario, channel, log)
    if saved is None:
        raise InputError(
            f"training_of: {str(source)!r} has no checkpoint, without which there is no model to "
            "go on from; name the folder the run was made in, not a packed copy"
        )
    if log.rounds < saved.round:
        raise RunLogError(
            f"the log in {str(source)!r} is damaged: it has {log.rounds} rounds and its "
            f"checkpoint {saved.round}; run it to its end again first"
        )
    return saved, log


def _check_same_training(scenario: Scenario, channel: AbstractChannel, trained: RunLog) -> None:
    found = [
        (f"{section}.{name}", old, new)
        for section, name, old, new in differences(trained.manifest["scenario"], scenario)
        if section in _TRAINING
    ]
    # The scenario may leave this to the channel.
    if (devices := trained.manifest.get("devices")) != channel.devices:
        found.append(("channel.devices", devices, channel.devices))
    if found:
        field, old, new = found[0]
        raise InputError(
            f"training_of: {str(trained.folder)!r} was trained with {field} = {old!r}, the "
            f"scenario says {new!r}; only the channel, the uplink and the policy may differ"
        )


def _check_same_cohort(scheduled: ScheduledRound, row: dict[str, Any], source: Path) -> None:
    cohort = scheduled.cohort
    if (cohort.device.tolist(), cohort.weight.tolist()) != (row["device"], row["weight"]):
        raise InputError(
            f"training_of: in round {scheduled.round} the scenario chooses devices "
            f"{cohort.device.tolist()} with weights {_short(cohort.weight)} where "
            f"{str(source)!r} has {row['device']} with weights {_short(row['weight'])}, so its "
            "models are others; leave training_of out and train it"
        )


def _short(values: Any) -> str:
    """At most three numbers, to see that they differ."""
    shown = [f"{value:.6g}" for value in values[:3]]
    return "[" + ", ".join(shown + ["..."] * (len(values) > 3)) + "]"
