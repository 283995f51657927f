import numpy as np
import pytest
import torch
from torch import nn

from fedsched.errors import InputError
from fedsched.learning.constants import Effort, estimate_constants
from fedsched.learning.dataset import Dataset, load_dataset
from fedsched.learning.models import build_model, flatten
from fedsched.learning.partition import Partition, index_by_class

CLASSES, SIDE, BATCH = 3, 3, 8


class Linear(nn.Module):
    """Outputs W x: with a squared loss, a quadratic problem."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(CLASSES, SIDE * SIDE))

    def forward(self, images):
        return images.flatten(1) @ self.matrix.T


def squared(outputs, labels):
    aim = nn.functional.one_hot(labels, CLASSES).float()
    return 0.5 * ((outputs - aim) ** 2).sum(dim=1).mean()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(8)
    labels = rng.integers(0, CLASSES, 400)
    scale = np.linspace(0.4, 2.0, SIDE * SIDE).reshape(1, 1, SIDE, SIDE)
    images = rng.normal(size=(400, 1, SIDE, SIDE)) * scale + 0.6 * labels[:, None, None, None]
    dataset = Dataset(
        name="points", train_images=images.astype(np.float32), train_labels=labels,
        test_images=images[:5].astype(np.float32), test_labels=labels[:5], classes=CLASSES,
        mean=np.zeros(1), deviation=np.ones(1),
    )  # fmt: skip
    partition = Partition(
        index=index_by_class(labels, CLASSES), alpha=1.0, size=300, devices=6, seed=1
    )
    return dataset, partition


def exact(dataset, partition, matrix):
    """L, nu^2, epsilon^2 and the squared gradient by linear algebra."""
    gradients, curvature, noise = [], [], []
    for n in range(partition.devices):
        samples = partition.indices(n)
        x = dataset.train_images[samples].reshape(len(samples), -1).astype(np.float64)
        error = x @ matrix.T - np.eye(CLASSES)[dataset.train_labels[samples]]
        each = np.einsum("sc,sd->scd", error, x).reshape(len(samples), -1)
        gradients.append(each.mean(axis=0))
        curvature.append(np.linalg.eigvalsh(x.T @ x / len(x))[-1])
        spread = ((each - each.mean(axis=0)) ** 2).sum() / (len(each) - 1)
        noise.append(spread / BATCH * (1.0 - BATCH / len(each)))  # drawn without replacement
    whole = np.mean(gradients, axis=0)
    divergence = max(((each - whole) ** 2).sum() for each in gradients)
    return max(curvature), max(noise), divergence, (whole**2).sum()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_estimates_come_within_ten_per_cent_of_least_squares(problem, seed):
    dataset, partition = problem
    matrix = np.random.default_rng(seed).normal(size=(CLASSES, SIDE * SIDE)).astype(np.float32)
    found = estimate_constants(
        model=Linear(), dataset=dataset, partition=partition, parameters=matrix.reshape(-1),
        batch_size=BATCH, loss=squared, effort=Effort(batches=400, hessian_batch=200),
        random=np.random.default_rng(seed),
    )  # fmt: skip
    smoothness, noise_sq, divergence_sq, gradient_sq = exact(dataset, partition, matrix)
    assert found.smoothness.value == pytest.approx(smoothness, rel=0.1)
    assert found.noise_sq.value == pytest.approx(noise_sq, rel=0.1)
    assert found.divergence_sq.value == pytest.approx(divergence_sq, rel=1e-4)
    assert found.gradient_sq == pytest.approx(gradient_sq, rel=1e-4)
    assert gradient_sq < found.device_gradient_sq <= gradient_sq + divergence_sq
    assert found.smoothness.low <= smoothness <= found.smoothness.high
    assert found.noise_sq.low <= noise_sq <= found.noise_sq.high
    assert found.noise_sq.low < found.noise_sq.value < found.noise_sq.high


@pytest.mark.slow
def test_the_curvature_of_softmax_at_zero_is_known():
    # All classes are equally likely, so the Hessian is (Id/C - 1/C^2) times the inputs' moments.
    dataset = load_dataset("digits")
    partition = Partition(
        index=index_by_class(dataset.train_labels, 10), alpha=1.0, size=400, devices=3, seed=2
    )
    model = build_model("softmax", dataset, 1)
    found = estimate_constants(
        model=model, dataset=dataset, partition=partition,
        parameters=np.zeros_like(flatten(model)), batch_size=32, effort=Effort(batches=20),
        random=np.random.default_rng(3),
    )  # fmt: skip
    exact = 0.0
    for n in range(3):
        pixels = dataset.train_images[partition.indices(n)].reshape(400, -1)
        x = np.hstack([(pixels - dataset.mean[0]) / dataset.deviation[0], np.ones((400, 1))])
        exact = max(exact, np.linalg.eigvalsh(x.T @ x / 400)[-1] / 10)
    assert found.smoothness.value == pytest.approx(exact, rel=0.1)
    assert found.smoothness.low <= exact <= found.smoothness.high
    assert found.loss == pytest.approx(np.log(10.0), rel=1e-5)


@pytest.mark.slow
def test_a_negative_curvature_counts_by_its_size(problem):
    dataset, partition = problem
    found = estimate_constants(
        model=Linear(), dataset=dataset, partition=partition,
        parameters=np.zeros(CLASSES * SIDE * SIDE, np.float32), batch_size=BATCH,
        effort=Effort(batches=4, iterations=32),
        loss=lambda outputs, labels: -squared(outputs, labels),
        random=np.random.default_rng(0),
    )  # fmt: skip
    smoothness, *_ = exact(dataset, partition, np.zeros((CLASSES, SIDE * SIDE)))
    assert found.smoothness.value == pytest.approx(smoothness, rel=0.1)


@pytest.mark.slow
def test_alike_devices_diverge_less_than_unlike_ones():
    dataset = load_dataset("digits")
    model = build_model("softmax", dataset, 1)
    found = [
        estimate_constants(
            model=model, dataset=dataset, parameters=flatten(model), batch_size=16,
            partition=Partition(
                index=index_by_class(dataset.train_labels, 10), alpha=alpha, size=200, devices=8,
                seed=1,
            ),
            effort=Effort(devices=1, batches=4, iterations=4), random=np.random.default_rng(1),
        ).divergence_sq.value
        for alpha in (np.inf, 1.0, 0.0)
    ]  # fmt: skip
    assert found[0] < 0.3 * found[1] < 0.3 * found[2]


def test_too_few_minibatches_are_refused(problem):
    dataset, partition = problem
    with pytest.raises(InputError, match="batches must be a whole number of at least 4"):
        estimate_constants(
            model=Linear(), dataset=dataset, partition=partition,
            parameters=np.zeros(CLASSES * SIDE * SIDE, np.float32), batch_size=BATCH,
            effort=Effort(batches=3),
            random=np.random.default_rng(0),
        )  # fmt: skip
