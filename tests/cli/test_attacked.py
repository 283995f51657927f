"""What ended in a traceback once: each input is refused in a sentence, or does no harm."""

import os
import subprocess
import sys

import pytest

TABLE = """
[run]
rounds = 2
seed = 1
[policy]
kind = "uniform"
draws = 2
[channel]
devices = 4
[data]
samples = 20
[training]
model = "{model}"
steps = 1
batch_size = 4
"""
TRAIN = ("run", "s.toml", "--out", "r", "--workers", "1")
REFUSED = {
    "a NUL in the name of a scenario": ("run", "a\0b.toml"),
    "a NUL in the name of a run": ("report", "a\0b"),
    "a NUL in the name of a trace": ("schedule", "--channel", "a\0.csv"),
    "a key of 2,000 parts": (*TRAIN, "--set", "a." * 2000 + "b=1"),
    "a huge learning rate": (*TRAIN, "--set", "training.learning_rate=1e100"),
    "a huge batch": (*TRAIN, "--set", f"training.batch_size={2**63 - 1}"),
    "more samples than numbers": (*TRAIN, "--set", f"data.samples={2**63 - 1}"),
    "a model that ends Python": (*TRAIN, "--set", "training.model=builtins:exit"),
}
DONE = {
    "the smallest floor": ("schedule", "--rounds", "2", "--policy", "lyapunov", "--qmin", "1e-308"),
    "an update of half a gigabyte": (
        "advise", "s.toml", "--rounds", "1", "--set", "uplink.bits=4.3e9",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(TABLE.format(model="softmax"))


@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_an_attack_ends_in_a_sentence(fedsched, what):
    code, _, err = fedsched(*REFUSED[what])
    assert code == 2 and err.strip() and "Traceback" not in err
    assert "\0" not in err


@pytest.mark.slow
@pytest.mark.parametrize("what", DONE)
def test_an_attack_that_is_none_ends_well(fedsched, what):
    code, out, err = fedsched(*DONE[what])
    assert code == 0, err
    assert out and "nan" not in out


@pytest.mark.slow
@pytest.mark.parametrize("words", [("bound", "--counterexample"), ("advise", "s.toml", "--rounds",
                                                                   "1")])  # fmt: skip
def test_a_terminal_without_greek_gets_what_it_can_show(words):
    done = subprocess.run(
        [sys.executable, "-m", "fedsched", *words], capture_output=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    )  # fmt: skip
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert done.stdout.isascii()


def test_a_strangers_scenario_is_checked_without_running_any_of_it(fedsched, tmp_path):
    marker = tmp_path / "it-ran"
    (tmp_path / "theirs.py").write_text(f"open({str(marker)!r}, 'w')\ndef Net(): ...\n")
    (tmp_path / "t.toml").write_text(TABLE.format(model="theirs:Net"))
    code, out, err = fedsched("run", "t.toml", "--check")
    assert code == 0 and "training.model = theirs:Net" in err and "read it first" in out
    assert not marker.exists() and "theirs" not in sys.modules
    code, out, _ = fedsched("run", "s.toml", "--check")
    assert code == 0 and "it is sound, brings no code of its own, and makes 1 run" in out
    assert not (tmp_path / "r").exists()
