import csv
from itertools import islice

import numpy as np
import pytest
from pyarrow import parquet

from fedsched.errors import InputError
from fedsched.policies import make_policy
from fedsched.radio import Intermittent, Rayleigh
from fedsched.rounds import schedule
from fedsched.runs import schedule_table
from fedsched.runs.schedule_table import write_schedule
from fedsched.solve.uplink import PAPER_UPLINK

DEVICES = 4
COLUMNS = ["round", "device", "gain", "queue", "probability", "power_w", "selected", "weight",
           "airtime_s"]  # fmt: skip
CHANNEL = Intermittent(Rayleigh(np.linspace(0.5, 2.0, DEVICES)), np.full(DEVICES, 0.7))


def rounds(count, policy="lyapunov"):
    made = make_policy(policy, uplink=PAPER_UPLINK, draws=2)
    running = schedule(channel=CHANNEL, policy=made, uplink=PAPER_UPLINK, seed=3)
    return [done for done, _ in islice(running, count)]


def read(path):
    """Columns by name, as arrays of numbers."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        return {name: table[name].to_numpy().astype(float) for name in table.column_names}
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    values = np.array([[float(cell) for cell in line] for line in lines])
    return {name: values[:, place] for place, name in enumerate(header)}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("rows", [3, 8, 10, 1 << 20])  # of a group; a round has 4
@pytest.mark.parametrize("count", [2, 30])
def test_every_round_and_device_is_in_the_file(tmp_path, monkeypatch, suffix, count, rows):
    monkeypatch.setattr(schedule_table, "GROUP_ROWS", rows)
    monkeypatch.setattr(schedule_table, "_LISTED_ROWS", rows)
    path, given = tmp_path / f"trace{suffix}", rounds(count)
    passed = list(write_schedule(path, given))
    assert all(a is b for a, b in zip(passed, given, strict=True))
    table = read(path)
    assert list(table) == COLUMNS
    spread = {name: values.reshape(count, DEVICES) for name, values in table.items()}
    np.testing.assert_array_equal(spread["round"], np.arange(count)[:, None] + np.zeros(DEVICES))
    np.testing.assert_array_equal(spread["device"], np.zeros((count, 1)) + np.arange(DEVICES))
    for row, done in enumerate(given):
        np.testing.assert_array_equal(spread["gain"][row], done.gain)
        np.testing.assert_array_equal(spread["queue"][row], done.queues["power"])
        np.testing.assert_array_equal(spread["probability"][row], done.decision.probability)
        np.testing.assert_array_equal(spread["power_w"][row], done.decision.power_w)
        members = np.flatnonzero(spread["selected"][row])
        np.testing.assert_array_equal(members, done.cohort.device)
        np.testing.assert_array_equal(spread["weight"][row, members], done.cohort.weight)
        np.testing.assert_array_equal(spread["airtime_s"][row, members], done.upload_s)
        assert spread["airtime_s"][row].sum() == pytest.approx(done.airtime_s)


def test_no_group_of_rows_is_larger_than_the_others_whatever_the_rounds(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule_table, "GROUP_ROWS", 10)
    path = tmp_path / "trace.parquet"
    list(write_schedule(path, rounds(12)))
    written = parquet.ParquetFile(path).metadata
    assert [written.row_group(k).num_rows for k in range(written.num_row_groups)] == [10] * 4 + [8]


def test_a_policy_without_queues_has_zeros_there(tmp_path):
    path = tmp_path / "trace.csv"
    list(write_schedule(path, rounds(2, "uniform")))
    assert set(read(path)["queue"]) == {0.0}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_schedule_that_fails_leaves_no_file(tmp_path, suffix):
    def failing():
        yield from rounds(2)
        raise InputError("round 2 is bad")

    with pytest.raises(InputError, match="round 2 is bad"):
        list(write_schedule(tmp_path / f"trace{suffix}", failing()))
    assert list(tmp_path.iterdir()) == []


def test_another_ending_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match=r"out must end in one of \.parquet, \.csv"):
        next(write_schedule(tmp_path / "trace.txt", iter([])))
