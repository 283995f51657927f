import dataclasses
import json

import pytest
from click.testing import CliRunner
from tests.runs.report_runs import manifest, table, write_grid, write_run

from fedsched.cli.pack import command
from fedsched.errors import InputError
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MODEL
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from


def pack(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


def test_a_packed_run_reads_the_same_and_has_no_model(tmp_path):
    write_grid(tmp_path / "runs", seeds=(1, 2))
    said = pack(tmp_path / "runs", "--out", tmp_path / "small").output
    assert "wrote 8 runs to" in said
    assert "not verified: 8 runs without a checksum" in said
    again = pack(tmp_path / "small", "--out", tmp_path / "smaller").output
    assert again.startswith("wrote 8 runs to")  # copies have checksums
    about = json.loads(pack(tmp_path / "small", "--out", tmp_path / "s", "--json").stdout)
    assert about["runs"] == sorted(each.name for each in (tmp_path / "runs").iterdir())
    for folder in (tmp_path / "runs").iterdir():
        whole, small = read_run(folder), read_run(tmp_path / "small" / folder.name)
        assert small.table.column_names == whole.table.column_names
        # What is rounded, and how far, is tested beside pack_run.
        rounded = ("group_power_w", "mean_power_w")
        exact = [name for name in whole.table.column_names if name not in rounded]
        assert small.table.select(exact).equals(whole.table.select(exact))
        assert small.finished == whole.finished
        assert not (tmp_path / "small" / folder.name / MODEL).exists()
        kept = {k: v for k, v in small.manifest.items() if k in whole.manifest}
        assert kept == whole.manifest
        assert small.manifest.keys() - kept.keys() == {"packed_finished", "packed_sha256", "sha256"}


def test_runs_are_not_packed_over_themselves(tmp_path):
    write_grid(tmp_path, seeds=(1,))
    with pytest.raises(InputError, match=r"holds a run, and not a packed copy of .*name another"):
        pack(tmp_path, "--out", tmp_path)


def test_copies_below_the_runs_are_not_packed_in_their_place(tmp_path):
    write_grid(tmp_path, seeds=(1,), kinds={("uniform", 1): (0.1, 1.0)})
    for out in ("small", "small", "another"):
        said = pack(tmp_path, "--out", tmp_path / out)
        assert "wrote 1 run to" in said.output
    # Of two that are equally long the run itself is the one to copy.
    assert "left out: small/uniform-m1-seed1: it has the scenario and the seed of" in said.output


def test_a_run_that_was_not_measured_yet_is_packed(tmp_path):
    never = table(rounds=8, every=100)
    write_run(tmp_path / "runs" / "first", manifest(), never, finished=False)
    pack(tmp_path / "runs", "--out", tmp_path / "small")
    assert read_run(tmp_path / "small" / "first").rounds == 8


def test_another_run_of_the_same_name_is_not_packed_over(tmp_path):
    kinds = {("uniform", 1): (0.1, 1.0)}
    for place, seed in (("a", 1), ("b", 2)):
        write_grid(tmp_path / place, seeds=(seed,), kinds=kinds)
        (tmp_path / place / f"uniform-m1-seed{seed}").rename(tmp_path / place / "first")
    pack(tmp_path / "a", "--out", tmp_path / "small")
    pack(tmp_path / "a", "--out", tmp_path / "small")  # once more: it is the same run
    for there in ("small", "b"):
        before = read_run(tmp_path / there / "first").manifest
        other = "b" if there == "small" else "a"
        with pytest.raises(InputError, match="would be written over it; name another folder"):
            pack(tmp_path / other, "--out", tmp_path / there)
        assert read_run(tmp_path / there / "first").manifest == before


def test_a_copy_that_can_go_on_is_made_anew_until_it_has_gone_on(tmp_path):
    scenario = scenario_from(
        {
            "run": {"rounds": 6, "seed": 1, "checkpoint_every": 2, "eval_every": 1},
            "policy": {"kind": "uniform", "draws": 2},
            "channel": {"kind": "homogeneous", "devices": 6},
            "data": {"samples": 30},
            "training": {"model": "softmax", "steps": 1, "batch_size": 4},
        }
    )
    run(scenario, tmp_path / "runs" / "first")
    (tmp_path / "runs" / "first" / MODEL).unlink()  # as if it had been stopped before its end
    copies = [tmp_path / "runs", "--out", tmp_path / "small", "--resumable"]
    pack(*copies)
    pack(*copies)  # nothing was done in it yet
    copy = tmp_path / "small" / "first"
    assert rounds_done(copy) == 6
    last = "checkpoint-000000006.npz"
    whole = (tmp_path / "runs" / "first" / last).stat().st_size
    assert (copy / last).stat().st_size < whole  # compressed, and it goes on all the same
    with pytest.raises(InputError, match="holds a run, and not a packed copy of"):
        pack(tmp_path / "small", "--out", tmp_path / "small")  # would lose the checkpoint
    run(dataclasses.replace(scenario, run=dataclasses.replace(scenario.run, rounds=8)), copy)
    with pytest.raises(InputError, match="holds a run, and not a packed copy of"):
        pack(*copies)


def test_nothing_to_pack_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no run to pack in"):
        pack(tmp_path / "empty", "--out", tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        pack(tmp_path / "none", "--out", tmp_path / "small")


def test_runs_of_one_name_are_not_written_over_each_other(tmp_path):
    write_grid(tmp_path / "a", seeds=(1,), kinds={("uniform", 1): (0.1, 1.0)})
    write_grid(tmp_path / "b", seeds=(2,), kinds={("uniform", 1): (0.1, 1.0)})
    (tmp_path / "b" / "uniform-m1-seed2").rename(tmp_path / "b" / "uniform-m1-seed1")
    with pytest.raises(InputError, match="several folders are called 'uniform-m1-seed1'"):
        pack(tmp_path, "--out", tmp_path / "small")


def test_a_run_is_not_the_folder_of_its_copy(tmp_path):
    write_grid(tmp_path / "runs", seeds=(1,))
    folder = tmp_path / "runs" / "uniform-m1-seed1"
    with pytest.raises(InputError, match="is one of the runs; name a folder for the copies"):
        pack(folder, "--out", folder)
    assert not (folder / folder.name).exists()
