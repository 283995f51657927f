"""A replay over another channel is the run over that channel, to the bit."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.runs.report_runs import as_of_an_earlier_version

from fedsched.errors import InputError, RunLogError
from fedsched.learning.local import LocalTrainer
from fedsched.runs.checkpoint import read_checkpoint, rounds_done
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MODEL, ROUNDS, read_manifest
from fedsched.runs.pack import pack_run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from


def scenario(policy="uniform", channel="heterogeneous", power=None, **changes):
    table = {
        "run": {"rounds": 22, "seed": 3, "eval_every": 5, "checkpoint_every": 4},
        "policy": {"kind": policy, "draws": 3},
        "channel": {"kind": channel, "devices": 12},
        "data": {"samples": 40},
        "training": {"model": "softmax", "steps": 2, "batch_size": 8},
    }
    if power is not None:
        table["policy"]["power"] = power
    for section, fields in changes.items():
        table[section] = {**table.get(section, {}), **fields}
    return scenario_from(table)


def bits(folder):
    return (folder / ROUNDS).read_bytes(), (folder / MODEL).read_bytes()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of the uniform policy over heterogeneous channels. Look, do not touch."""
    folder = tmp_path_factory.mktemp("trained")
    run(scenario(), folder)
    return folder


class KilledError(Exception):
    """Nobody waits for a checkpoint."""


def run_in_part(folder):
    """The run of ``trained``, stopped after twelve rounds."""

    def stop(progress):
        if progress.round == 15:
            raise KilledError

    with pytest.raises(KilledError):
        run(scenario(), folder, progress=stop)
    assert rounds_done(folder) == 12


def _refuse(*_arguments):
    raise AssertionError("a device was trained")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"channel": "homogeneous"},
        {"channel": "correlated"},  # which has a state that goes on
        {"uplink": {"bandwidth_hz": 1e6, "access": "parallel"}},
        {"policy": "uniform"},
    ],
)
def test_a_replay_is_the_run_itself(trained, tmp_path, monkeypatch, change):
    other = scenario(**change)
    monkeypatch.setattr(LocalTrainer, "train", _refuse)
    run(other, tmp_path / "replayed", training_of=trained)
    monkeypatch.undo()
    run(other, tmp_path / "run")
    assert bits(tmp_path / "replayed") == bits(tmp_path / "run")
    assert read_manifest(tmp_path / "replayed")["training_of"] == trained.name
    assert change == {"policy": "uniform"} or bits(tmp_path / "run") != bits(trained)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["round-robin", "full"])
def test_other_policies_that_do_not_look_at_the_channel(tmp_path, policy):
    run(scenario(policy), tmp_path / "trained")
    other = scenario(policy, channel="homogeneous")
    run(other, tmp_path / "replayed", training_of=tmp_path / "trained")
    run(other, tmp_path / "run")
    assert bits(tmp_path / "replayed") == bits(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("power", ["constant", "queue"])  # the second remembers its queues
def test_the_replay_of_an_unfinished_run_is_gone_on_with(tmp_path, power):
    half, other = tmp_path / "half", scenario(channel="correlated", power=power)
    run_in_part(half)
    run(other, tmp_path / "replayed", training_of=half)
    run(other, tmp_path / "run")
    assert bits(tmp_path / "replayed") == bits(tmp_path / "run")


def test_a_run_may_go_on_while_it_is_replayed(tmp_path, monkeypatch):
    half, other = tmp_path / "half", scenario(channel="correlated")
    run_in_part(half)

    def meanwhile(folder, **options):
        run(scenario(), half)
        return read_checkpoint(folder, **options)

    monkeypatch.setattr("fedsched.runs.replay.read_checkpoint", meanwhile)
    run(other, tmp_path / "replayed", training_of=half)
    run(other, tmp_path / "run")
    assert bits(tmp_path / "replayed") == bits(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("power", ["constant", "queue"])  # the second spends by the channel
def test_the_state_after_a_replay_is_that_of_the_run(tmp_path, power):
    other = scenario(channel="correlated", power=power, training={"aggregator": "memory"})
    first = tmp_path / "first"
    run(scenario(power=power, training={"aggregator": "memory"}), first)
    run(other, tmp_path / "replayed", training_of=first)
    run(other, tmp_path / "run")
    left, right = (read_checkpoint(tmp_path / name) for name in ("replayed", "run"))
    assert (left.round, left.log_length, left.airtime_s) == (
        right.round, right.log_length, right.airtime_s,
    )  # fmt: skip
    for part in ("policy", "channel", "memory"):
        mine, its = getattr(left, part), getattr(right, part)
        assert mine.keys() == its.keys()
        assert all(mine[name].tobytes() == its[name].tobytes() for name in its)


def test_the_first_cohort_that_differs_is_named(trained, tmp_path):
    with pytest.raises(InputError, match=r"in round 0 the scenario chooses devices .* where"):
        run(scenario("lyapunov"), tmp_path / "run", training_of=trained)
    assert not (tmp_path / "run" / MODEL).exists()
    assert not (tmp_path / "run" / ROUNDS).exists()


def test_equal_devices_with_other_weights_are_not_the_same_training(trained, tmp_path):
    altered = tmp_path / "altered"
    shutil.copytree(trained, altered)
    log = read_run(as_of_an_earlier_version(altered))  # of which no checksum says it was altered
    weights = log.lists("weight")
    weights[7][0] *= 1 + 2**-52
    place = log.table.column_names.index("weight")
    table = log.table.set_column(place, log.table.schema.field(place), pa.array(weights))
    with pa.ipc.new_stream(str(altered / ROUNDS), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match="in round 7 "):
        run(scenario(channel="homogeneous"), tmp_path / "run", training_of=altered)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"run": {"seed": 4}}, r"run.seed = 3, the scenario says 4"),
        ({"run": {"rounds": 30}}, r"run.rounds = 22"),
        ({"data": {"alpha": 1.0}}, r"data.alpha = 'inf'"),
        ({"training": {"steps": 3}}, r"training.steps = 2"),
        ({"channel": {"kind": "homogeneous", "devices": 13}}, r"channel.devices = 12"),
    ],
)
def test_another_training_is_refused(trained, tmp_path, changes, field):
    table = scenario().as_dict()
    for section, fields in changes.items():
        table[section] |= fields
    with pytest.raises(InputError, match=f"was trained with {field}"):
        run(scenario_from(table), tmp_path, training_of=trained)


@pytest.mark.parametrize("policy", ["oort", "auto"])
def test_a_policy_that_learns_from_training_is_refused(trained, tmp_path, policy):
    with pytest.raises(InputError, match=f"'{policy}' learns from the training itself"):
        run(scenario(policy), tmp_path, training_of=trained)


def test_a_packed_copy_has_no_model_to_go_on_from(trained, tmp_path):
    pack_run(trained, tmp_path / "packed")
    with pytest.raises(InputError, match="not a packed copy"):
        run(scenario(channel="homogeneous"), tmp_path / "run", training_of=tmp_path / "packed")


def test_a_folder_without_a_run_is_refused_by_its_field(tmp_path):
    with pytest.raises(InputError, match="training_of: 'nowhere' is not a run folder"):
        run(scenario(), tmp_path, training_of="nowhere")


def test_a_log_shorter_than_its_checkpoint_is_refused(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "cut")
    (tmp_path / "cut" / MODEL).unlink()  # of a run that goes on, a last batch may be unfinished
    with (tmp_path / "cut" / ROUNDS).open("rb+") as log:
        log.truncate((tmp_path / "cut" / ROUNDS).stat().st_size - 100)
    with pytest.raises(RunLogError, match=r"rounds.arrows' is damaged .* in the last checkpoint"):
        run(scenario(channel="homogeneous"), tmp_path / "new", training_of=tmp_path / "cut")


def test_a_log_of_an_earlier_version_shorter_than_its_checkpoint_is_refused(trained, tmp_path):
    cut = as_of_an_earlier_version(Path(shutil.copytree(trained, tmp_path / "cut")))
    (cut / MODEL).unlink()
    with (cut / ROUNDS).open("rb+") as log:
        log.truncate((cut / ROUNDS).stat().st_size - 100)
    with pytest.raises(RunLogError, match=r"is damaged: it has .* rounds and its checkpoint"):
        run(scenario(channel="homogeneous"), tmp_path / "new", training_of=tmp_path / "cut")
