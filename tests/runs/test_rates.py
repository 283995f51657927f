"""Channels of measured rates: an update takes its bits over the rate, and no power is needed."""

import itertools

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.radio import make_channel, write_trace
from fedsched.runs.assembly import air_of, budgets_of, channel_of, schedule_of
from fedsched.runs.scenario import scenario_from
from fedsched.solve.uplink import RateLink

MBIT = np.array([[1.0, 4.0, np.nan], [2.0, 0.0, 8.0]])


@pytest.fixture
def rates(tmp_path):
    write_trace(tmp_path / "rates.csv", MBIT, unit="mbit/s")
    return str(tmp_path / "rates.csv")


def scenario(rates, policy="full", **sections):
    table = {"run": {"rounds": 2, "seed": 1}, "policy": {"kind": policy}}
    uplink = {"bits": 8e6, **sections.pop("uplink", {})}
    return scenario_from({**table, "channel": {"kind": rates}, "uplink": uplink, **sections})


def test_a_round_takes_the_bits_over_the_measured_rates(rates):
    first, second = itertools.islice(schedule_of(scenario(rates), 0), 2)
    assert first.uploads_s == pytest.approx(8.0 / 1.0 + 8.0 / 4.0, rel=1e-15)
    assert second.uploads_s == pytest.approx(8.0 / 2.0 + 8.0 / 8.0, rel=1e-15)
    assert first.cohort.device.tolist() == [0, 1]
    assert second.cohort.device.tolist() == [0, 2]  # a rate of 0 is out of reach


def test_parallel_links_end_when_the_last_rate_does(rates):
    first = next(schedule_of(scenario(rates, uplink={"access": "parallel"}), 0))
    assert first.uploads_s == pytest.approx(8.0, rel=1e-15)


def test_without_a_power_there_is_no_budget_of_power(rates):
    found = scenario(rates)
    uplink = air_of(found, channel_of(found), 0).uplink
    assert isinstance(uplink, RateLink)
    assert budgets_of(found, uplink) == ()
    known = scenario(rates, uplink={"max_power_w": 0.2, "budget_w": 0.01})
    (power,) = budgets_of(known, uplink)
    assert power.limit == 0.01
    with pytest.raises(
        InputError, match=r"holds rates, and the power .* but uplink.budget_w limits"
    ):
        budgets_of(scenario(rates, uplink={"budget_w": 0.01}), uplink)


def test_a_schedule_over_rates_is_written_so_that_it_is_never_read_as_gains(rates, tmp_path):
    from fedsched.runs.schedule_table import write_schedule

    for name in ("schedule.csv", "schedule.parquet"):
        done = itertools.islice(schedule_of(scenario(rates), 0), 2)
        list(write_schedule(tmp_path / name, done, "rate"))
        again = make_channel(str(tmp_path / name))
        assert again.quantity == "rate"
        np.testing.assert_allclose(again.gain, np.where(MBIT > 0, MBIT * 1e6, np.nan))
