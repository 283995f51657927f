"""Channels of measured rates: an update takes its bits over the rate, and no power is needed."""

import itertools

import numpy as np
import pytest

import fedsched
from fedsched.analysis.collect import collect_runs
from fedsched.analysis.comparison import comparison_row
from fedsched.errors import InputError
from fedsched.policies import POLICIES, Need, policy_info
from fedsched.radio import make_channel, write_trace
from fedsched.runs.assembly import air_of, budgets_of, channel_of, schedule_of
from fedsched.runs.scenario import scenario_from
from fedsched.runs.schedule_table import write_schedule
from fedsched.solve.uplink import RateLink
from fedsched.views.report import report_payload

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
    (power,) = budgets_of(known, air_of(known, channel_of(known), 0).uplink)
    assert power.limit == 0.01
    with pytest.raises(
        InputError, match=r"holds rates, and the power .* but uplink.budget_w limits"
    ):
        air_of(blind := scenario(rates, uplink={"budget_w": 0.01}), channel_of(blind), 0)


def test_a_schedule_over_rates_is_written_so_that_it_is_never_read_as_gains(rates, tmp_path):
    for name in ("schedule.csv", "schedule.parquet"):
        done = itertools.islice(schedule_of(scenario(rates), 0), 2)
        list(write_schedule(tmp_path / name, done, "rate"))
        again = make_channel(str(tmp_path / name))
        assert again.quantity == "rate"
        np.testing.assert_allclose(again.gain, np.where(MBIT > 0, MBIT * 1e6, np.nan))


GAINS_ALONE = [
    name
    for name in POLICIES
    if policy_info(name).needs <= {Need.GAIN}
    and not name.startswith(("sinr-", "resource-", "fdma-"))
]


@pytest.mark.parametrize("policy", GAINS_ALONE)
def test_no_policy_invents_watts_and_none_needs_them(rates, policy):
    unknown = list(itertools.islice(schedule_of(scenario(rates, policy), 0), 4))
    uplink = {"max_power_w": 0.2, "budget_w": float("inf")}
    known = list(itertools.islice(schedule_of(scenario(rates, policy, uplink=uplink), 0), 4))
    for blind, seeing in zip(unknown, known, strict=True):
        near = ~np.isnan(blind.gain)
        assert np.isnan(blind.decision.power_w[near]).all()
        assert seeing.decision.power_w[near] == pytest.approx(0.2)
        assert blind.cohort.device.tolist() == seeing.cohort.device.tolist()
        assert blind.uploads_s == seeing.uploads_s


def test_nothing_shows_watts_that_nobody_knows(rates, tmp_path):
    sections = {
        "training": {"model": "softmax", "steps": 1},
        "data": {"samples": 20},
        "uplink": {"bits": 8e6},
    }
    table = {"run": {"rounds": 3, "seed": 1, "eval_every": 1}, "channel": {"kind": rates}}
    log = fedsched.run({**table, **sections}, tmp_path / "run")
    for name in ("mean_power_w", "worst_power_w"):
        assert np.isnan(log.column(name)).all()
    assert np.isnan(np.concatenate(log.lists("power_w"))).all()
    of_groups = np.concatenate(log.lists("group_power_w"))  # out of reach nothing is sent
    assert np.isnan(of_groups).any() and not (of_groups > 0.0).any()
    assert comparison_row(log, 0.5)["worst_mean_power_w"] is None
    (group,) = report_payload(collect_runs([tmp_path]))["groups"]
    assert group["power"] == {"names": [], "rounds": [1, 2, 3], "mean_w": []}
    assert group["budget_w"] is None and group["budgets"] == []
    done = itertools.islice(schedule_of(scenario(rates), 0), 2)
    list(write_schedule(tmp_path / "two.csv", done, "rate", watts=False))
    header = (tmp_path / "two.csv").read_text().partition("\n")[0]
    assert "power_w" not in header and "queue" not in header and "rate_bit/s" in header
