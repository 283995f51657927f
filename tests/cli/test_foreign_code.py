"""Run folders of strangers: reading them runs nothing, and running them says what they bring."""

import sys

import pytest

from fedsched.cli import main

MODULE = """
from pathlib import Path
Path("{marker}").touch()
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
"""
SCENARIO = """
[run]
rounds = 3
seed = 1
eval_every = 1
[policy]
kind = "uniform"
draws = 2
[channel]
devices = 4
[data]
samples = 20
[training]
model = "their_module:Net"
steps = 1
batch_size = 4
"""


def given(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["fedsched", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_reading_runs_no_code_of_a_folder_and_running_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "it-ran"
    (tmp_path / "their_module.py").write_text(MODULE.format(marker=marker), encoding="utf-8")
    (tmp_path / "s.toml").write_text(SCENARIO, encoding="utf-8")
    assert not given(monkeypatch, "run", "s.toml", "--out", "r", "--workers", "1")
    assert "runs code of its own: training.model = their_module:Net" in capsys.readouterr().err
    assert marker.exists()  # so the marker is one
    marker.unlink()
    monkeypatch.delitem(sys.modules, "their_module")
    for words in (
        ("report", "r", "-o", "page.html"),
        ("times", "r", "--targets", "0.1"),
        ("pack", "r", "--out", "small"),
        ("pack", "r", "--resumable", "--out", "smaller"),
    ):
        assert not given(monkeypatch, *words), words
        assert not marker.exists() and "their_module" not in sys.modules, words
