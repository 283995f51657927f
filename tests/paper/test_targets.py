"""Every figure and table of the paper, at the smallest scale, through the command line."""

import csv
import dataclasses
import json
import math
import shutil
import tomllib
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from fedsched.analysis.groups import group_runs
from fedsched.cli.reproduce import command
from fedsched.errors import InputError, UnknownNameError
from fedsched.paper import published
from fedsched.paper.scales import make_scale
from fedsched.paper.targets import TARGETS
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import run_name
from fedsched.runs.scenario_file import expand

pytestmark = pytest.mark.slow

SMOKE = make_scale("smoke", None)
# Curves and legend entries each panel must have; the budget and the envelope are counted.
CURVES = {
    "convergence": [6, 6, 6, 6],
    "rounds": [6, 6],
    "data-heterogeneity": [6, 6],
    "homogeneous": [8, 8],
    "effect-of-v": [5],
}


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    arguments = ["all", "--scale", "smoke", "--out", str(folder), "--workers", "1"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


def product(target, folder):
    runs = [read_run(folder / "runs" / run_name(each)) for each in target.scenarios(SMOKE)]
    return target.make(SMOKE, group_runs(runs))


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_leaves_its_picture_numbers_and_scenarios(reproduced, name):
    folder = reproduced / name
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(folder / "figure.svg")
    with (folder / "numbers.csv").open() as file:
        assert list(csv.DictReader(file))
    written = sorted(folder.glob("scenario-*.toml"))
    assert len(written) == len(TARGETS[name].tables(SMOKE))
    there = {run_name(s) for file in written for s in expand(tomllib.loads(file.read_text()))}
    assert there == {run_name(s) for s in TARGETS[name].scenarios(SMOKE)}


@pytest.mark.parametrize("name", TARGETS)
def test_every_panel_has_axes_names_a_legend_and_the_right_number_of_curves(reproduced, name):
    figure = product(TARGETS[name], reproduced).figure
    for place, axis in enumerate(figure.axes):
        assert axis.get_xlabel()
        assert axis.get_title(loc="left") or axis.get_title()
        if name in CURVES:
            assert len(axis.get_legend().get_texts()) == CURVES[name][place]
        if not name.startswith("table"):
            assert axis.get_ylabel()
            assert axis.get_legend() is not None


def test_the_title_says_how_many_seeds_there_are_not_how_many_were_asked_for(reproduced):
    target = TARGETS["convergence"]
    logs = [read_run(reproduced / "runs" / run_name(each)) for each in target.scenarios(SMOKE)]
    groups = group_runs(logs)
    asked = dataclasses.replace(SMOKE, seeds=(1, 2, 3))

    def title(groups):
        return target.make(asked, groups).figure.get_suptitle()

    assert ", one seed" in title(groups)
    twice = [dataclasses.replace(group, logs=group.logs * 2) for group in groups]
    assert ", mean of 2 seeds" in title(twice)
    assert ", mean of 1 to 2 seeds" in title([*twice[:-1], groups[-1]])


def test_nothing_is_run_twice(reproduced):
    before = {path: path.stat().st_mtime_ns for path in reproduced.glob("runs/*/model.npz")}
    arguments = ["rounds", "--scale", "smoke", "--out", str(reproduced), "--workers", "1"]
    done = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    about = json.loads(done.stdout)
    assert about["pictures"] == {"rounds": str(reproduced / "rounds" / "figure.png")}
    assert about["runs"] == 6
    assert before == {path: path.stat().st_mtime_ns for path in reproduced.glob("runs/*/model.npz")}
    assert len(before) == 72


def test_uniform_is_trained_over_one_channel_and_serves_both(reproduced):
    """Its cohorts do not depend on the channel; what it takes over is the same to the bit."""
    pairs = {}
    for folder in (reproduced / "runs").iterdir():
        log = read_run(folder)
        scenario = log.manifest["scenario"]
        if scenario["policy"]["kind"] == "uniform":
            key = scenario["policy"]["draws"], scenario["data"]["alpha"], scenario["run"]["seed"]
            pairs.setdefault(key, {})[scenario["channel"]["kind"]] = log
    both = [pair for pair in pairs.values() if len(pair) == 2]
    assert len(both) == 9  # three numbers of draws, three alphas
    for pair in both:
        first, second = pair["heterogeneous"], pair["homogeneous"]
        assert second.manifest["training_of"] == first.folder.name
        assert "training_of" not in first.manifest
        for name in ("device", "weight"):
            assert first.lists(name) == second.lists(name)
        for name in ("train_loss", "test_loss", "test_accuracy"):
            np.testing.assert_array_equal(first.column(name), second.column(name))
        assert first.column("airtime_s").sum() != second.column("airtime_s").sum()


def test_the_papers_numbers_stand_beside_ours(reproduced):
    rows = product(TARGETS["convergence"], reproduced).rows
    ours = [row for row in rows if row["draws"] == 10 and row["computation_s"] == 0.0]
    assert [row["paper_speedup"] for row in ours] == [8.5, None]
    assert [row["paper_seconds"] for row in ours] == [5_339.0, 45_748.0]
    table = product(TARGETS["table-heterogeneous"], reproduced).rows
    printed = [row for row in table if row["source"] == "paper"]
    assert len(printed) == sum(
        len(rows) for (channel, *_), rows in published.BEST_CONFIGURATIONS.items()
        if channel == "heterogeneous"
    )  # fmt: skip
    assert {row["target"] for row in printed} == set(SMOKE.targets.values())


def test_ranges_of_best_configurations_tile_the_axis(reproduced):
    rows = product(TARGETS["table-homogeneous"], reproduced).rows
    for policy in ("lyapunov", "uniform"):
        ours = [
            row for row in rows
            if (row["source"], row["policy"], row["alpha"]) == ("ours", policy, math.inf)
        ]  # fmt: skip
        assert ours[0]["from_s"] == 0.0
        assert ours[-1]["to_s"] == math.inf
        assert [row["to_s"] for row in ours[:-1]] == [row["from_s"] for row in ours[1:]]


def test_a_configuration_without_rivals_is_not_called_the_best(reproduced):
    target = TARGETS["table-homogeneous"]
    runs = [read_run(reproduced / "runs" / run_name(each)) for each in target.scenarios(SMOKE)]

    def rivals(*draws):
        some = [
            log for log in runs
            if log.manifest["scenario"]["policy"]["kind"] == "uniform"
            and log.manifest["scenario"]["policy"]["draws"] in draws
        ]  # fmt: skip
        rows = target.make(SMOKE, group_runs(some)).rows
        return [row for row in rows if row["source"] == "ours"]

    assert rivals(1, 5) and not rivals(1)


def test_an_unknown_target_or_scale_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'convergence'"):
        CliRunner().invoke(command, ["convergense"], catch_exceptions=False)
    with pytest.raises(UnknownNameError, match="did you mean 'paper'"):
        CliRunner().invoke(command, ["rounds", "--scale", "papr"], catch_exceptions=False)
    with pytest.raises(InputError, match="address: 'auto' is that of a Ray cluster"):
        CliRunner().invoke(command, ["rounds", "--address", "auto"], catch_exceptions=False)


@pytest.mark.parametrize("printed", ["fig5", "Fig. 5", "figure-5"])
def test_what_the_paper_calls_a_figure_is_a_name_of_it(reproduced, printed):
    arguments = [printed, "--scale", "smoke", "--out", str(reproduced), "--draw", "--json"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert set(json.loads(done.stdout)["pictures"]) == {"rounds"}


def drawn(folder, *arguments):
    """What `reproduce rounds --draw` says."""
    arguments = ["rounds", "--scale", "smoke", "--out", str(folder), "--draw", *arguments]
    return CliRunner().invoke(command, arguments, catch_exceptions=False).output


def test_drawing_runs_nothing_and_takes_runs_as_they_stand(reproduced, tmp_path):
    with pytest.raises(InputError, match="none of the 6 runs of rounds is in"):
        drawn(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    some = run_name(TARGETS["rounds"].scenarios(SMOKE)[0])
    shutil.copytree(reproduced / "runs" / some, tmp_path / "runs" / some)
    (tmp_path / "runs" / some / "model.npz").unlink()  # not finished
    assert "\n1 run, " in drawn(tmp_path)
    assert (tmp_path / "rounds" / "figure.png").is_file()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [some]


def test_seeds_are_chosen_by_name(reproduced, tmp_path):
    with pytest.raises(InputError, match="none of the 6 runs of rounds is in"):
        drawn(tmp_path, "--seeds", "2")
    assert "6 runs" in drawn(reproduced, "--seeds", "1")
    with pytest.raises(InputError, match=r"seeds must be whole numbers .* got '1;2'"):
        drawn(tmp_path, "--seeds", "1;2")


def test_another_target_is_asked_of_the_same_runs_beside_the_papers(reproduced):
    own = {path: path.read_bytes() for path in reproduced.glob("*/numbers.csv")}
    assert "6 runs" in drawn(reproduced, "--target", "0.4")
    with (reproduced / "rounds-to-0.4" / "numbers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["target"] for row in rows} == {"0.4"}
    # The paper's are for its own target.
    assert {row["paper_seconds"] + row["paper_speedup"] for row in rows} == {""}
    asked_for = dataclasses.replace(SMOKE, paper_beside=False)
    target = TARGETS["table-heterogeneous"]
    runs = [read_run(reproduced / "runs" / run_name(each)) for each in target.scenarios(SMOKE)]
    made = target.make(asked_for, group_runs(runs))
    assert {row["source"] for row in made.rows} == {"ours"}
    assert {row["seeds"] for row in made.rows} == {1}
    assert "paper" not in made.figure.axes[0].get_title()
    arguments = ["data-heterogeneity", "--scale", "smoke", "--draw", "--out", str(reproduced)]
    CliRunner().invoke(command, [*arguments, "--target", "0.4"], catch_exceptions=False)
    with (reproduced / "data-heterogeneity-to-0.4" / "numbers.csv").open() as file:
        asked = {row["alpha"]: row["target"] for row in csv.DictReader(file)}
    assert asked == {"inf": "0.4", "1.0": "0.4", "0.0": "0.4"}
    assert own
    assert own == {path: path.read_bytes() for path in own}
    with pytest.raises(InputError, match=r"target must lie in \(0, 1\), got 77"):
        drawn(reproduced, "--target", "77")
