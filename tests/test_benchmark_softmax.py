"""The benchmarks' own softmax regression trains as the package does."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from fedsched.learning.pool import training_pool
from fedsched.runs.assembly import trainer_spec_of
from fedsched.runs.scenario_file import load_scenario

FILE = Path(__file__).parent.parent / "benchmarks" / "softmax.py"
SoftmaxPool = runpy.run_path(str(FILE))["SoftmaxPool"]


@pytest.mark.parametrize("alpha", ["inf", 0.0])
def test_its_updates_and_measurements_are_those_of_the_package(alpha):
    scenario = load_scenario({
        "run": {"rounds": 3, "seed": 4},
        "channel": {"devices": 5},
        "data": {"samples": 40, "alpha": alpha},
        "training": {"model": "softmax", "learning_rate": 0.05, "steps": 4, "batch_size": 15},
    })  # fmt: skip
    ours = SoftmaxPool(scenario, 5)
    with training_pool(trainer_spec_of(scenario, 5, "cpu"), workers=1) as pool:
        model = pool.initial_parameters
        np.testing.assert_array_equal(ours.initial_parameters, model)
        for t in range(2):
            both = zip(
                ours.train_cohort(model, [1, 4], t),
                pool.train_cohort(model, [1, 4], t),
                strict=True,
            )
            for own, theirs in both:
                np.testing.assert_allclose(own.delta, theirs.delta, atol=1e-6)
                assert own.loss == pytest.approx(theirs.loss, rel=1e-5)
                assert own.square_loss == pytest.approx(theirs.square_loss, rel=1e-5)
                model = model + theirs.delta
        own, theirs = ours.evaluate(model), pool.evaluate(model)
        assert own.accuracy == theirs.accuracy
        assert own.loss == pytest.approx(theirs.loss, rel=1e-5)
