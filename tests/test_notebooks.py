"""Notebooks: what they keep is what their cells print and draw."""

import re
import runpy
from pathlib import Path

import nbformat
import pytest

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "docs" / "notebooks.py"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def outputs(notebook):
    """What each code cell printed, and how many pictures it drew."""
    for cell in (each for each in notebook.cells if each.cell_type == "code"):
        printed = "".join(each.text for each in cell.outputs if each.output_type == "stream")
        yield printed, sum(each.output_type == "display_data" for each in cell.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("path", TOOL["NOTEBOOKS"], ids=lambda path: path.stem)
def test_a_notebook_keeps_what_a_run_of_it_makes(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert any(drawn for _, drawn in outputs(kept))
    for (old, old_drawn), (new, drawn) in zip(
        outputs(kept), outputs(TOOL["executed"](path)), strict=True
    ):
        assert (NUMBER.sub("#", new), drawn) == (NUMBER.sub("#", old), old_drawn)
        numbers = [float(each) for each in NUMBER.findall(old)]
        # Training has other last digits on other processors, and curves are noisy.
        assert [float(each) for each in NUMBER.findall(new)] == pytest.approx(numbers, rel=0.3)


def test_there_are_notebooks():
    assert len(TOOL["NOTEBOOKS"]) >= 2
