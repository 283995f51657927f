import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.runs.report_runs import as_of_an_earlier_version

from fedsched.errors import RunLogError
from fedsched.runs.manifest import MANIFEST, MODEL, ROUNDS, SCHEMA, read_manifest, write_manifest
from fedsched.runs.runlog import read_run
from fedsched.runs.writer import LogWriter
from fedsched.values import Cohort, Decision, Plan, ScheduledRound, TrainedRound

DEVICES = 25


def trained(number, members=(1, 4), **changes):
    q = np.linspace(0.1, 0.9, DEVICES)
    q[0] = 0.0  # out of reach
    scheduled = ScheduledRound(
        round=number,
        gain=np.ones(DEVICES),
        decision=Decision(
            plan=Plan(power_w=np.arange(DEVICES) + 1.0, bits=1.0, upload_s=0.25 * np.ones(DEVICES)),
            probability=q,
            cohort=Cohort(
                device=np.array(members, dtype=np.int64), weight=0.5 * np.ones(len(members))
            ),
            residual=1e-12,
        ),
        upload_s=0.25 * np.arange(1, len(members) + 1),
        uploads_s=0.25 * sum(range(1, len(members) + 1)),
    )
    given = {
        "parameters": np.zeros(2, np.float32),
        "rejected": number % 2,
        "train_loss": 1.5,
        "accuracy": 0.25 * number if number % 2 else np.nan,
        "test_loss": 2.0 if number % 2 else np.nan,
    }
    return TrainedRound(scheduled=scheduled, **(given | changes))


def begun(folder):
    """A new log, which names the run of its manifest."""
    return LogWriter(folder, run=read_manifest(folder)["run"])


def filled(folder, batches=(2, 1, 3)):
    """A log of a few batches; returns its length after the schema and after each batch."""
    write_manifest(folder, {"run": {"seed": 3}}, {"update_bits": 32.0})
    log = begun(folder)
    lengths, number = [log.length], 0
    for rounds in batches:
        for _ in range(rounds):
            log.add(trained(number), airtime_s=0.75)
            number += 1
        lengths.append(log.flush())
    return lengths


def test_the_manifest_holds_schema_scenario_and_versions(tmp_path):
    filled(tmp_path)
    content = json.loads((tmp_path / MANIFEST).read_text())
    assert content == read_manifest(tmp_path)
    assert content["schema"] == SCHEMA
    assert content["scenario"] == {"run": {"seed": 3}}
    assert content["update_bits"] == 32.0
    assert {"fedsched", "numpy", "torch", "pyarrow"} <= content["versions"].keys()


def test_a_manifest_of_another_schema_is_refused_with_both_numbers_named(tmp_path):
    filled(tmp_path)
    path = tmp_path / MANIFEST
    path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', '"schema": 41'))
    with pytest.raises(
        RunLogError, match=f"is of schema 41 and this version reads schema {SCHEMA}"
    ):
        read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_a_damaged_manifest_is_refused(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(RunLogError, match=r"manifest\.json' is damaged"):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_no_run(tmp_path):
    with pytest.raises(RunLogError, match=r"is not a run folder: manifest.json cannot be read"):
        read_run(tmp_path)


def test_rounds_come_back_as_they_were_logged(tmp_path):
    filled(tmp_path)
    log = read_run(tmp_path)
    assert log.rounds == 6
    assert not log.finished
    assert log.column("round").tolist() == [0, 1, 2, 3, 4, 5]
    assert log.column("airtime_s").tolist() == [0.75] * 6
    assert log.column("rejected").tolist() == [0, 1] * 3
    np.testing.assert_array_equal(
        log.column("test_accuracy"), [np.nan, 0.25, np.nan, 0.75, np.nan, 1.25]
    )
    assert log.lists("device")[0] == [1, 4]
    assert log.lists("weight")[0] == [0.5, 0.5]
    assert log.lists("power_w")[0] == [2.0, 5.0]
    assert log.lists("upload_s")[0] == [0.25, 0.5]


def test_the_summaries_of_a_row_are_means_over_devices(tmp_path):
    filled(tmp_path, batches=(1,))
    log = read_run(tmp_path)
    decision = trained(0).scheduled.decision
    q, spent = decision.probability, decision.probability * decision.power_w
    assert log.column("mean_inverse_probability")[0] == pytest.approx((1 / q[1:]).mean())
    assert log.column("mean_power_w")[0] == pytest.approx(spent.mean())
    groups = log.lists("group_power_w")[0]
    assert len(groups) == 10
    assert groups[0] == pytest.approx(spent[:3].mean())
    assert groups[-1] == pytest.approx(spent[-2:].mean())


def test_a_round_without_members_has_empty_lists(tmp_path):
    write_manifest(tmp_path, {}, {})
    log = begun(tmp_path)
    log.add(trained(0, members=(), train_loss=np.nan), airtime_s=0.0)
    log.flush()
    read = read_run(tmp_path)
    assert read.lists("device") == [[]]
    assert np.isnan(read.column("train_loss")[0])


def test_any_arrow_reader_can_read_the_log(tmp_path):
    filled(tmp_path)
    with pa.OSFile(str(tmp_path / ROUNDS)) as file, pa.ipc.open_stream(file) as reader:
        table = reader.read_all()
    assert table["round"].to_pylist() == [0, 1, 2, 3, 4, 5]
    assert table.schema.metadata[b"fedsched.schema"] == str(SCHEMA).encode()


@pytest.mark.slow
def test_a_log_cut_at_any_byte_gives_the_batches_that_are_whole(tmp_path):
    lengths = filled(tmp_path, batches=(2, 1))
    whole = repr(read_run(tmp_path).table.to_pylist())
    seen = set()
    for length in range(lengths[-1], lengths[0] - 1, -1):
        os.truncate(tmp_path / ROUNDS, length)
        log = read_run(tmp_path)
        batches = sum(length >= end for end in lengths[1:])
        assert log.rounds == (0, 2, 3)[batches], length
        if log.rounds not in seen:  # the first cut into a batch
            assert whole.startswith(repr(log.table.to_pylist())[:-1])
            seen.add(log.rounds)
    assert seen == {0, 2, 3}


@pytest.mark.slow
def test_a_log_whose_schema_is_cut_at_any_byte_is_damaged(tmp_path):
    lengths = filled(tmp_path, batches=())
    assert read_run(tmp_path).rounds == 0
    for length in range(lengths[0] - 1, -1, -1):
        os.truncate(tmp_path / ROUNDS, length)
        with pytest.raises(RunLogError, match=r"rounds\.arrows'"):
            read_run(tmp_path)


def test_a_log_that_is_not_there_is_refused(tmp_path):
    write_manifest(tmp_path, {}, {})
    with pytest.raises(RunLogError, match=r"rounds\.arrows' cannot be read"):
        read_run(tmp_path)


def test_a_finished_run_has_no_batch_that_is_still_being_written(tmp_path):
    filled(tmp_path)
    as_of_an_earlier_version(tmp_path)
    path = tmp_path / ROUNDS
    path.write_bytes(path.read_bytes()[:-9])
    assert read_run(tmp_path).rounds == 3
    (tmp_path / MODEL).touch()
    with pytest.raises(RunLogError, match="is damaged after round 3"):
        read_run(tmp_path)


def test_a_run_that_ends_while_its_log_is_read_is_not_taken_for_finished(tmp_path, monkeypatch):
    filled(tmp_path)
    as_of_an_earlier_version(tmp_path)
    real = Path.read_bytes

    def read_then_finish(self):
        content = real(self)
        if self.name == ROUNDS:
            (tmp_path / MODEL).touch()
        return content

    monkeypatch.setattr(Path, "read_bytes", read_then_finish)
    assert not read_run(tmp_path).finished
    assert read_run(tmp_path).finished


def test_rounds_out_of_order_are_refused(tmp_path):
    write_manifest(tmp_path, {}, {})
    log = begun(tmp_path)
    for number in (0, 2):
        log.add(trained(number), airtime_s=0.0)
    log.flush()
    with pytest.raises(RunLogError, match="its rounds are not 0, 1, 2"):
        read_run(tmp_path)


def test_what_lies_beyond_the_count_is_cut_off_and_written_again_to_the_same_bytes(tmp_path):
    lengths = filled(tmp_path)
    content = (tmp_path / ROUNDS).read_bytes()
    log = LogWriter(tmp_path, length=lengths[1])
    assert (tmp_path / ROUNDS).read_bytes() == content[: lengths[1]]
    for number in range(2, 6):
        log.add(trained(number), airtime_s=0.75)
        if number in (2, 5):
            log.flush()
    assert (tmp_path / ROUNDS).read_bytes() == content


def test_a_log_of_an_earlier_version_keeps_its_columns_when_it_goes_on(tmp_path):
    filled(tmp_path)
    early = read_run(tmp_path).table.drop_columns(["feedback_s", "worst_power_w"])
    with (tmp_path / ROUNDS).open("wb") as file:  # as a LogWriter does, without an end
        file.write(early.schema.serialize())
        for batch in early.to_batches():
            file.write(batch.serialize())
    log = LogWriter(tmp_path, length=(tmp_path / ROUNDS).stat().st_size)
    log.add(trained(early.num_rows), airtime_s=0.5)
    log.flush()
    now = read_run(tmp_path)
    assert now.table.column_names == early.column_names
    now.table.validate(full=True)  # columns of another schema would end the process when read
    # As text, for NaN is not equal to itself.
    assert repr(now.table.to_pylist()[: early.num_rows]) == repr(early.to_pylist())
    assert now.column("airtime_s").tolist() == [0.75] * early.num_rows + [0.5]


def test_a_count_of_zero_starts_the_log_anew(tmp_path):
    filled(tmp_path)
    begun(tmp_path)
    assert read_run(tmp_path).rounds == 0


def test_a_flush_without_rounds_writes_nothing(tmp_path):
    lengths = filled(tmp_path)
    log = LogWriter(tmp_path, length=lengths[-1])
    assert log.flush() == lengths[-1]
    assert (tmp_path / ROUNDS).stat().st_size == lengths[-1]


def test_a_flush_that_fails_costs_nothing_that_was_counted(tmp_path, monkeypatch):
    lengths = filled(tmp_path)
    content = (tmp_path / ROUNDS).read_bytes()
    log = LogWriter(tmp_path, length=lengths[-1])
    log.add(trained(6), airtime_s=0.0)

    def fail(_number):
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            log.flush()
    assert (tmp_path / ROUNDS).read_bytes().startswith(content)
    LogWriter(tmp_path, length=lengths[-1])
    assert (tmp_path / ROUNDS).read_bytes() == content


@pytest.mark.parametrize("there", [True, False])
def test_a_log_shorter_than_the_checkpoint_counts_is_refused(tmp_path, there):
    lengths = filled(tmp_path)
    if not there:
        (tmp_path / ROUNDS).unlink()
    size = lengths[-1] if there else 0
    wanted = rf"has {size} bytes and the checkpoint counts {lengths[-1] + 8}"
    with pytest.raises(RunLogError, match=wanted):
        LogWriter(tmp_path, length=lengths[-1] + 8)
