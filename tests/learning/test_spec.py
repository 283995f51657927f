import subprocess
import sys

import numpy as np
import pytest

from fedsched.errors import MissingExtraError
from fedsched.learning.dataset import load_dataset
from fedsched.learning.spec import TrainerSpec


def spec(**changes):
    given = {
        "dataset": "digits",
        "model": "softmax",
        "alpha": 1.0,
        "devices": 4,
        "steps": 2,
        "batch_size": 5,
        "learning_rate": 0.1,
        "seed": 3,
    }
    return TrainerSpec(**(given | changes))


def test_the_same_spec_builds_the_same_trainer_from_a_name_or_from_the_data_themselves():
    named, held = spec().build(), spec(dataset=load_dataset("digits")).build()
    x = named.initial_parameters
    assert x.tobytes() == held.initial_parameters.tobytes()
    assert named.train(x, 1, 0).delta.tobytes() == held.train(x, 1, 0).delta.tobytes()


def test_every_setting_reaches_the_trainer():
    x = spec().build().initial_parameters
    plain = spec().build().train(x, 1, 0).delta.tobytes()
    for change in (
        {"alpha": np.inf},
        {"size": 20},
        {"size": np.array([10, 20, 30, 40])},
        {"steps": 3},
        {"batch_size": 6},
        {"learning_rate": 0.2},
        {"seed": 4},
    ):
        assert spec(**change).build().train(x, 1, 0).delta.tobytes() != plain, change


def test_a_spec_is_made_without_loading_torch():
    script = (
        "import sys\nimport fedsched.learning.pool, fedsched.learning.aggregation\n"
        "import fedsched.learning.cifar10\n"
        "assert not {'torch', 'sklearn', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_training_without_torch_is_a_sentence_also_with_data_of_ones_own(monkeypatch, tmp_path):
    images, labels = np.zeros((4, 1, 4, 4), np.uint8), np.arange(4) % 2
    arrays = {"train_images": images, "test_images": images}
    path = tmp_path / "own.npz"
    np.savez(path, **arrays, train_labels=labels, test_labels=labels)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"training needs .*'torch'.*fedsched\[torch\]"):
        spec(dataset=str(path)).build()
