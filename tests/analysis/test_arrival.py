from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsched.analysis.arrival import (
    ACCURACY,
    ARRIVAL,
    IN_A_ROW,
    PROTOCOLS,
    TRAINING_LOSS,
    InARow,
    RunningMean,
    arrival_protocol,
    reach,
    reach_steps,
)
from fedsched.analysis.curves import Curve
from fedsched.errors import InputError, UnknownNameError
from fedsched.runs.runlog import RunLog


def curve(values, *, seconds=3.0, every=2.0):
    count = np.arange(1.0, len(values) + 1)
    return Curve(
        rounds=every * count, airtime_s=seconds * count, value=np.array(values, dtype=np.float64)
    )


def time_to_target(the_curve, target, protocol, computation_s=0.0):
    reached = reach(the_curve, target, protocol)
    return None if reached is None else reached.time_s(computation_s)


def slow_time_to_target(the_curve, target, computation_s, patience):
    values = the_curve.value.tolist()
    for place in range(len(values)):
        lasting = 0
        for value in values[place:]:
            if value < target:
                break
            lasting += 1
        if lasting >= patience:
            return the_curve.airtime_s[place] + computation_s * the_curve.rounds[place]
    return None


@given(
    values=st.lists(st.sampled_from([0.0, 0.4, 0.5, 0.6, 1.0]), max_size=30),
    target=st.sampled_from([0.3, 0.5, 0.55, 2.0]),
    patience=st.integers(1, 8),
    computation_s=st.sampled_from([0.0, 0.25, 7.0]),
)
def test_the_time_to_a_target_is_what_an_obvious_loop_finds(
    values, target, patience, computation_s
):
    measured = curve(values)
    wanted = slow_time_to_target(measured, target, computation_s, patience)
    found = time_to_target(measured, target, InARow(patience), computation_s)
    assert found == wanted


def test_a_crossing_that_does_not_last_does_not_count():
    noisy = curve([0.1, 0.9, 0.2, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9])
    assert [time_to_target(noisy, 0.8, InARow(p)) for p in (1, 2, 3, 4)] == [6.0, 12.0, 21.0, None]


def test_the_moment_of_reaching_is_a_line_in_the_computation_time():
    reached = reach(curve([0.1, 0.9]), 0.8, InARow(1))
    assert (reached.airtime_s, reached.rounds) == (6.0, 4.0)
    assert reached.time_s(0.5) == 8.0


@pytest.mark.parametrize("patience", [0, -1])
def test_a_patience_below_one_is_refused(patience):
    with pytest.raises(InputError, match="patience must be a whole number of at least 1"):
        InARow(patience)


def test_a_curve_without_measurements_reaches_nothing():
    for protocol in (InARow(1), IN_A_ROW, RunningMean(5)):
        assert reach(curve([]), 0.0, protocol) is None
        assert len(reach_steps(curve([]), protocol).value) == 0


def test_more_patience_never_reaches_sooner():
    rng = np.random.default_rng(1)
    noisy = curve(rng.random(200) + np.linspace(0.0, 0.6, 200))
    times = [time_to_target(noisy, 0.7, InARow(p)) for p in range(1, 12)]
    known = [time for time in times if time is not None]
    assert len(known) > 5
    assert all(a <= b for a, b in pairwise(known))


def test_a_loss_is_reached_from_above():
    columns = {
        "train_loss": [3.0, 1.0, 2.0, 1.0, 0.5],
        "airtime_s": [2.0] * 5,
        "test_accuracy": [0.5] * 5,
        "weight": [[1.0]] * 5,
    }
    log = RunLog(folder=Path(), manifest={}, table=pa.table(columns), finished=True)
    arrivals = [TRAINING_LOSS.reach(log, 1.5, InARow(p)) for p in (1, 2, 3)]
    assert [each and each.rounds for each in arrivals] == [2.0, 4.0, None]
    assert ACCURACY.reach(log, 0.5, InARow(1)).rounds == 1.0


def slow_running_mean(the_curve, target, window, every=1):
    """The round of the first measurement whose window has a mean at the target."""
    counted, last = [], 0
    for round_, value in zip(the_curve.rounds, the_curve.value, strict=True):
        if round_ // every == last // every:
            continue
        last = round_
        counted.append((round_, value))
        inside = [v for r, v in counted if r > round_ - min(window, round_ / 5)]
        seen = inside if len(inside) > 4 else [v for _, v in counted[-4:]]
        if len(seen) >= 4 and np.mean(seen) >= target:
            return round_
    return None


@given(
    values=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=40),
    target=st.sampled_from([0.25, 0.3, 0.5, 0.6, 2.0]),
    window=st.integers(1, 30),
    every=st.sampled_from([1.0, 2.0, 7.0]),
    counted=st.sampled_from([1, 3, 10]),
)
def test_a_running_mean_arrives_where_an_obvious_loop_finds(values, target, window, every, counted):
    measured = curve(values, every=every)
    found = reach(measured, target, RunningMean(window, counted))
    assert (found and found.rounds) == slow_running_mean(measured, target, window, counted)


def test_a_lucky_measurement_moves_a_mean_little():
    lucky = curve([0.7] * 60 + [0.9] * 3 + [0.7] * 10, every=20.0)
    assert reach(lucky, 0.8, IN_A_ROW).rounds == 1220.0
    assert reach(lucky, 0.8, RunningMean(200)) is None
    # Equal values have their own mean, whatever their sum rounds to; and it needs four of them.
    assert reach(curve([0.775] * 30, every=20.0), 0.775, RunningMean(200)).rounds == 80.0


def test_runs_that_were_measured_more_and_less_often_are_read_on_one_grid():
    often = curve(np.linspace(0.0, 1.0, 100), every=20.0, seconds=20.0)
    places = RunningMean(every=50).levels(often).rounds
    assert places[:5].tolist() == [200.0, 260.0, 300.0, 360.0, 400.0]
    rarely = curve(np.linspace(0.0, 1.0, 40), every=50.0, seconds=50.0)
    assert len(RunningMean(every=50).levels(rarely).rounds) == len(places)
    assert RunningMean(every=50).levels(rarely).rounds.tolist() == (
        RunningMean().levels(rarely).rounds.tolist()
    )


values = st.lists(st.integers(0, 40).map(lambda k: k / 40), max_size=30)
protocols = st.one_of(st.integers(1, 5).map(InARow), st.integers(1, 20).map(RunningMean))


@given(value=values, protocol=protocols, target=st.integers(-1, 42).map(lambda k: k / 40))
def test_the_steps_answer_for_every_target_as_the_whole_curve_does(value, protocol, target):
    steps = reach_steps(curve(value), protocol)
    assert reach(steps, target, InARow(1)) == reach(curve(value), target, protocol)
    assert (np.diff(steps.value) > 0).all()


@given(value=values, protocol=protocols, target=st.integers(-1, 42).map(lambda k: k / 40))
def test_what_falls_arrives_as_its_mirror_image_rises(value, protocol, target):
    falling = curve([-each for each in value])
    assert reach(falling, -target, protocol, falls=True) == reach(curve(value), target, protocol)


def test_protocols_have_names_and_say_what_they_are():
    assert set(PROTOCOLS) == {"row", "mean"}
    assert arrival_protocol() == arrival_protocol("mean") == ARRIVAL == RunningMean(200)
    assert arrival_protocol("row") == IN_A_ROW == InARow(3)
    assert arrival_protocol(patience=2) == InARow(2)
    assert arrival_protocol(every=50) == arrival_protocol("mean", every=50) == RunningMean(every=50)
    assert RunningMean(every=50).title == "by the 200-round mean every 50 rounds"
    assert "every 50 rounds" in RunningMean(every=50).in_words
    assert [InARow(p).title for p in (1, 3)] == ["by 1 measurement", "by 3 measurements in a row"]
    for wrong in ({"name": "mean", "patience": 3}, {"patience": 3, "every": 50},
                  {"name": "row", "every": 50}):  # fmt: skip
        with pytest.raises(InputError, match="leave out one of the two"):
            arrival_protocol(**wrong)
    assert arrival_protocol("row", patience=1).in_words == "at the first measurement at or above it"
    assert "3 measurements in a row" in IN_A_ROW.in_words
    assert "last 200 rounds" in arrival_protocol("mean").in_words
    with pytest.raises(UnknownNameError, match="protocol"):
        arrival_protocol("median")
    with pytest.raises(InputError, match="rounds must be a whole number of at least 1"):
        RunningMean(0)
    with pytest.raises(InputError, match="every must be a whole number of at least 1"):
        RunningMean(every=0)
