import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsched.analysis.curves import Curve, curve_of, mean_curve, rolling_mean, training_loss
from fedsched.runs.runlog import RunLog


def curve(values, *, seconds=3.0, every=2.0):
    count = np.arange(1.0, len(values) + 1)
    return Curve(
        rounds=every * count, airtime_s=seconds * count, value=np.array(values, dtype=np.float64)
    )


def test_a_curve_is_taken_at_the_rounds_that_were_measured():
    columns = {
        "airtime_s": np.array([1.0, 2.0, 4.0, 8.0]),
        "test_accuracy": np.array([np.nan, 0.5, np.nan, 0.7]),
    }
    taken = curve_of(SimpleNamespace(column=columns.__getitem__))
    assert taken.rounds.tolist() == [2.0, 4.0]
    assert taken.airtime_s.tolist() == [3.0, 15.0]
    assert taken.value.tolist() == [0.5, 0.7]
    assert taken.time_s(10.0).tolist() == [23.0, 55.0]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20), st.integers(1, 25))
def test_a_rolling_mean_looks_back_only(values, window):
    smooth = rolling_mean(np.array(values), window)
    for place, value in enumerate(smooth):
        assert value == pytest.approx(np.mean(values[max(0, place + 1 - window) : place + 1]))


def test_a_mean_curve_interpolates_each_seed_between_the_times_all_have():
    slow, fast = curve([0.0, 1.0, 2.0], seconds=2.0), curve([0.0, 3.0, 6.0], seconds=3.0)
    grid, mean = mean_curve([slow, fast], points=4)
    assert (grid[0], grid[-1]) == (3.0, 6.0)
    assert mean == pytest.approx([((t / 2 - 1) + 3 * (t / 3 - 1)) / 2 for t in grid])
    grid, _ = mean_curve([slow, fast], points=3, over="rounds")
    assert grid.tolist() == [2.0, 4.0, 6.0]


def log_of(sums, weights, measured, rejected=None):
    """A log with these sums of weight times loss and weights, measured after these rounds."""
    rounds = len(sums)
    columns = {
        "train_loss": sums,
        "airtime_s": [2.0] * rounds,
        "test_accuracy": [0.5 if t + 1 in measured else math.nan for t in range(rounds)],
    }
    table = pa.table(
        {
            **{name: pa.array(each, pa.float64()) for name, each in columns.items()},
            "weight": pa.array(weights, pa.list_(pa.float64())),
            **({} if rejected is None else {"rejected": rejected}),
        }
    )
    return RunLog(folder=Path(), manifest={}, table=table, finished=True)


def test_the_training_loss_since_a_measurement_is_a_ratio_of_sums():
    sums = [1.0, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    weights = [[0.5], [2.0, 0.5], [1.0], [1.0], [1.0, 1.0], [0.5], [1.0]]
    found = training_loss(log_of(sums, weights, measured=(2, 4, 6)))
    assert found.rounds.tolist() == [2.0, 4.0, 6.0]
    assert found.airtime_s.tolist() == [4.0, 8.0, 12.0]
    np.testing.assert_allclose(found.value, [10.0 / 3.0, 5.0 / 2.0, 9.0 / 2.5])


@given(
    weights=st.lists(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=4), max_size=40),
    every=st.integers(1, 10),
)
def test_unlike_weights_make_no_noise_where_every_device_has_the_same_loss(weights, every):
    measured = range(every, len(weights) + 1, every)
    log = log_of([1.7 * sum(each) for each in weights], weights, measured)
    found = training_loss(log)
    assert found.rounds.tolist() == list(measured)
    np.testing.assert_allclose(found.value, 1.7)


def test_rounds_without_a_loss_or_with_a_lost_update_are_passed_over():
    sums, weights = [1.0, math.nan, 0.1, 3.0], [[1.0], [], [1.0, 1.0], [1.0]]
    found = training_loss(log_of(sums, weights, (1, 2, 3, 4), rejected=[0, 0, 1, 0]))
    assert (found.rounds.tolist(), found.value.tolist()) == ([1.0, 4.0], [1.0, 3.0])
    found = training_loss(log_of([1.0, math.inf, 3.0], [[1.0]] * 3, (1, 2, 3)))
    assert (found.rounds.tolist(), found.value.tolist()) == ([1.0, 3.0], [1.0, 3.0])
    nothing = training_loss(log_of(sums, weights, measured=()))
    assert len(nothing.rounds) == len(nothing.airtime_s) == len(nothing.value) == 0
