"""What a user reads when a file of a run is damaged: the file, and what to do."""

import os
import shutil

import pytest

from fedsched.runs.experiment import run
from fedsched.runs.manifest import MANIFEST, MODEL, ROUNDS
from fedsched.runs.runlog import FINISHED
from fedsched.runs.scenario import scenario_from

TABLE = {
    "run": {"rounds": 6, "seed": 1, "eval_every": 1, "checkpoint_every": 2},
    "policy": {"kind": "uniform", "draws": 2},
    "channel": {"devices": 5},
    "data": {"samples": 40},
    "training": {"model": "softmax", "steps": 1},
}
COMMANDS = {
    "report": ("report", "run", "-o", "page.html"),
    "times": ("times", "run", "--targets", "0.1"),
    "pack": ("pack", "run", "--out", "small"),
    "resume": ("run", "run"),
    "bound": ("bound", "run", "--devices", "2"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(scenario_from(TABLE), folder)
    return folder


@pytest.mark.parametrize("name", [MANIFEST, ROUNDS, MODEL, FINISHED])
@pytest.mark.parametrize("command", COMMANDS)
def test_damage_is_a_sentence_with_the_file_and_the_remedy(
    fedsched, finished, tmp_path, monkeypatch, command, name
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, "run")
    content = bytearray((finished / name).read_bytes())
    content[content.rindex(b"5") if name.endswith("json") else len(content) // 2] ^= 1
    (tmp_path / "run" / name).write_bytes(content)
    code, out, err = fedsched(*COMMANDS[command])
    assert code == 2, out
    assert name in err
    assert "run again" in err or "run the scenario again" in err
    assert "Traceback" not in err
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("name", [MANIFEST, ROUNDS])
def test_what_never_ends_is_not_read(fedsched, finished, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, "run")
    (tmp_path / "run" / name).unlink()
    os.mkfifo(tmp_path / "run" / name)
    code, _, err = fedsched("times", "run", "--targets", "0.1")
    assert code == 2
    assert f"{name}' is no file but a folder, a pipe or a device" in err
