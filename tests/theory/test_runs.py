import sys
from itertools import islice

import numpy as np
import pytest
from tests.runs.report_runs import as_of_an_earlier_version

from fedsched.errors import InputError, MissingExtraError, RunLogError
from fedsched.learning.dataset import load_dataset
from fedsched.learning.partition import Partition, index_by_class
from fedsched.runs.assembly import schedule_of
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MODEL
from fedsched.runs.pack import pack_run
from fedsched.runs.scenario import scenario_from
from fedsched.theory.correlation import correlation_factor
from fedsched.theory.runs import bound_of_run, schedule_probabilities

TABLE = {
    "run": {"rounds": 8, "seed": 3, "eval_every": 8, "checkpoint_every": 3},
    "policy": {"kind": "lyapunov", "draws": 2},
    "channel": {"devices": 6},
    "data": {"samples": 60, "alpha": 1.0},
    "training": {"model": "softmax", "steps": 2, "learning_rate": 0.001},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "one"
    run(scenario_from(TABLE), place)
    return place


@pytest.mark.slow
def test_the_bound_of_a_run_takes_its_schedule_and_its_gradients(folder):
    found = bound_of_run(folder, devices=3, batches=8, replay_every=1)
    assert found.measured_round.tolist() == list(range(9))
    # At the last model by hand: softmax regression has its gradient in closed form.
    dataset = load_dataset("digits")
    partition = Partition(
        index=index_by_class(dataset.train_labels, 10), alpha=1.0, size=60, devices=6, seed=3
    )
    samples = np.concatenate([partition.indices(n) for n in range(6)])
    with np.load(folder / MODEL) as arrays:
        flat = arrays["parameters"].astype(np.float64)
    x = (dataset.train_images[samples].reshape(360, -1) - dataset.mean[0]) / dataset.deviation[0]
    logits = x @ flat[:640].reshape(10, 64).T + flat[640:]
    chance = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = chance / chance.sum(axis=1, keepdims=True) - np.eye(10)[dataset.train_labels[samples]]
    by_hand = ((error.T @ x / 360) ** 2).sum() + (error.mean(axis=0) ** 2).sum()
    assert found.measured_gradient_sq[-1] == pytest.approx(by_hand, rel=1e-4)
    q = schedule_probabilities(scenario_from(TABLE), bits=650 * 32, rounds=8)
    assert 1.0 < found.kappa == correlation_factor(q, 2) < 2.0
    decisions = [each.decision for each in islice(schedule_of(scenario_from(TABLE), 650), 8)]
    drift = np.mean([0.5 * ((each.expected_power_w - 1.0) ** 2).sum() for each in decisions])
    assert found.realised_drift_gap == pytest.approx(drift / 100.0)
    assert found.as_dict()["realised_drift_gap"] == found.realised_drift_gap
    assert found.corrected().total > found.measured_gradient_sq.mean()
    assert found.inverse.min() >= 1 / found.least_probability / 6


@pytest.mark.slow
def test_without_replay_only_the_models_of_the_folder_are_measured(folder):
    found = bound_of_run(folder, devices=2, batches=4)
    assert found.measured_round.tolist() == [0, 6, 8]
    names = found.as_dict()
    assert names["measured"]["round"] == [0, 6, 8]
    assert names["constants"]["smoothness"]["low"] <= found.constants.smoothness


def test_what_has_no_bound_is_refused(folder, tmp_path):
    scenario = scenario_from(TABLE)
    run(scenario, tmp_path / "open")
    (tmp_path / "open" / MODEL).unlink()
    with pytest.raises(RunLogError, match="not finished"):
        bound_of_run(tmp_path / "open")
    manifest = tmp_path / "open" / "manifest.json"
    (tmp_path / "open" / MODEL).write_bytes((folder / MODEL).read_bytes())
    as_of_an_earlier_version(tmp_path / "open")
    manifest.write_text(manifest.read_text().replace('"lam": 100.0', '"lam": 7.0'))
    with pytest.raises(RunLogError, match="scheduled otherwise"):
        bound_of_run(tmp_path / "open")
    with pytest.raises(InputError, match="replay_every"):
        bound_of_run(folder, replay_every=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "fields", "said"),
    [
        ("data", {"samples": [60, 60, 60, 60, 60, 30]}, "data.samples has sizes from 30 to 60"),
        ("training", {"aggregator": "memory"}, "training.aggregator = 'memory' .*earlier rounds"),
        ("training", {"compress": "4"}, "training.compress = .4. adds the variance"),
        ("policy", {"kind": "round-robin"}, "kind: 'round-robin' chooses in a way of its own"),
        ("policy", {"kind": "ocs"}, "'ocs' chooses in a way of its own.* uniform"),
        ("policy", {"kind": "clustered-sizes"}, "'clustered-sizes' chooses in a way of its own"),
    ],
)
def test_a_run_that_the_bounds_are_not_about_is_refused_by_its_field(
    tmp_path, section, fields, said
):
    run(scenario_from({**TABLE, section: {**TABLE[section], **fields}}), tmp_path / "run")
    with pytest.raises(InputError, match=said):
        bound_of_run(tmp_path / "run", devices=2, batches=4)


def test_a_run_that_left_updates_out_is_refused(tmp_path):
    training = {**TABLE["training"], "learning_rate": 1e38}
    run(scenario_from({**TABLE, "training": training}), tmp_path / "run")
    with pytest.raises(InputError, match=r"left out \d+ updates that were not finite"):
        bound_of_run(tmp_path / "run", devices=2, batches=4)


@pytest.mark.slow
def test_a_list_of_equal_sizes_is_no_reason_to_refuse(folder, tmp_path):
    data = {**TABLE["data"], "samples": [60] * 6}
    run(scenario_from({**TABLE, "data": data}), tmp_path / "run")
    found = bound_of_run(tmp_path / "run", devices=2, batches=4)
    alike = bound_of_run(folder, devices=2, batches=4)
    assert found.corrected().total == pytest.approx(alike.corrected().total)


def test_a_packed_copy_is_said_to_hold_no_models(folder, tmp_path):
    pack_run(folder, tmp_path / "packed")
    with pytest.raises(RunLogError, match="is a packed copy, which holds no models"):
        bound_of_run(tmp_path / "packed")


def test_a_bound_without_torch_is_a_sentence(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"gradients of a run needs .*fedsched\[torch\]"):
        bound_of_run(folder)
