"""Whatever happens to a file of a run, no command gives another answer without saying so."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.runs.report_runs import as_of_an_earlier_version

from fedsched.analysis.collect import collect_runs
from fedsched.cli import main
from fedsched.errors import FedschedError, InputError, RunLogError
from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MANIFEST, MODEL, ROUNDS, run_id
from fedsched.runs.pack import pack_run
from fedsched.runs.runlog import FINISHED, read_run
from fedsched.runs.scenario import scenario_from
from fedsched.theory.runs import _models

TABLE = {
    "run": {"rounds": 10, "seed": 3, "eval_every": 2, "checkpoint_every": 3},
    "policy": {"kind": "lyapunov", "draws": 2},
    "channel": {"kind": "correlated", "devices": 6},
    "data": {"samples": 20},
    "training": {"model": "softmax", "steps": 1, "batch_size": 4},
}
SCENARIO = scenario_from(TABLE)
OTHER = scenario_from(TABLE | {"run": {**TABLE["run"], "seed": 4}})


class StopError(Exception):
    """Stands for whatever ends a run early."""


def stopped(folder, scenario, after=7):
    def watch(now):
        if now.round == after:
            raise StopError

    with pytest.raises(StopError):
        run(scenario, folder, progress=watch)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of every kind, of one run and of another. Look, do not touch."""
    place = tmp_path_factory.mktemp("runs")
    for name, scenario in (("", SCENARIO), ("other-", OTHER)):
        run(scenario, place / f"{name}finished")
        stopped(place / f"{name}stopped", scenario)
        pack_run(place / f"{name}finished", place / f"{name}packed")
        pack_run(place / f"{name}stopped", place / f"{name}resumable", resumable=True)
    return place


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def table_of(folder):
    log = read_run(folder)
    return repr(log.table.to_pylist()), sorted(log.manifest.items()), log.finished


def reported(folder, _place):
    found = collect_runs([folder])
    if found.left_out:
        raise RunLogError(found.left_out[0].reason)
    return [table_of(each.log.folder) for each in found.runs]


def packed(folder, place):
    return table_of(pack_run(folder, place / "small")), table_of(folder)


def models(folder, _place):
    return {t: each.tobytes() for t, each in _models(read_run(folder)).items()}


def resumed(folder, _place):
    run(SCENARIO, folder)
    model = (folder / MODEL).read_bytes() if (folder / MODEL).exists() else b""
    return repr(read_run(folder).table.to_pylist()), model


KINDS = {  # kind of folder -> what commands do with it
    "finished": (reported, packed, models, resumed),
    "stopped": (reported, packed, resumed),
    "packed": (reported, packed, resumed),
    "resumable": (reported, packed, resumed),
}


def damages(content, rng, count):
    """Flips of single bits, cuts, zeros, and bytes too many."""
    for place in rng.integers(len(content), size=count).tolist():
        bit = 1 << int(rng.integers(8))
        yield content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
    for length in (0, 1, len(content) // 2, len(content) - 1):
        yield content[:length]
    yield bytes(len(content))
    yield content + content[-1:]


def copied(folder, target):
    return Path(shutil.copytree(folder, target))


def outcome(act, folder, place, caplog):
    """What a command answers, and the sentences with which it warns or refuses."""
    caplog.clear()
    try:
        answer = act(folder, place)
    except FedschedError as error:
        return None, str(error)
    return answer, "; ".join(record.getMessage() for record in caplog.records)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_noticed_or_changes_nothing(runs, tmp_path, kind, caplog):
    caplog.set_level(logging.WARNING)
    rng = np.random.default_rng(7)
    noticed = 0
    for act in KINDS[kind]:
        whole = act(copied(runs / kind, tmp_path / f"whole-{act.__name__}"), tmp_path / "a")
        for name in files(runs / kind):
            content = (runs / kind / name).read_bytes()
            for number, damaged in enumerate(damages(content, rng, 3 if act is resumed else 8)):
                place = tmp_path / f"{act.__name__}-{name}-{number}"
                folder = copied(runs / kind, place / "run")
                (folder / name).write_bytes(damaged)
                found, said = outcome(act, folder, place, caplog)
                if found != whole:
                    assert name in said, (act.__name__, name, number, said)  # it names the file
                    assert ";" in said, said  # and what to do, or what is done instead
                    noticed += 1
                shutil.rmtree(place)
    assert noticed > 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_run_is_noticed(runs, tmp_path, kind):
    for act in KINDS[kind]:
        for name in files(runs / kind):
            if name.startswith("checkpoint") and act not in (resumed, models):
                continue  # of a finished run nobody else reads it
            place = tmp_path / f"{act.__name__}-{name}"
            folder = copied(runs / kind, place / "run")
            shutil.copy(runs / f"other-{kind}" / name, folder / name)
            newest = sorted(folder.glob("checkpoint-*"))[-1:]
            if name.startswith("checkpoint") and (kind == "finished" or [folder / name] != newest):
                continue
            with pytest.raises(FedschedError) as refused:
                act(folder, place)
            said = str(refused.value)
            assert name in said or "holds a run with run.seed" in said, (act.__name__, said)


def test_a_checkpoint_of_another_run_is_not_gone_on_with(runs, tmp_path):
    folder = copied(runs / "stopped", tmp_path / "run")
    for path in folder.glob("checkpoint-*"):
        shutil.copy(runs / "other-stopped" / path.name, path)
    with pytest.raises(RunLogError, match=r"checkpoint-000000006.npz' belongs to the run"):
        run(SCENARIO, folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(RunLogError, match=r"checkpoint-000000006.npz' belongs to the run"):
        run(SCENARIO, folder)


@pytest.mark.parametrize("name", [ROUNDS, MANIFEST])
def test_a_log_of_another_run_is_noticed_before_the_first_checkpoint(runs, tmp_path, name):
    folder = copied(runs / "stopped", tmp_path / "run")
    for path in folder.glob("checkpoint-*"):
        path.unlink()
    assert not read_run(folder).verified
    shutil.copy(runs / "other-stopped" / name, folder / name)
    with pytest.raises(RunLogError, match=r"rounds.arrows' belongs to the run .*are mixed"):
        read_run(folder)


def test_a_lost_manifest_is_written_again(runs, tmp_path):
    folder = copied(runs / "stopped", tmp_path / "run")
    (folder / MANIFEST).unlink()
    run(SCENARIO, folder)
    assert table_of(folder) == table_of(runs / "finished")


def test_what_ended_is_written_again_if_it_is_deleted(runs, tmp_path):
    for names in ((MODEL,), (FINISHED,), (MODEL, FINISHED)):
        folder = copied(runs / "finished", tmp_path / "-".join(names))
        for name in names:
            (folder / name).unlink()
        assert not read_run(folder).finished
        run(SCENARIO, folder)
        for name in files(runs / "finished"):
            assert (folder / name).read_bytes() == (runs / "finished" / name).read_bytes()


def test_what_no_checkpoint_counts_is_not_part_of_the_run(runs, tmp_path):
    folder = copied(runs / "stopped", tmp_path / "run")
    content = (runs / "finished" / ROUNDS).read_bytes()
    (folder / ROUNDS).write_bytes(content)  # its last batches without their checkpoint
    assert read_run(folder).rounds == 6
    assert read_run(folder).verified


def test_a_run_of_an_earlier_version_is_read_packed_and_gone_on_with(runs, tmp_path):
    old = as_of_an_earlier_version(copied(runs / "finished", tmp_path / "old"))
    table, _, ended = table_of(old)
    assert (table, ended) == (table_of(runs / "finished")[0], True)
    assert not read_run(old).verified
    assert read_run(pack_run(old, tmp_path / "small")).verified
    part = as_of_an_earlier_version(copied(runs / "stopped", tmp_path / "part"))
    run(SCENARIO, part)
    assert table_of(part)[0] == table
    assert (part / MODEL).read_bytes() == (runs / "finished" / MODEL).read_bytes()
    assert read_run(part).verified
    longer = scenario_from(TABLE | {"run": {**TABLE["run"], "rounds": 14}})
    for folder in (old, part, copied(runs / "finished", tmp_path / "new")):
        run(longer, folder)
    assert table_of(old)[0] == table_of(part)[0] == table_of(tmp_path / "new")[0]


def test_checkpoints_of_an_earlier_version_without_a_manifest_are_refused(runs, tmp_path):
    part = as_of_an_earlier_version(copied(runs / "stopped", tmp_path / "part"))
    (part / MANIFEST).unlink()
    with pytest.raises(InputError, match=r"do not say what run they are of, and no manifest.json"):
        run(SCENARIO, part)


def test_a_checkpoint_is_a_plain_archive_that_names_its_run(runs):
    folder = runs / "stopped"
    with np.load(folder / "checkpoint-000000006.npz") as arrays:
        assert "parameters" in arrays.files
    saved = read_checkpoint(folder)
    assert saved.run == run_id(read_run(folder).manifest) != ""


# --- links -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".lock", ROUNDS])
def test_a_link_is_not_written_through(runs, tmp_path, name):
    folder = copied(runs / "stopped", tmp_path / "run")
    treasure = tmp_path / "treasure"
    mine = (folder / name).read_bytes() + b"mine"
    treasure.write_bytes(mine)
    (folder / name).unlink()
    (folder / name).symlink_to(treasure)
    with pytest.raises(InputError, match=r"is a link to .*remove the link"):
        run(SCENARIO, folder)
    assert treasure.read_bytes() == mine


@pytest.mark.parametrize("name", [MANIFEST, MODEL, FINISHED, "checkpoint-000000010.npz"])
def test_a_link_is_replaced_by_a_file(runs, tmp_path, name):
    folder = copied(runs / "stopped", tmp_path / "run")
    treasure = tmp_path / "treasure"
    there = (folder / name).read_text() if name == MANIFEST else "mine"
    treasure.write_text(there)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(treasure)
    longer = scenario_from(TABLE | {"run": {**TABLE["run"], "rounds": 12}})
    for scenario in (SCENARIO, longer):
        run(scenario, folder)
    assert treasure.read_text() == there
    assert not (folder / name).is_symlink()


# --- commands that were killed ---------------------------------------------------------------

KILLED = """
import os, sys
from pathlib import Path
real, calls, last = Path.replace, 0, int(sys.argv[1])
def dying(self, target):
    global calls
    calls += 1
    if calls == last: os._exit(9)
    return real(self, target)
Path.replace = dying
sys.argv = ["fedsched", *sys.argv[2:]]
from fedsched.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_pack_that_was_killed_is_repeated(runs, tmp_path, number):
    command = ["pack", str(runs / "stopped"), "--resumable", "--out", str(tmp_path / "small")]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(number), *command],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert ended.returncode == 9
    sys_argv, sys.argv = sys.argv, ["fedsched", *command]
    try:
        with pytest.raises(SystemExit) as done:
            main()
    finally:
        sys.argv = sys_argv
    assert not done.value.code
    small = tmp_path / "small" / "stopped"
    assert files(small) == files(runs / "resumable")
    for name in files(small):
        assert (small / name).read_bytes() == (runs / "resumable" / name).read_bytes()


@pytest.mark.slow
def test_a_report_that_was_killed_leaves_nothing_behind_once_repeated(runs, tmp_path):
    command = ["report", str(runs / "finished"), "-o", str(tmp_path / "page.html")]
    for number in (1, 0):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(number), *command],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        assert ended.returncode == (9 if number else 0)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
