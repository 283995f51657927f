"""What docs/compression.md shows was measured, and is of the compressors there are."""

import re
from pathlib import Path

import pytest

from fedsched.learning.compression import KINDS, Dithered, Identity, Natural, Ternary

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "benchmarks" / "results" / "compression.md").read_text(encoding="utf-8")
NUMBERS = 555_178


def rows(heading):
    """The rows of the table with this heading."""
    lines = PAGE[PAGE.index(heading) :].partition("\n\n")[0].splitlines()
    return lines[2:]


def test_the_table_is_what_was_measured():
    shown = rows("| compressor | bits a number | omega")
    assert len(shown) > 5
    assert set(shown) <= set(MEASURED.splitlines())


def test_what_one_scale_for_all_costs_is_what_was_measured():
    for name, product in (("largest magnitude", "25.6"), ("Euclidean norm", "227.3")):
        assert re.search(rf"one {name} for all, 4 bits .* {product} \|", MEASURED)
        assert f" {product.removesuffix('.3')}" in PAGE


@pytest.mark.parametrize("row", rows("| compressor | bits a number | omega"))
def test_sizes_theory_and_products_of_the_table_agree(row):
    name, bits, gaussian, omega, product = (each.strip(" `") for each in row.split("|")[1:-1])
    classes = {each.__name__: each for each in (Dithered, Identity, Natural, Ternary)}
    compressor = eval(name, classes)
    assert bits == f"{compressor.bits(NUMBERS) / NUMBERS:.3f}"
    assert gaussian == f"{compressor.gaussian_omega():.4f}"
    assert float(product) == pytest.approx((1 + float(omega)) * float(bits), abs=0.01)


def test_every_kind_is_listed():
    listed = re.findall(r"^\| `(\w+)\(", PAGE.partition("## Measured")[0], flags=re.MULTILINE)
    assert sorted(listed) == sorted(each.__name__ for each in KINDS.values())
