import json
import shutil

import pyarrow as pa
import pytest
from tests.runs.report_runs import manifest, table, write_grid, write_run

from fedsched.analysis.collect import collect_runs
from fedsched.errors import InputError
from fedsched.runs.manifest import MANIFEST, MODEL, ROUNDS


def names(found):
    return [run.name for run in found.runs]


def reasons(found):
    return {each.name: each.reason for each in found.left_out}


def test_runs_are_found_at_any_depth_and_named_below_what_they_share(tmp_path):
    write_run(tmp_path / "a" / "deep" / "one", manifest(seed=1), table(seed=1))
    write_run(tmp_path / "two", manifest(seed=2), table(seed=2))
    assert names(collect_runs([tmp_path])) == ["a/deep/one", "two"]
    assert names(collect_runs([tmp_path / "a"])) == ["one"]
    assert names(collect_runs([tmp_path / "two"])) == ["two"]
    twice = collect_runs([tmp_path / "two", tmp_path / "a", tmp_path])
    assert names(twice) == ["a/deep/one", "two"] and not twice.left_out


def test_the_better_of_two_runs_with_one_scenario_and_seed_stays(tmp_path):
    write_run(tmp_path / "a", manifest(), table(rounds=30))
    write_run(tmp_path / "b", manifest(), table(rounds=40))
    write_run(tmp_path / "c", manifest(), table(rounds=40))
    found = collect_runs([tmp_path])
    assert names(found) == ["b"]
    assert reasons(found) == {
        "a": "it has the scenario and the seed of b, which is as long or longer",
        "c": "it has the scenario and the seed of b, which is as long or longer",
    }


def test_a_run_that_is_still_written_counts_as_far_as_it_has_come(tmp_path):
    folder = write_run(tmp_path / "a", manifest(), table(), finished=False)
    log = folder / ROUNDS
    whole = log.read_bytes()
    log.write_bytes(whole[:-8] + b"\xff\xff\xff\xff\x10\x00")  # a batch that has just begun
    (run,) = collect_runs([tmp_path]).runs
    assert run.log.rounds == 60 and not run.log.finished


def test_every_bad_folder_is_one_line_and_the_good_ones_stay(tmp_path):
    write_grid(tmp_path / "good", seeds=(1,))
    bad = tmp_path / "bad"

    def copy(name):
        return shutil.copytree(tmp_path / "good" / "uniform-m1-seed1", bad / name)

    def change(name, **changes):
        path = copy(name) / MANIFEST
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    (copy("no-manifest") / MANIFEST).unlink()
    (copy("no-log") / ROUNDS).unlink()
    (copy("no-json") / MANIFEST).write_bytes(b"\xff{")
    cut = copy("cut") / ROUNDS
    cut.write_bytes(cut.read_bytes()[:-700])
    (copy("noise") / ROUNDS).write_bytes(b"not arrow at all, but long enough to be looked at")
    (copy("empty") / ROUNDS).write_bytes(b"")
    change("other-schema", schema=99)
    change("no-scenario", scenario=[1])
    change("no-versions", versions=None)
    change("no-seed", scenario={"policy": {"kind": "uniform"}})
    change("list", scenario={"run": {"seed": 1}, "policy": {"kind": ["uniform"]}})
    rows = table()
    write_run(bad / "unmeasured", manifest(), table(rounds=3, every=10), finished=False)
    write_run(bad / "columns", manifest(), rows.drop_columns(["device"]))
    infinite = pa.array([float("inf")] * 60)
    write_run(bad / "infinite", manifest(), rows.set_column(1, "airtime_s", infinite))
    none = pa.array([[]] * 60, pa.list_(pa.float64()))
    write_run(bad / "powerless", manifest(), rows.set_column(5, "group_power_w", none))

    found = collect_runs([tmp_path])
    assert names(found) == [
        f"good/{kind}-m{draws}-seed1" for kind in ("lyapunov", "uniform") for draws in (1, 10)
    ]
    said = {name.removeprefix("bad/"): reason for name, reason in reasons(found).items()}
    expected = {
        "no-manifest": "'bad/no-manifest' is not a run folder: manifest.json cannot be read",
        "no-log": "'bad/no-log/rounds.arrows' cannot be read",
        "no-json": "'bad/no-json/manifest.json' is damaged",
        "cut": "'bad/cut/rounds.arrows' is damaged",
        "noise": "'bad/noise/rounds.arrows' is damaged",
        "empty": "'bad/empty/rounds.arrows' is damaged",
        "other-schema": "'bad/other-schema' is of schema 99",
        "no-scenario": "'bad/no-scenario/manifest.json' is damaged: it has no scenario",
        "no-versions": "its manifest lacks the scenario or the versions",
        "no-seed": "its manifest names no seed: run.seed is None",
        "list": "policy.kind of its scenario is not one value",
        "unmeasured": "it has no measured accuracy yet",
        "columns": "its log cannot be read (KeyError",
        "infinite": "its accuracy or airtime holds numbers that are not finite",
        "powerless": "its power by groups of devices is missing or not finite",
    }
    assert said.keys() == expected.keys()
    for name, begin in expected.items():
        assert said[name].startswith(begin), (name, said[name])
        assert "\n" not in said[name] and str(tmp_path) not in said[name]


def test_power_that_is_not_a_number_counts_as_not_spent(tmp_path):
    power = pa.array([[float("nan"), 2.0]] * 60)
    rows = table().set_column(5, "group_power_w", power)
    write_run(tmp_path / "a", manifest(), rows)
    (run,) = collect_runs([tmp_path]).runs
    assert run.power_w[-1].tolist() == [0.0, 2.0]


def test_a_folder_without_runs_is_named_and_a_missing_one_refused(tmp_path):
    (tmp_path / "nothing").mkdir()
    assert list(reasons(collect_runs([tmp_path / "nothing"])).values()) == [
        "there is no run in this folder"
    ]
    with pytest.raises(InputError, match=r"there is no folder '.*absent'; name run folders"):
        collect_runs([tmp_path / "absent"])


def test_a_finished_run_is_told_by_its_model(tmp_path):
    folder = write_run(tmp_path / "a", manifest(), table())
    assert collect_runs([tmp_path]).runs[0].log.finished
    (folder / MODEL).unlink()
    assert not collect_runs([tmp_path]).runs[0].log.finished


def test_devices_that_join_later_have_spent_nothing_before(tmp_path):
    rows = table(rounds=4, seed=1, airtime_s=1.0, speed=0.1)
    spent = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    place = rows.column_names.index("group_power_w")
    rows = rows.set_column(place, "group_power_w", pa.array(spent))
    write_run(tmp_path / "grows", manifest("uniform", 1, 1), rows)
    (run,) = collect_runs([tmp_path]).runs
    assert run.power_w[-1].tolist() == [1.0, 2.0, 1.5]
