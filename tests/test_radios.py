"""The page of radios says what was measured, and uniform is counted as the policy would do it."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from fedsched.policies import FixedSize, Uniform
from fedsched.solve.uplink import PAPER_UPLINK, RateLink

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "radios.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "benchmarks" / "results" / "radios.md").read_text(encoding="utf-8")
RADIOS = runpy.run_path(str(ROOT / "benchmarks" / "radios.py"))
TABLE = re.compile(r"^(?:\|.*\n)+", re.MULTILINE)


def rows(table):
    """The cells of each row below the header."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def least_and_most(column, lorawan=False, computation=("0", "0.1", "1", "10")):
    """The range of a column of the first table, of LoRaWAN or of all the others."""
    chosen = [
        float(row[column].split()[0])
        for row in rows(TABLE.findall(RESULTS)[0])
        if (row[0] == "lorawan") == lorawan and row[1] in computation
    ]
    return f"{min(chosen):.2f} to {max(chosen):.2f}"


@pytest.mark.parametrize("uploads", ["0", "0.1", "1", "10"])
def test_the_first_paragraph_has_the_measured_ranges_to_ten_draws(uploads):
    free = least_and_most(5, computation=(uploads,))
    assert f"{free} times" in " ".join(PAGE.split("\n\n")[1].split())


def test_the_page_has_the_measured_ranges_to_the_best():
    first, whole = (" ".join(each.split()) for each in (PAGE.split("\n\n")[1], PAGE))
    for lorawan in (False, True):
        assert f"{least_and_most(4, lorawan=lorawan)} times sooner than" in first.replace(
            ", and that number", " than"
        )
        for column in (3, 6):
            assert f"{least_and_most(column, lorawan=lorawan)} times" in whole
    assert f"{least_and_most(7)} times sooner than uniform with ten" in whole
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"`auto` is {least_and_most(4)} times sooner than uniform with the best" in readme


@pytest.mark.parametrize("m", [1, 3, 20])
@pytest.mark.parametrize("link", [PAPER_UPLINK, RateLink(bits=1e6, max_power_w=1.0)])
def test_uniform_is_counted_as_the_policy_schedules_it(m, link):
    rng = np.random.default_rng(1)
    table = rng.exponential(2.0, (30, 12))
    table[rng.random(table.shape) < 0.2] = np.nan
    table[3] = np.nan  # a round without anybody
    on = RADIOS["radio"]("a radio", table, link)
    counted = RADIOS["uniform"](m, on)
    played = RADIOS["play"](Uniform(system=on.system(0.0), design=FixedSize(m)), on)
    assert counted.inverse == pytest.approx(played.inverse, rel=1e-12)
    assert counted.airtime_s == pytest.approx(played.airtime_s, rel=1e-12)
    np.testing.assert_allclose(counted.own_s, played.own_s, rtol=1e-12)
    if on.powered:
        np.testing.assert_allclose(counted.power, played.power, rtol=1e-12)


def test_the_server_waits_until_the_duty_cycle_is_kept():
    on = RADIOS["model"]("lorawan", 20, 1)
    schedule = RADIOS["uniform"](10, on)
    assert schedule.air_use(on, 0.0) > 1.0
    assert schedule.own_s.max() / schedule.round_s(on, 0.0) == pytest.approx(on.duty_cycle)
    rich = 1e6  # uploads of computation: there is nothing to wait for
    assert schedule.round_s(on, rich) == rich * on.median_s + schedule.airtime_s
