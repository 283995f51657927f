"""The run folder of a federation."""

import subprocess
import sys

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdam
from tests.flower.loopback import MODEL, Loopback, arrays, run, same

from fedsched.errors import InputError
from fedsched.flower import folder as module
from fedsched.flower.folder import Origin, RunFolder
from fedsched.policies import make_policy
from fedsched.runs.checkpoint import read_checkpoint
from fedsched.solve.uplink import PAPER_UPLINK

ORIGIN = Origin(config={}, arrays="0", run_id=None, app=None)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"policy": "uniform"}, "policy.kind = 'lyapunov', this one has 'uniform'"),
        ({"seed": 6}, "run.seed = 5, this one has 6"),
        ({"draws": 3}, "policy.draws = 2, this one has 3"),
        ({"options": {"lam": 7.0}}, "this one has 7.0; policy.v = 200.0, this"),
        ({"optimiser": FedAdam()}, "training.optimiser = None, this one has 'FedAdam'"),
        ({"budget_w": 2.0}, "uplink.budget_w = 1.0, this one has 2.0"),
    ],
)
def test_a_folder_of_another_run_is_refused_and_left_as_it_is(tmp_path, other, words):
    run(Loopback(), tmp_path, 2, "lyapunov")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="choose another folder or delete this one") as caught:
        run(Loopback(), tmp_path, 3, **{"policy": "lyapunov", **other})
    assert words in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    run(Loopback(), tmp_path, 3, "lyapunov")  # and it is free again, while the error is still held


def test_objects_of_another_design_are_another_run(tmp_path):
    link = {"uplink": PAPER_UPLINK}
    run(Loopback(), tmp_path, 1, make_policy("lyapunov", draws=2, **link), **link)
    run(Loopback(), tmp_path, 2, make_policy("lyapunov", draws=2, **link), **link)
    with pytest.raises(InputError, match=r"policy.design = 'WithReplacement\(draws=2\)'"):
        run(Loopback(), tmp_path, 3, make_policy("lyapunov", draws=3, **link), **link)


@pytest.mark.parametrize(
    "other",
    [
        {**MODEL, "more": np.zeros(1, np.float32)},
        dict(list(MODEL.items())[:2]),
        {f"other.{name}": each for name, each in MODEL.items()},
        {**MODEL, "net.0.weight": MODEL["net.0.weight"].T.copy()},
    ],
)
def test_another_model_is_refused(tmp_path, other):
    run(Loopback(), tmp_path, 1, uplink=PAPER_UPLINK)
    with pytest.raises(InputError, match=r"holds a run with model = \[\['net.0.weight', 2, 3\]"):
        run(Loopback(), tmp_path, 2, uplink=PAPER_UPLINK, initial=other)


def test_a_second_server_on_the_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WAIT_S", 0.0)
    with (
        RunFolder(tmp_path, {"run": {"rounds": 1}}, {}, ORIGIN),
        pytest.raises(InputError, match="is being run by another process"),
        RunFolder(tmp_path, {"run": {"rounds": 1}}, {}, ORIGIN),
    ):
        pass


def test_a_run_can_be_lengthened(tmp_path):
    run(Loopback(), tmp_path / "a", 2)
    _, longer = run(Loopback(), tmp_path / "a", 4)
    _, whole = run(Loopback(), tmp_path / "b", 4)
    assert same(arrays(longer.arrays), arrays(whole.arrays))


def test_the_final_model_and_the_checkpoint_hold_every_array_by_name(tmp_path):
    _, done = run(Loopback(), tmp_path, 2)
    with np.load(tmp_path / "model.npz") as saved:
        assert same({name: saved[name] for name in saved.files}, arrays(done.arrays))
    memory = read_checkpoint(tmp_path).memory
    assert [name for name in memory if name.startswith("model.")] == [
        f"model.{n:06d}" for n in range(3)
    ]


WITHOUT_FLOWER = """
import sys
sys.modules["flwr"] = None
import fedsched
try:
    import fedsched.flower
except ImportError as error:
    print(error)
"""


def test_without_flower_the_sentence_names_the_extra():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FLOWER], capture_output=True, text=True, check=True
    )
    assert "pip install 'fedsched[flower]'" in done.stdout
    assert "fedsched.flower needs the package 'flwr'" in done.stdout


def test_importing_fedsched_does_not_import_flower():
    code = "import sys, fedsched, fedsched.cli; print([m for m in sys.modules if 'flwr' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_model_keeps_the_names_of_its_arrays_whatever_they_are(tmp_path):
    model = {"file": np.arange(3, dtype=np.float32), "net.0/bias": np.int64(7)}
    with RunFolder(tmp_path, {"run": {"seed": 1}}, {}, ORIGIN) as folder:
        folder.finish(model)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as saved:
        assert saved.files == list(model)
        assert saved["file"].tolist() == [0.0, 1.0, 2.0]
        assert saved["net.0/bias"] == 7
