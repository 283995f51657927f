"""Runs with bounds on the influence of a device."""

import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MODEL, ROUNDS, read_manifest
from fedsched.runs.scenario import run_name, scenario_from


def scenario(**training):
    return scenario_from(
        {
            "run": {"rounds": 12, "seed": 3, "eval_every": 4, "checkpoint_every": 4},
            "policy": {"kind": "uniform", "draws": 4},
            "channel": {"devices": 12},
            "data": {"samples": 40, "alpha": 0.1},
            "training": {"model": "softmax", "steps": 2, "batch_size": 8, **training},
        }
    )


def bits(folder):
    return (folder / ROUNDS).read_bytes(), (folder / MODEL).read_bytes()


class StoppedError(Exception):
    """Stands for whatever ends a run early."""


def stop_at_six(now):
    if now.round == 6:
        raise StoppedError


@pytest.mark.slow
@pytest.mark.parametrize("bounds", ["clip", "robust"])
def test_a_stop_does_not_change_a_bit(tmp_path, bounds):
    run(scenario(bounds=bounds), tmp_path / "whole")
    with pytest.raises(StoppedError):
        run(scenario(bounds=bounds), tmp_path / "stopped", progress=stop_at_six)
    run(scenario(bounds=bounds), tmp_path / "stopped")
    assert bits(tmp_path / "stopped") == bits(tmp_path / "whole")
    assert read_manifest(tmp_path / "whole")["biased"]
    run(scenario(), tmp_path / "off")
    same = bits(tmp_path / "off")[1] == bits(tmp_path / "whole")[1]
    assert same is (bounds == "clip")  # where nothing is cut, nothing changes
    assert not read_manifest(tmp_path / "off")["biased"]


def test_bounds_are_part_of_the_name_of_a_run_unless_they_are_off():
    assert (
        run_name(scenario())
        == run_name(scenario(bounds="off"))
        != run_name(scenario(bounds="clip"))
    )


def test_bounds_that_cannot_be_are_refused():
    with pytest.raises(UnknownNameError, match=r"training\.bounds: 'clop' is not known"):
        scenario(bounds="clop")
    with pytest.raises(InputError, match="use bounds = 'clip' with it"):
        scenario(bounds="robust", aggregator="memory")
