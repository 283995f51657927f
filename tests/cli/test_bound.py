import json

import pytest
from click.testing import CliRunner

from fedsched.cli.bound import command
from fedsched.runs.experiment import run as train
from fedsched.runs.scenario import scenario_from


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.mark.slow
def test_the_counterexample_is_drawn_and_told(tmp_path):
    picture = tmp_path / "counter.svg"
    result = run("--counterexample", "--plot", picture)
    assert result.exit_code == 0, result.output
    assert f"wrote {picture}" in result.stdout
    text = picture.read_text(encoding="utf-8")
    assert "printed bound" in text and "corrected bound" in text
    rows = json.loads(run("--counterexample", "--json").stdout)["counterexample"]
    assert all(row["true"] <= row["corrected"] for row in rows)
    smallest = min(rows, key=lambda row: row["learning_rate"])
    assert smallest["true"] > 100 * smallest["printed"]


def test_something_must_be_asked_for():
    assert run().exit_code == 2
    both = run("somewhere", "--counterexample")
    assert both.exit_code == 2 and "one of the two" in both.output


TABLE = {
    "run": {"rounds": 3, "seed": 1},
    "policy": {"kind": "uniform", "draws": 2},
    "channel": {"devices": 5},
    "data": {"samples": 40},
    "training": {"model": "softmax", "steps": 1},
}


@pytest.mark.slow
def test_a_run_and_its_bound_are_told_and_drawn(tmp_path):
    train(scenario_from(TABLE), tmp_path / "run")
    picture = tmp_path / "bound.svg"
    result = run(tmp_path / "run", "--devices", 2, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert "as printed (false)" in result.stdout and "mean 1/q" in result.stdout
    assert "measured" in picture.read_text(encoding="utf-8")
    assert "run.stop_accuracy" not in result.stdout
    told = json.loads(run(tmp_path / "run", "--devices", 2, "--json").stdout)
    assert told["ended_early"] is False
    assert told["kappa"] == pytest.approx(1.215278, rel=1e-6)  # at most 5/4
    assert told["measured"]["round"] == [0, 3]


@pytest.mark.slow
def test_a_length_that_chance_chose_is_said(tmp_path):
    ends = {"rounds": 50, "seed": 1, "eval_every": 1, "stop_accuracy": 0.01}
    train(scenario_from({**TABLE, "run": ends}), tmp_path / "run")
    said = run(tmp_path / "run", "--devices", 2)
    assert said.exit_code == 0, said.output
    assert "chance chose its 5 rounds" in " ".join(said.stdout.split())
    assert json.loads(run(tmp_path / "run", "--devices", 2, "--json").stdout)["ended_early"] is True
