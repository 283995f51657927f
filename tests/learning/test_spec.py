import subprocess
import sys

import numpy as np

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
