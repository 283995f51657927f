import json
import shutil

import pytest
from click.testing import CliRunner
from tests.runs.report_runs import as_of_an_earlier_version

from fedsched.cli.advise import command
from fedsched.errors import InputError
from fedsched.runs.experiment import run as train
from fedsched.runs.manifest import MANIFEST
from fedsched.runs.scenario import run_name
from fedsched.runs.scenario_file import load_scenarios

SCENARIO = """
[run]
rounds = 6
eval_every = 1
[policy]
[channel]
devices = 6
[uplink]
bits = 1e6
[data]
samples = 60
[training]
model = "softmax"
steps = 1
[sweep]
policy = ["uniform"]
design = ["with-replacement", "fixed-size"]
m = [1, 2]
seeds = [1]
"""


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_candidates_are_ranked_and_the_trade_off_is_drawn(scenario, tmp_path):
    picture = tmp_path / "advice.svg"
    result = run(scenario, "--step", "tuned", "--rounds", 30, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert "uniform fixed-size m=2" in result.stdout and f"wrote {picture}" in result.stdout
    assert "time a round" in picture.read_text(encoding="utf-8")
    told = json.loads(run(scenario, "--step", "tuned", "--rounds", 30, "--json").stdout)
    times = [row["relative_time"] for row in told["candidates"]]
    assert told["weight"] == 1.0 and len(times) == 4
    assert times == sorted(times) and times[0] == 1.0


def test_computation_time_and_weight_change_the_ranking(scenario):
    few = json.loads(run(scenario, "--weight", 0, "--rounds", 30, "--json").stdout)
    assert few["candidates"][0]["draws"] == 1  # only airtime counts
    many = run(scenario, "--weight", 1, "--computation-s", 100, "--rounds", 30, "--json")
    assert json.loads(many.stdout)["candidates"][0]["draws"] == 2  # only rounds count


def test_the_first_is_named_for_every_computation_time(scenario, tmp_path):
    other = tmp_path / "lyapunov.toml"
    other.write_text(SCENARIO.replace('policy = ["uniform"]', 'policy = ["lyapunov"]'))
    asked = (scenario, other, "--weight", 0.1, "--rounds", 30)
    told = json.loads(run(*asked, "--json").stdout)
    ranges = told["best_by_computation"]
    assert set(ranges) == {"all", "lyapunov", "uniform"}
    changes = 0
    for among, parts in ranges.items():
        assert parts[0]["begin_s"] == 0.0 and parts[-1]["end_s"] is None
        assert [each["end_s"] for each in parts[:-1]] == [each["begin_s"] for each in parts[1:]]
        changes += len(parts) - 1
        for part in parts:
            # The ranking at a time within says the same.
            end_s = 2.0 * part["begin_s"] + 1.0 if part["end_s"] is None else part["end_s"]
            inside = 0.5 * (part["begin_s"] + end_s)
            there = json.loads(run(*asked, "--computation-s", inside, "--json").stdout)
            labels = [
                row["label"] for row in there["candidates"] if among in ("all", row["policy"])
            ]
            assert labels[0] == part["name"]
    assert changes > 0
    shown = run(*asked).stdout
    assert "First by computation time" in shown and "∞" in shown
    alone = json.loads(run(scenario, "--weight", 0.1, "--rounds", 30, "--json").stdout)
    assert set(alone["best_by_computation"]) == {"uniform"}


def test_schedules_that_differ_in_a_rarer_field_have_names_of_their_own(tmp_path):
    paths = []
    for name, field in (("empty", ""), ("budget", 'start = "budget"\n'), ("qmin", "qmin = 0.1\n")):
        text = SCENARIO.replace("[policy]\n", f"[policy]\n{field}")
        paths.append(tmp_path / f"{name}.toml")
        paths[-1].write_text(text.replace('policy = ["uniform"]', 'policy = ["lyapunov"]'))
    told = json.loads(run(*paths, "--weight", 0.1, "--rounds", 20, "--json").stdout)
    labels = [row["label"] for row in told["candidates"]]
    assert len(labels) == 12 and len(set(labels)) == 12
    assert "lyapunov fixed-size m=2 λ=100 V=100 start=budget" in labels
    assert "lyapunov fixed-size m=2 λ=100 V=100 qmin=0.1" in labels


@pytest.mark.slow
def test_the_ranking_is_compared_with_runs(scenario, tmp_path):
    for each in load_scenarios(scenario):
        train(each, tmp_path / "runs" / run_name(each))
    asked = (scenario, "--compare", tmp_path / "runs", "--target", 0.05, "--patience", 1)
    result = run(*asked)
    assert result.exit_code == 0, result.output
    assert "of 4 configurations" in result.stdout
    told = json.loads(run(*asked, "--json").stdout)
    assert told["compared"] == 4 and -1.0 <= told["rank_correlation"] <= 1.0
    assert all(row["measured_s"] > 0 for row in told["candidates"])
    # Too few to compare with are no reason to keep the ranking to oneself.
    asked = (scenario, "--compare", tmp_path / "runs", "--target", 0.999)
    result = run(*asked, "--plot", tmp_path / "advice.png")
    assert result.exit_code == 0, result.output
    assert "of 0 configurations: too few for one" in result.stdout
    told = json.loads(run(*asked, "--json").stdout)
    assert (told["compared"], told["rank_correlation"]) == (0, None)
    assert len(told["candidates"]) == 4


def test_a_patience_with_nothing_to_measure_is_refused(scenario):
    said = run(scenario, "--patience", 1).exception
    assert isinstance(said, InputError)
    assert "patience = 1" in str(said) and "--compare" in str(said)
    assert "patience must be" in str(run(scenario, "--patience", 0, "--compare", ".").exception)


def test_nothing_is_scheduled_where_there_is_nothing_to_compare_with(
    scenario, tmp_path, monkeypatch
):
    monkeypatch.setattr("fedsched.theory.advice.simulate", None)  # would fail if it were called
    said = run(scenario, "--weight", 1, "--compare", tmp_path).exception
    assert isinstance(said, InputError)
    assert "there is no run that can be read" in str(said)


def test_a_run_of_another_program_is_one_of_those_left_out(scenario, tmp_path):
    runs = tmp_path / "runs"
    for each in load_scenarios(scenario):
        train(each, runs / run_name(each))
    foreign = runs / "flower"
    shutil.copytree(next(runs.iterdir()), foreign)
    as_of_an_earlier_version(foreign)
    manifest = json.loads((foreign / MANIFEST).read_text())
    manifest["scenario"]["channel"] = {"max_age_rounds": 0}  # as fedsched.flower writes it
    (foreign / MANIFEST).write_text(json.dumps(manifest))
    asked = (scenario, "--compare", runs, "--target", 0.05, "--patience", 1, "--weight", 1)
    result = run(*asked, "--rounds", 20)
    assert result.exit_code == 0, result.exception
    assert "left out: 1 runs of another setting" in result.stderr
    assert "of 4 configurations" in result.stdout


def test_a_target_is_answered_without_training_in_units_of_the_best(scenario):
    result = run(scenario, "--weight", 1, "--rounds", 20, "--target", 0.8)
    assert result.exit_code == 0, result.output
    assert "test accuracy of 0.8 (or any other) are in units of the best" in result.stdout
    beyond = run(scenario, "--target", 1.5)
    assert isinstance(beyond.exception, InputError)
    assert "target must lie in (0, 1)" in str(beyond.exception)


def test_several_files_are_ranked_together(scenario, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(SCENARIO.replace('policy = ["uniform"]', 'policy = ["full", "uniform"]'))
    both = json.loads(run(scenario, other, "--weight", 1, "--rounds", 20, "--json").stdout)
    assert len(both["candidates"]) == 5
    assert run().exit_code == 2


def test_a_field_that_is_set_does_not_vary_in_a_sweep_nor_in_the_grid(scenario):
    quick = ("--step", "tuned", "--rounds", 5, "--json")
    rows = json.loads(run(scenario, *quick, "--set", "m=2").stdout)["candidates"]
    assert [(row["draws"], row["policy"]) for row in rows] == [(2, "uniform")] * 2
    scenario.write_text(SCENARIO.partition("[sweep]")[0])
    base = (scenario, *quick, "--set", "run.seed=1", "--set", "policy.draws=4")
    rows = json.loads(run(*base, "--set", "policy.kind=lyapunov").stdout)["candidates"]
    assert {(row["draws"], row["policy"]) for row in rows} == {(4, "lyapunov")}
    assert {row["lam"] for row in rows} == {1.0, 10.0, 100.0}
    rows = json.loads(run(*base, "--set", "policy.kind=uniform").stdout)["candidates"]
    assert {row["policy"] for row in rows} == {"uniform"}
    other = run(*base, "--set", "policy.kind=full")
    assert "the grid has lyapunov and uniform alone, got 'full'" in str(other.exception)
