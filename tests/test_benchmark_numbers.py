"""What the page of benchmarks says of the solver's speed is what ``make bench`` wrote."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEASURED = json.loads((ROOT / "benchmarks/results/scheduler.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")


def short(number):
    return f"{number:,.0f}" if number >= 10.0 else f"{number:.2g}"


@pytest.mark.parametrize(
    ("begins", "devices", "lam", "draws"),
    [
        ("| 100 |", 100, 100, 10),
        ("| 100, five draws |", 100, 100, 5),
        ("| 100, one draw |", 100, 100, 1),
        ("| 1,000 |", 1_000, 1_000, 10),
        ("| 1,000,000 |", 1_000_000, 1_000_000, 10),
    ],
)
def test_a_row_of_the_page_is_what_was_measured(begins, devices, lam, draws):
    [line] = [each for each in PAGE.splitlines() if each.startswith(begins)]
    [row] = [
        each
        for each in MEASURED["decisions"]
        if (each["devices"], each["lam"], each["draws"]) == (devices, lam, draws)
    ]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1] == f"{1 / row['seconds']:,.0f}"
    for cell, rival in zip(cells[2:], row["rivals"].values(), strict=False):
        over = "" if rival["finished"] else "over "
        assert cell.startswith(f"{over}{short(rival['ratio'])} times slower")
        worst = rival["worst_excess_percent"]
        assert ("above" in cell) == (worst >= 1e-7)
        assert worst < 1e-7 or f"{short(worst)} % above" in cell


def test_the_passes_of_exp_are_those_that_were_measured():
    passes = [round(each["passes"]) for each in MEASURED["passes"]]
    assert f"take {min(passes)} to {max(passes)} passes" in " ".join(PAGE.split())
