import dataclasses
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedsched.analysis.groups import group_runs
from fedsched.errors import InputError, RunLogError
from fedsched.learning.dataset import load_dataset
from fedsched.learning.pool import AbstractTrainingPool, training_pool
from fedsched.learning.updates import LocalUpdate
from fedsched.radio import Trace, make_channel, record, write_trace
from fedsched.runs import experiment
from fedsched.runs.assembly import trainer_spec_of
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MANIFEST, MODEL, ROUNDS, SCHEMA, read_manifest
from fedsched.runs.pack import pack_run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from

ROUNDS_IN_ALL, CHECKPOINT_EVERY = 30, 4


def table(**changes):
    """A tiny run on digits; the channel has a memory, so that its state matters."""
    base = {
        "run": {
            "rounds": ROUNDS_IN_ALL,
            "seed": 3,
            "eval_every": 5,
            "checkpoint_every": CHECKPOINT_EVERY,
        },
        "policy": {"kind": "lyapunov", "draws": 3},
        "channel": {"kind": "correlated", "devices": 12},
        "data": {"samples": 40},
        "training": {"model": "softmax", "steps": 2, "batch_size": 8},
    }
    for section, fields in changes.items():
        base[section] = {**base.get(section, {}), **fields}
    return base


SCENARIO = scenario_from(table())


def bits(folder):
    return (folder / ROUNDS).read_bytes(), (folder / MODEL).read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An undisturbed run. Look, do not touch."""
    folder = tmp_path_factory.mktemp("finished")
    run(SCENARIO, folder)
    return folder


@pytest.fixture(scope="module")
def digits_file(tmp_path_factory):
    """The digits as a file, which a process reads sooner than it imports scikit-learn."""
    digits = load_dataset("digits")
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(path, **{name: getattr(digits, name) for name in names})
    return path


class StopError(Exception):
    """Stands for whatever ends a run early."""


def stopped(folder, after, scenario=SCENARIO):
    """Run until so many rounds are done."""

    def watch(now):
        if now.round == after:
            raise StopError

    with pytest.raises(StopError):
        run(scenario, folder, progress=watch)
    return folder


# --- the same bits ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_a_bit(finished, tmp_path, digits_file):
    scenario = scenario_from(table(data={"name": str(digits_file)}))
    for workers in (1, 2, 4):
        run(scenario, tmp_path / str(workers), workers=workers)
        assert bits(tmp_path / str(workers)) == bits(tmp_path / "1")
    same_rounds(tmp_path / "1", finished)  # whose data have another name, so it is another run


@pytest.mark.slow
def test_another_seed_changes_the_bits(finished, tmp_path):
    run(scenario_from(table(run={"seed": 4})), tmp_path)
    for one, other in zip(bits(tmp_path), bits(finished), strict=True):
        assert one != other


@pytest.mark.slow
def test_what_auto_learns_survives_a_stop_and_is_logged(tmp_path):
    scenario = scenario_from(table(policy={"kind": "auto"}, uplink={"computation_s": 0.1}))
    whole = run(scenario, tmp_path / "whole")
    run(scenario, stopped(tmp_path / "stopped", 13, scenario))
    assert bits(tmp_path / "stopped") == bits(tmp_path / "whole")
    kappa = whole.column("kappa")
    assert np.all(kappa[:16] == 12.0)  # the number of devices, until something is known
    assert np.all(kappa[16:] != 12.0)
    assert len(set(kappa)) == 2  # it changes where the rounds have doubled
    inverse, airtime_s = (
        whole.column(f"average_{name}") for name in ("inverse_probability", "airtime_s")
    )
    np.testing.assert_allclose(
        whole.column("price_of_time"), (kappa + inverse) / (0.1 + airtime_s), rtol=1e-12
    )
    given = run(scenario_from(table(policy={"kind": "auto", "kappa": 7.0})), tmp_path / "given")
    assert set(given.column("kappa")) == {7.0}


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3, 4, 5, 17, 29, 30])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(finished, tmp_path, after):
    stopped(tmp_path, after)
    assert not (tmp_path / MODEL).exists()
    assert rounds_done(tmp_path) == (after if after == 30 else after // 4 * 4)
    run(SCENARIO, tmp_path)
    assert bits(tmp_path) == bits(finished)


@pytest.mark.slow
def test_the_mean_of_the_models_survives_a_stop_and_is_saved_beside_the_last_one(
    finished, tmp_path
):
    scenario = scenario_from(table(training={"average_rounds": 7}))
    whole, cut = tmp_path / "whole", stopped(tmp_path / "cut", 17, scenario)
    for folder in (whole, cut):
        run(scenario, folder)
    assert bits(cut) == bits(whole)
    with np.load(whole / MODEL) as models, np.load(finished / MODEL) as plain:
        assert set(plain) == {"parameters"}
        assert models["parameters"].tobytes() == plain["parameters"].tobytes()
        assert models["mean"].dtype == np.float32
        with training_pool(trainer_spec_of(scenario, 12, "cpu"), workers=1) as pool:
            last = pool.evaluate(models["mean"])
    assert read_run(whole).column("test_loss")[-1] == last.loss
    assert read_run(whole).column("test_loss")[-1] != read_run(finished).column("test_loss")[-1]


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 100])
def test_a_log_torn_in_its_first_bytes_does_not_block_the_folder(finished, tmp_path, length):
    stopped(tmp_path, 1)
    with (tmp_path / ROUNDS).open("rb+") as log:
        log.truncate(length)
    run(SCENARIO, tmp_path)
    assert bits(tmp_path) == bits(finished)


@pytest.mark.slow
def test_a_resumed_run_does_not_repeat_what_its_checkpoint_holds(tmp_path):
    stopped(tmp_path, 18)
    seen = []
    run(SCENARIO, tmp_path, progress=lambda now: seen.append(now.round))
    assert seen == list(range(17, ROUNDS_IN_ALL + 1))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["fsync", "replace", "after replace"])
def test_a_run_that_dies_while_a_file_is_written_goes_on_to_the_same_bits(
    tmp_path, monkeypatch, where
):
    short = scenario_from(table(run={"rounds": 8, "checkpoint_every": 3}))
    run(short, tmp_path / "undisturbed")
    owner, name = (os, "fsync") if where == "fsync" else (Path, "replace")
    real = getattr(owner, name)
    deaths = 0
    while True:
        calls = 0

        def dying(*arguments, last=deaths):
            nonlocal calls
            calls += 1
            if calls > last and where != "after replace":
                raise StopError
            real(*arguments)
            if calls > last:
                raise StopError

        folder = tmp_path / str(deaths)
        try:
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, dying)
                run(short, folder)
        except StopError:
            deaths += 1
        else:
            break
        run(short, folder)
        assert bits(folder) == bits(tmp_path / "undisturbed"), deaths
    # The manifest, three checkpoints, the model and the end; the log is synced at its start and
    # thrice more.
    assert deaths == (10 if where == "fsync" else 6)


# --- kills of real processes -----------------------------------------------------------------

KILLS = 12
# Which deaths come before training begins, within a checkpoint's write, or to two workers.
IN_STARTUP, IN_WRITE, OF_WORKERS = {4}, {1, 5, 8, 10}, {2, 9}


def wait_for(condition, what, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.001)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children(pid):
    """The processes whose parent this is."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended while we looked
        if parent == pid:
            found.append(int(place.name))
    return found


def spawned(scenario, out, workers, errors):
    return subprocess.Popen(
        [sys.executable, "-m", "fedsched", "run", scenario.name, "--out", out,
         "--workers", str(workers)],
        cwd=scenario.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for orphans in /proc")
def test_a_run_killed_again_and_again_ends_in_the_same_bits(tmp_path, digits_file):
    contents = table(
        run={"rounds": 1000, "eval_every": 7, "checkpoint_every": 5},
        data={"name": str(digits_file)},
    )
    file, folder = tmp_path / "scenario.toml", tmp_path / "killed"
    lines = []
    for section, fields in contents.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(v)}" for name, v in fields.items())]
    file.write_text("\n".join(lines))
    chance = random.Random(20)
    scenario = scenario_from(contents)
    with (tmp_path / "errors").open("wb") as errors:
        for death in range(KILLS):
            process = spawned(file, folder, 2 if death in OF_WORKERS else 1, errors)
            workers = []
            if death in IN_STARTUP:
                time.sleep(chance.uniform(0.1, 1.0))
            else:
                goal = rounds_done(folder) + 5 * chance.randint(1, 9)

                def come_so_far(process=process, goal=goal):
                    assert process.poll() is None, "the run ended by itself"
                    return rounds_done(folder) >= goal

                wait_for(come_so_far, f"round {goal}")
                workers = children(process.pid)
                if death == 0:
                    with pytest.raises(InputError, match="is being run by another process"):
                        run(scenario, folder)
                if death in IN_WRITE:
                    wait_for(lambda: any(folder.glob(".*.part")), "a checkpoint being written")
                else:
                    time.sleep(chance.uniform(0.0, 0.03))
            process.kill()
            assert process.wait() == -signal.SIGKILL
            assert not (folder / MODEL).exists()
            assert read_run(folder).rounds >= rounds_done(folder)
            if death in OF_WORKERS:
                assert len(workers) >= 2
                wait_for(lambda pids=workers: not any(map(alive, pids)), "the workers to end")
        last = spawned(file, folder, 1, errors)
        assert last.wait() == 0
    run(scenario, tmp_path / "undisturbed")
    assert bits(folder) == bits(tmp_path / "undisturbed")
    assert not list(folder.glob(".*.part"))
    assert read_run(folder).rounds == 1000


# --- damage ----------------------------------------------------------------------------------


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, flipped])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(finished, tmp_path, caplog, damage):
    stopped(tmp_path, 18)
    newest = tmp_path / "checkpoint-000000016.npz"
    newest.write_bytes(damage(newest.read_bytes()))
    seen = []
    with caplog.at_level(logging.WARNING):
        run(SCENARIO, tmp_path, progress=lambda now: seen.append(now.round))
    assert seen[0] == 13  # from the checkpoint of round 12
    (record,) = caplog.records
    assert "checkpoint-000000016.npz does not match its checksum" in record.getMessage()
    assert bits(tmp_path) == bits(finished)


@pytest.mark.slow
def test_without_a_sound_checkpoint_the_run_starts_anew(finished, tmp_path, caplog):
    stopped(tmp_path, 27)
    for path in tmp_path.glob("checkpoint-*.npz"):
        path.write_bytes(cut(path.read_bytes()))
    stopped(tmp_path, 10)
    assert len(caplog.records) == 2
    seen = []
    run(SCENARIO, tmp_path, progress=lambda now: seen.append(now.round))
    assert seen[0] == 9  # what was made since is not lost to the damaged ones
    assert bits(tmp_path) == bits(finished)


@pytest.mark.slow
def test_a_log_whose_checkpoints_are_gone_is_not_written_over(tmp_path):
    stopped(tmp_path, 18)
    for path in tmp_path.glob("checkpoint-*.npz"):
        path.unlink()
    before = (tmp_path / ROUNDS).read_bytes()
    with pytest.raises(InputError, match="has a log of 16 rounds and no checkpoint to go on from"):
        run(SCENARIO, tmp_path)
    assert (tmp_path / ROUNDS).read_bytes() == before


@pytest.mark.slow
def test_a_run_that_died_before_its_first_checkpoint_begins_anew(finished, tmp_path):
    stopped(tmp_path, 6)
    (tmp_path / "checkpoint-000000004.npz").unlink()  # the log comes first
    run(SCENARIO, tmp_path)
    assert bits(tmp_path) == bits(finished)


@pytest.mark.slow
def test_a_log_that_was_cut_below_its_checkpoint_is_refused(tmp_path):
    stopped(tmp_path, 18)
    os.truncate(tmp_path / ROUNDS, 2000)
    with pytest.raises(RunLogError, match="has 2000 bytes and the checkpoint counts"):
        run(SCENARIO, tmp_path)


@pytest.mark.slow
def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path):
    stopped(tmp_path, 5)
    leftover = tmp_path / ".checkpoint-000000008.npz.123.part"
    leftover.write_bytes(b"half")
    run(SCENARIO, tmp_path)
    assert not leftover.exists()


# --- what is refused -------------------------------------------------------------------------


def test_a_folder_of_another_schema_is_refused_with_both_numbers_named(tmp_path):
    stopped(tmp_path, 1)
    path = tmp_path / MANIFEST
    path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', '"schema": 99'))
    with pytest.raises(RunLogError, match=f"schema 99 and this version reads schema {SCHEMA}"):
        run(SCENARIO, tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"run": {"seed": 4}}, "run.seed = 3, the scenario says 4"),
        ({"run": {"eval_every": 6}}, "run.eval_every = 5, the scenario says 6"),
        ({"policy": {"lam": 10.0}}, "policy.lam = 100.0, the scenario says 10.0"),
        ({"data": {"alpha": 0.5}}, "data.alpha = 'inf', the scenario says 0.5"),
        ({"uplink": {"bits": 8.0}}, "uplink.bits = None, the scenario says 8.0"),
    ],
)
def test_a_folder_of_another_scenario_is_refused_with_field_and_values(finished, changes, sentence):
    before = bits(finished)
    with pytest.raises(InputError) as caught:
        run(scenario_from(table(**changes)), finished)
    assert sentence in str(caught.value)
    assert str(finished) in str(caught.value)
    assert bits(finished) == before


def test_a_run_whose_trace_has_changed_is_refused_also_when_it_is_finished(finished, tmp_path):
    trace, folder = tmp_path / "gains.csv", tmp_path / "run"
    gain = record(make_channel("correlated", 5), rounds=6, seed=1)
    write_trace(trace, gain)
    scenario = scenario_from(
        {**table(run={"rounds": 6, "checkpoint_every": 2}), "channel": {"kind": str(trace)}}
    )
    stopped(folder, 3, scenario)
    about = {"sha256": Trace(gain).sha256, "rounds": 6, "devices": 5}
    assert read_manifest(folder)["trace"] == about
    assert "trace" not in read_manifest(finished)
    changed = gain.copy()
    changed[5, 4] *= 1.0 + 1e-15
    for other in (changed, gain[:5]):
        write_trace(trace, other)
        with pytest.raises(InputError) as caught:
            run(scenario, folder)
        for part in (str(folder), str(trace), about["sha256"][:12], Trace(other).sha256[:12]):
            assert part in str(caught.value)
    write_trace(trace, gain)
    assert run(scenario, folder).finished
    write_trace(trace, changed)
    with pytest.raises(InputError, match="bring the old trace back"):
        run(scenario, folder)
    trace.unlink()  # what is finished can be read without it
    assert run(scenario, folder).finished


def test_a_second_run_in_the_same_folder_is_refused_and_the_first_goes_on(finished, tmp_path):
    refused = []

    def second(now):
        if now.round == 7:
            with pytest.raises(InputError, match="is being run by another process"):
                run(SCENARIO, tmp_path)
            refused.append(now.round)

    run(SCENARIO, tmp_path, progress=second)
    assert refused == [7]
    assert bits(tmp_path) == bits(finished)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"out: the folder .* cannot be made"):
        run(SCENARIO, tmp_path / "file")


def test_a_run_with_a_biased_policy_or_with_memory_says_so(tmp_path):
    for name, changes, biased in (
        ("plain", {"policy": {"kind": "uniform", "draws": 2}}, False),
        ("best", {"policy": {"kind": "best-channel", "draws": 2}}, True),
        ("memory", {"training": {"aggregator": "memory"}}, True),
    ):
        log = run(scenario_from(table(**changes, run={"rounds": 1})), tmp_path / name)
        assert log.manifest["biased"] is biased


# --- the log ---------------------------------------------------------------------------------


def test_a_finished_run_is_read_and_not_touched(finished, monkeypatch):
    def no_pool(*_):
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr(experiment, "training_pool", no_pool)
    before = {path: path.stat().st_mtime_ns for path in finished.iterdir() if path.name[0] != "."}
    log = run(SCENARIO, finished)
    assert log.finished
    assert log.rounds == ROUNDS_IN_ALL
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_run_that_lacks_only_its_model_writes_it(finished, tmp_path):
    stopped(tmp_path, ROUNDS_IN_ALL)
    seen = []
    run(SCENARIO, tmp_path, progress=seen.append)
    assert seen == []
    assert bits(tmp_path) == bits(finished)


def test_the_log_can_be_read_while_the_run_goes_on(tmp_path):
    seen = []

    def watch(_now):
        log = read_run(tmp_path)
        assert not log.finished
        with pa.OSFile(str(tmp_path / ROUNDS)) as file, pa.ipc.open_stream(file) as reader:
            assert reader.read_all().num_rows == log.rounds
        seen.append(log.rounds)

    run(SCENARIO, tmp_path, progress=watch)
    every = CHECKPOINT_EVERY
    done = range(1, ROUNDS_IN_ALL + 1)
    assert seen == [number if number == 30 else number // every * every for number in done]


def test_the_manifest_tells_the_whole_scenario_and_the_size_of_an_update(finished, tmp_path):
    manifest = read_manifest(finished)
    assert scenario_from(manifest["scenario"]) == SCENARIO
    assert manifest["update_bits"] == 32 * 650  # 64 pixels and a constant, for each of ten digits
    with np.load(finished / MODEL) as model:
        assert model["parameters"].shape == (650,)
    run(scenario_from(table(run={"rounds": 1}, uplink={"bits": 77.0})), tmp_path)
    assert read_manifest(tmp_path)["update_bits"] == 77.0


def test_accuracy_is_logged_every_so_often_and_at_the_end(finished):
    log = read_run(finished)
    measured = np.flatnonzero(~np.isnan(log.column("test_accuracy")))
    assert measured.tolist() == [4, 9, 14, 19, 24, 29]
    assert log.column("test_accuracy")[29] > log.column("test_accuracy")[4]


@pytest.mark.parametrize(("access", "total"), [("tdma", sum), ("parallel", max)])
def test_the_access_of_the_uplink_decides_the_airtime(tmp_path, access, total):
    log = run(scenario_from(table(uplink={"access": access})), tmp_path)
    uploads = log.lists("upload_s")
    assert any(len(each) > 1 for each in uploads)
    by_hand = [total(each) if each else 0.0 for each in uploads]
    assert log.column("airtime_s") == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(("access", "total"), [("tdma", sum), ("parallel", max)])
def test_reports_take_their_turns_before_the_uploads_and_count_as_airtime(tmp_path, access, total):
    changes = {"policy": {"kind": "ocs", "draws": 3}, "uplink": {"access": access}}
    told = []
    log = run(scenario_from(table(**changes, run={"rounds": 6})), tmp_path, progress=told.append)
    feedback_s = log.column("feedback_s")
    upload_s = [total(each) if each else 0.0 for each in log.lists("upload_s")]
    assert feedback_s.min() > 0.0
    assert log.column("airtime_s").tolist() == pytest.approx((feedback_s + upload_s).tolist())
    assert told[-1].simulated_s == pytest.approx(log.column("airtime_s").sum())


def test_the_watcher_is_told_round_clock_accuracy_and_devices(tmp_path):
    seen = []
    scenario = scenario_from(table(uplink={"computation_s": 2.0}))
    log = run(scenario, tmp_path, progress=seen.append)
    clock_s = np.cumsum(log.column("airtime_s")) + 2.0 * np.arange(1, ROUNDS_IN_ALL + 1)
    assert [now.simulated_s for now in seen] == pytest.approx(clock_s)
    assert [now.devices for now in seen] == [len(each) for each in log.lists("device")]
    assert {now.rounds for now in seen} == {ROUNDS_IN_ALL}
    assert [now.accuracy for now in seen[:4]] == [None] * 4
    assert seen[7].accuracy == log.column("test_accuracy")[4]  # the last one measured


class BrokenDevice(AbstractTrainingPool):
    """A pool in which one device sends back what is not a number."""

    def __init__(self, pool, device):
        self.pool, self.device = pool, device

    @property
    def initial_parameters(self):
        return self.pool.initial_parameters

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002 - the project's word for t
        updates = self.pool.train_cohort(parameters, devices, round, work)
        for device, update in zip(devices, updates, strict=True):
            broken = np.full_like(update.delta, np.nan)
            yield (
                LocalUpdate(delta=broken, loss=np.nan, square_loss=np.nan, steps=2)
                if device == self.device
                else update
            )

    def losses(self, parameters, devices, round, *, whole):  # noqa: A002 - the project's word
        return self.pool.losses(parameters, devices, round, whole=whole)

    def evaluate(self, parameters):
        return self.pool.evaluate(parameters)

    def close(self):
        self.pool.close()


def test_an_update_that_is_not_finite_is_counted_in_the_log_and_the_run_goes_on(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(
        experiment, "training_pool", lambda *arguments: BrokenDevice(training_pool(*arguments), 7)
    )
    log = run(SCENARIO, tmp_path)
    assert log.rounds == ROUNDS_IN_ALL
    chosen = np.array([7 in devices for devices in log.lists("device")])
    assert chosen.any()
    np.testing.assert_array_equal(log.column("rejected"), chosen.astype(float))
    assert len(caplog.records) == chosen.sum()
    assert all("device 7 is not finite" in record.getMessage() for record in caplog.records)
    alone = np.array([devices == [7] for devices in log.lists("device")])
    empty = np.array([devices == [] for devices in log.lists("device")])
    np.testing.assert_array_equal(np.isnan(log.column("train_loss")), alone | empty)
    assert log.column("test_accuracy")[-1] > 0.3
    with np.load(tmp_path / MODEL) as model:
        assert np.isfinite(model["parameters"]).all()


def test_devices_with_unequal_data_weigh_by_their_share(tmp_path):
    sizes = [10, 20, 30, 40]
    scenario = scenario_from(
        {
            "run": {"rounds": 3, "seed": 1},
            "policy": {"kind": "full"},
            "channel": {"kind": "homogeneous", "devices": 4},
            "data": {"samples": sizes},
            "training": {"model": "softmax", "steps": 1, "batch_size": 4},
        }
    )
    log = run(scenario, tmp_path / "run")
    assert log.lists("weight")[0] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert run(scenario, tmp_path / "run").finished  # the manifest is read back as the same
    assert len(group_runs([log])) == 1
    with pytest.raises(InputError, match=r"data\.samples has 4 numbers and there are 5 devices"):
        channel = dataclasses.replace(scenario.channel, devices=5)
        run(dataclasses.replace(scenario, channel=channel), tmp_path / "other")


# --- when a run ends -------------------------------------------------------------------------


def rows(folder):
    return repr(read_run(folder).table.to_pydict())


def same_rounds(one, other):
    """The same rows and the same model, whatever the batches they were written in."""
    assert rows(one) == rows(other)
    with np.load(one / MODEL) as first, np.load(other / MODEL) as second:
        assert np.array_equal(first["parameters"], second["parameters"])


def test_a_longer_end_goes_on_as_if_it_had_been_there_from_the_start(finished, tmp_path):
    run(scenario_from(table(run={"rounds": 20})), tmp_path)
    seen = []
    run(SCENARIO, tmp_path, progress=lambda now: seen.append(now.round))
    assert seen[0] == 21
    same_rounds(tmp_path, finished)
    assert read_manifest(tmp_path)["scenario"]["run"]["rounds"] == ROUNDS_IN_ALL
    # All else that a manifest says, such as the devices and the bits of an update, is still there.
    assert read_manifest(tmp_path) == read_manifest(finished)
    assert read_manifest(tmp_path)["devices"] == 12


def test_a_longer_run_over_a_trace_still_knows_its_trace(tmp_path):
    trace, folder = tmp_path / "gains.csv", tmp_path / "run"
    write_trace(trace, record(make_channel("correlated", 5), rounds=10, seed=1))
    channel = {"channel": {"kind": str(trace)}}
    run(scenario_from({**table(run={"rounds": 5}), **channel}), folder)
    was = read_manifest(folder)["trace"]
    run(scenario_from({**table(run={"rounds": 10}), **channel}), folder)
    assert read_manifest(folder)["trace"] == was


def test_an_end_that_was_measured_out_of_turn_is_not_lengthened(tmp_path):
    run(scenario_from(table(run={"rounds": 7})), tmp_path)
    with pytest.raises(InputError, match="has run 7 rounds, the last measured out of turn"):
        run(SCENARIO, tmp_path)
    assert (tmp_path / MODEL).is_file()


def test_an_end_out_of_turn_stays_where_only_the_goal_is_another(tmp_path):
    run(scenario_from(table(run={"rounds": 7})), tmp_path / "plain")
    run(scenario_from(table(run={"rounds": 7})), tmp_path / "goal")
    again = run(scenario_from(table(run={"rounds": 7, "stop_accuracy": 1.0})), tmp_path / "goal")
    assert again.finished and again.manifest["scenario"]["run"]["stop_accuracy"] == 1.0
    same_rounds(tmp_path / "goal", tmp_path / "plain")


def test_a_run_is_not_shortened(tmp_path):
    stopped(tmp_path, 18)
    with pytest.raises(InputError, match=r"has run 16 rounds, beyond the end .* run.rounds = 10"):
        run(scenario_from(table(run={"rounds": 10})), tmp_path)


def test_a_run_does_not_end_where_it_was_not_measured(tmp_path):
    stopped(tmp_path, 18)
    with pytest.raises(InputError, match="has run 16 rounds, the last not measured"):
        run(scenario_from(table(run={"rounds": 16})), tmp_path)
    run(scenario_from(table(run={"rounds": 17})), tmp_path)
    assert np.isfinite(read_run(tmp_path).column("test_accuracy")[-1])


def accuracies(folder):
    value = read_run(folder).column("test_accuracy")
    return value[~np.isnan(value)]


EVERY_ROUND = {"eval_every": 1, "rounds": 60}
LEARNING = {"steps": 5, "learning_rate": 0.01}


@pytest.mark.slow
def test_a_run_ends_once_its_accuracy_has_stood_for_five_measurements(tmp_path):
    goal = 0.75
    scenario = scenario_from(table(run={**EVERY_ROUND, "stop_accuracy": goal}, training=LEARNING))
    run(scenario, tmp_path / "stops")
    run(scenario_from(table(run=EVERY_ROUND, training=LEARNING)), tmp_path / "whole")
    above = accuracies(tmp_path / "whole") >= goal
    ends = next(t for t in range(5, 60) if above[t - 5 : t].all())
    assert 5 < ends < 60
    assert read_run(tmp_path / "stops").rounds == ends
    assert read_run(tmp_path / "stops").finished

    # It goes on if the goal is taken away, and finished once more it is left alone.
    run(scenario_from(table(run=EVERY_ROUND, training=LEARNING)), tmp_path / "stops")
    same_rounds(tmp_path / "stops", tmp_path / "whole")
    with pytest.raises(InputError, match="beyond the end"):
        run(scenario, tmp_path / "stops")


@pytest.mark.slow
def test_a_goal_that_is_just_met_counts(tmp_path):
    run(scenario_from(table(run=EVERY_ROUND, training=LEARNING)), tmp_path / "whole")
    reached = accuracies(tmp_path / "whole")

    def end(above):
        return next((t for t in range(5, 60) if above[t - 5 : t].all()), 60)

    # A value that was measured, as a goal: whether to meet it is enough decides when it ends.
    goal = next(g for g in sorted(set(reached.tolist())) if end(reached >= g) < end(reached > g))
    scenario = scenario_from(table(run={**EVERY_ROUND, "stop_accuracy": goal}, training=LEARNING))
    assert run(scenario, tmp_path / "stops").rounds == end(reached >= goal)


@pytest.mark.slow
@pytest.mark.parametrize("back", [0, 1, 2, 4])
def test_a_run_stopped_near_its_goal_ends_where_it_would_have(tmp_path, back):
    run_section = {**EVERY_ROUND, "stop_accuracy": 0.75, "checkpoint_every": 1}
    scenario = scenario_from(table(run=run_section, training=LEARNING))
    run(scenario, tmp_path / "whole")
    ends = read_run(tmp_path / "whole").rounds
    stopped(tmp_path / "again", ends - back, scenario)
    run(scenario, tmp_path / "again")
    same_rounds(tmp_path / "again", tmp_path / "whole")


@pytest.mark.slow
def test_a_run_goes_on_after_its_goal_for_as_long_as_is_asked(tmp_path):
    def scenario(after):
        section = {**EVERY_ROUND, "stop_accuracy": 0.75, "stop_after": after, "checkpoint_every": 1}
        return scenario_from(table(run=section, training=LEARNING))

    ends = run(scenario(0), tmp_path / "stops").rounds
    assert run(scenario(7), tmp_path / "on").rounds == ends + 7 < 60
    # One that has ended goes on, and one that was stopped behind its goal ends where it would have.
    assert run(scenario(7), tmp_path / "stops").rounds == ends + 7
    same_rounds(tmp_path / "stops", tmp_path / "on")
    stopped(tmp_path / "again", ends + 3, scenario(7))
    run(scenario(7), tmp_path / "again")
    same_rounds(tmp_path / "again", tmp_path / "on")
    with pytest.raises(InputError, match="beyond the end"):
        run(scenario(2), tmp_path / "on")


def test_an_impossible_goal_is_refused():
    with pytest.raises(InputError, match=r"run.stop_accuracy must lie in \(0, 1\], got 77.5"):
        scenario_from(table(run={"stop_accuracy": 77.5}))
    with pytest.raises(InputError, match=r"run.stop_after must be a whole number of at least 0"):
        scenario_from(table(run={"stop_after": -1}))


def test_a_packed_run_is_passed_over_if_finished_and_never_written_over(finished, tmp_path):
    whole = pack_run(finished, tmp_path / "whole")
    before = (whole / ROUNDS).read_bytes()
    assert run(SCENARIO, whole).rounds == ROUNDS_IN_ALL
    assert (whole / ROUNDS).read_bytes() == before

    longer = scenario_from(table(run={"rounds": ROUNDS_IN_ALL + 5}))
    with pytest.raises(
        InputError, match=f"ended after {ROUNDS_IN_ALL} rounds, and with run.rounds"
    ):
        run(longer, whole)
    assert (whole / ROUNDS).read_bytes() == before

    part = pack_run(stopped(tmp_path / "part", 18), tmp_path / "packed")
    before = (part / ROUNDS).read_bytes()
    with pytest.raises(InputError, match="is a packed copy of a run that was not finished"):
        run(SCENARIO, part)
    assert (part / ROUNDS).read_bytes() == before


def test_a_resumable_copy_goes_on_to_the_same_model_and_the_same_packed_log(finished, tmp_path):
    copy = pack_run(stopped(tmp_path / "part", 18), tmp_path / "copy", resumable=True)
    assert read_run(copy).rounds == rounds_done(copy) == 16
    assert not read_run(copy).finished
    assert len(list(copy.glob("checkpoint-*"))) == 1
    assert (copy / ROUNDS).stat().st_size < (tmp_path / "part" / ROUNDS).stat().st_size
    run(SCENARIO, copy)
    assert (copy / MODEL).read_bytes() == (finished / MODEL).read_bytes()
    again, whole = pack_run(copy, tmp_path / "again"), pack_run(finished, tmp_path / "whole")
    for name in (ROUNDS, MANIFEST):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


def test_a_finished_run_is_packed_alike_whether_resumable_or_not(finished, tmp_path):
    one = pack_run(finished, tmp_path / "one", resumable=True)
    other = pack_run(finished, tmp_path / "other")
    assert sorted(path.name for path in one.iterdir()) == [MANIFEST, ROUNDS]
    assert (one / ROUNDS).read_bytes() == (other / ROUNDS).read_bytes()


def test_a_later_copy_leaves_no_checkpoint_of_an_earlier_one(tmp_path):
    part = stopped(tmp_path / "part", 9)
    copy = pack_run(part, tmp_path / "copy", resumable=True)
    pack_run(stopped(part, 22), copy, resumable=True)
    assert [path.name for path in copy.glob("checkpoint-*")] == ["checkpoint-000000020.npz"]
    pack_run(part, copy)
    assert not list(copy.glob("checkpoint-*"))


def test_a_packed_run_keeps_all_but_the_last_digits_of_what_is_only_looked_at(finished, tmp_path):
    was, packed = (read_run(place) for place in (finished, pack_run(finished, tmp_path / "packed")))
    assert packed.table.schema == was.table.schema
    lists = {"power_w", "upload_s", "group_power_w", "worst_use"}
    rounded = {*lists, "mean_power_w", "worst_power_w", "residual"}
    for name in set(was.table.column_names) - rounded:
        # As text, for NaN is not equal to itself; a number's text holds its every bit.
        assert repr(packed.table[name].to_pylist()) == repr(was.table[name].to_pylist()), name
    for name in rounded:
        whole, cut = (log.table[name].combine_chunks() for log in (was, packed))
        if name in lists:
            assert cut.value_lengths().equals(whole.value_lengths())
            whole, cut = whole.flatten(), cut.flatten()
        whole, cut = whole.to_numpy(), cut.to_numpy()
        assert np.any(cut != whole)
        np.testing.assert_allclose(cut, whole, rtol=2.0**-16, atol=0.0)

    again = pack_run(tmp_path / "packed", tmp_path / "again")
    assert (again / ROUNDS).read_bytes() == (tmp_path / "packed" / ROUNDS).read_bytes()
