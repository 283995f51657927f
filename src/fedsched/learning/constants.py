r"""The constants of the convergence bound, estimated for a model on the devices' own data.

All are suprema over models in the theory and measured here at one model, so they are what the bound
would need *there*: take the largest over the models of a run. Images are not augmented.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedsched.checks import whole_number
from fedsched.learning.dataset import Dataset
from fedsched.learning.local import minibatches
from fedsched.learning.models import load_flat
from fedsched.learning.partition import Indices, Partition

__all__ = ["Effort", "Estimate", "LearningConstants", "estimate_constants", "measure_gradient"]

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # (outputs, labels) -> mean loss
Vector: TypeAlias = NDArray[np.float64]

_CHUNK = 500  # images a pass
_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class LearningConstants:
    r"""What a model looks like to the bound.

    Attributes:
        smoothness: L, the largest curvature of a device's loss among those looked at.
        noise_sq: :math:`\nu^2`, the largest variance of a minibatch gradient among them.
        divergence_sq: :math:`\epsilon^2 = \max_n \|\nabla f_n - \nabla f\|^2` over all devices.
        gradient_sq: :math:`\|\nabla f\|^2`.
        device_gradient_sq: the mean of :math:`\|\nabla f_n\|^2` over devices.
        loss: f.
    """

    smoothness: Estimate
    noise_sq: Estimate
    divergence_sq: Estimate
    gradient_sq: float
    device_gradient_sq: float
    loss: float


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured to estimate the constants.

    Attributes:
        devices: how many devices L and nu^2 are measured on; all if there are fewer.
        batches: minibatches a device, for nu^2 and for the last quotient of L.
        iterations: of power iteration.
        hessian_batch: samples a Hessian-vector product.
    """

    devices: int = 20
    batches: int = 64
    iterations: int = 30
    hessian_batch: int = 256

    def __post_init__(self) -> None:
        whole_number("devices", self.devices)
        whole_number("batches", self.batches, least=4)
        whole_number("iterations", self.iterations, least=4)


def estimate_constants(
    *,
    model: nn.Module,
    dataset: Dataset,
    partition: Partition,
    parameters: NDArray[np.float32],
    batch_size: int,
    random: np.random.Generator,
    loss: Loss = functional.cross_entropy,
    effort: Effort = Effort(),
) -> LearningConstants:
    r"""Estimate L, nu^2 and epsilon^2 at one model.

    * :math:`\epsilon^2` and the gradient are computed from every sample of every device: no
      chance is involved, and the interval is a point.
    * :math:`\nu^2` is the mean of :math:`\|g-\nabla f_n\|^2` over minibatches of a device. One half
      of them picks the largest device, the other half measures it, so that picking adds no bias.
    * L comes from power iteration with Hessian-vector products on minibatches, its direction
      averaged over the later half. The quotient :math:`v^\top H v` of that direction is below the
      largest curvature; the interval's upper end adds the residual :math:`\|Hv-(v^\top Hv)v\|`,
      within which an eigenvalue lies.

    Intervals hold for all devices looked at together (Bonferroni, normal approximation).

    Args:
        model: its parameters are overwritten.
        dataset: the images.
        partition: who holds which.
        parameters: where to look, shape (d,).
        batch_size: of one local step.
        random: draws minibatches, directions, and which devices are looked at.
        loss: the mean loss of outputs and labels.
        effort: how much to measure.
    """
    load_flat(model, parameters)
    model.eval()
    problem = _Problem(model, dataset, loss)
    looked_at = random.choice(
        partition.devices, min(effort.devices, partition.devices), replace=False
    ).tolist()
    gradients, losses = zip(
        *(problem.gradient(partition.indices(n)) for n in range(partition.devices)), strict=True
    )
    weight = partition.data_weight
    whole = np.einsum("n,nd->d", weight, np.array(gradients))
    divergence_sq = max(float(((each - whole) ** 2).sum()) for each in gradients)
    noise = [
        _noise(problem, partition.indices(n), gradients[n], batch_size, effort.batches, random)
        for n in looked_at
    ]
    curvature = [_curvature(problem, partition.indices(n), effort, random) for n in looked_at]
    return LearningConstants(
        smoothness=_largest([each.value for each in curvature], curvature),
        noise_sq=_largest([first for first, _ in noise], [second for _, second in noise]),
        divergence_sq=Estimate(value=divergence_sq, low=divergence_sq, high=divergence_sq),
        gradient_sq=float((whole**2).sum()),
        device_gradient_sq=float(np.dot(weight, (np.array(gradients) ** 2).sum(axis=1))),
        loss=float(np.dot(weight, losses)),
    )


def measure_gradient(
    *,
    model: nn.Module,
    dataset: Dataset,
    partition: Partition,
    parameters: NDArray[np.float32],
    loss: Loss = functional.cross_entropy,
) -> tuple[float, float]:
    r""":math:`\|\nabla f\|^2` and f at one model, from every sample of every device."""
    load_flat(model, parameters)
    model.eval()
    problem = _Problem(model, dataset, loss)
    gradient, total = np.zeros(problem.dimension), 0.0
    for n, weight in enumerate(partition.data_weight):
        own, value = problem.gradient(partition.indices(n))
        gradient += weight * own
        total += weight * value
    return float((gradient**2).sum()), float(total)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A mean with its standard error, and what may be missing from it for other reasons."""

    value: float
    error: float
    above: float = 0.0


def _largest(picked_by: Sequence[float], measured: Sequence[_Measured]) -> Estimate:
    """The largest of several, picked by one set of numbers and measured by another."""
    z = NormalDist().inv_cdf(1.0 - (1.0 - _CONFIDENCE) / 2.0 / len(measured))
    low = max(each.value - z * each.error for each in measured)
    high = max(each.value + z * each.error + each.above for each in measured)
    value = measured[int(np.argmax(picked_by))].value
    return Estimate(value=min(max(value, low), high), low=low, high=high)


class _Problem:
    """Gradients and Hessian-vector products of one model's loss on given samples."""

    def __init__(self, model: nn.Module, dataset: Dataset, loss: Loss) -> None:
        self._model, self._dataset, self._loss = model, dataset, loss
        self._parameters = [each for each in model.parameters() if each.requires_grad]
        self.dimension = sum(each.numel() for each in self._parameters)
        mean, deviation = (
            torch.tensor(each, dtype=torch.float32).view(-1, 1, 1)
            for each in (dataset.mean, dataset.deviation)
        )
        self._mean, self._deviation = mean, deviation

    def gradient(self, samples: Indices) -> tuple[Vector, float]:
        """The gradient of the mean loss over the samples, and that loss."""
        total, loss = np.zeros(self.dimension), 0.0
        for begin in range(0, len(samples), _CHUNK):
            part = samples[begin : begin + _CHUNK]
            value = self._mean_loss(part)
            flat = _flat(torch.autograd.grad(value, self._parameters, materialize_grads=True))
            total += flat.double().numpy() * (len(part) / len(samples))
            loss += float(value.detach()) * (len(part) / len(samples))
        return total, loss

    def hessian_times(self, samples: Indices, vector: Tensor) -> Tensor:
        """The Hessian of the mean loss over the samples, times a vector."""
        value = self._mean_loss(samples)
        gradient = _flat(
            torch.autograd.grad(value, self._parameters, create_graph=True, materialize_grads=True)
        )
        return _flat(
            torch.autograd.grad(gradient @ vector, self._parameters, materialize_grads=True)
        )

    def _mean_loss(self, samples: Indices) -> Tensor:
        images = torch.from_numpy(self._dataset.train_images[samples]).float()
        labels = torch.from_numpy(self._dataset.train_labels[samples])
        return self._loss(self._model((images - self._mean) / self._deviation), labels)


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def _noise(
    problem: _Problem, samples: Indices, gradient: Vector, batch_size: int, batches: int,
    random: np.random.Generator,
) -> tuple[float, _Measured]:  # fmt: skip
    """Two independent measurements of a device's gradient noise."""
    squares = np.empty(batches)
    for place in range(batches):
        (batch,) = minibatches(samples, steps=1, batch_size=batch_size, random=random)
        squares[place] = ((problem.gradient(batch)[0] - gradient) ** 2).sum()
    first, second = squares[: batches // 2], squares[batches // 2 :]
    error = float(second.std(ddof=1)) / len(second) ** 0.5
    return float(first.mean()), _Measured(value=float(second.mean()), error=error)


def _curvature(
    problem: _Problem, samples: Indices, effort: Effort, random: np.random.Generator
) -> _Measured:
    """The largest curvature of a device's loss, in absolute value."""
    size = effort.hessian_batch

    def product(vector: Tensor) -> Tensor:
        part = samples if len(samples) <= size else random.choice(samples, size, replace=False)
        return problem.hessian_times(part, vector)

    direction = torch.from_numpy(random.standard_normal(problem.dimension)).float()
    direction /= direction.norm()
    total = torch.zeros_like(direction)
    for iteration in range(effort.iterations):
        image = product(direction)
        length = image.norm()
        if length == 0.0:
            return _Measured(value=0.0, error=0.0)
        direction = image / length
        if iteration >= effort.iterations // 2:
            # The sign flips each time where the curvature is negative.
            total += direction * torch.sign(direction @ total + (total == 0.0).all())
    direction = total / total.norm()
    needed = 1 if len(samples) <= size else effort.batches
    images = torch.stack([product(direction) for _ in range(needed)])
    quotients = (images @ direction).double().numpy()
    mean = images.mean(dim=0)
    value = float(quotients.mean())
    error = float(quotients.std(ddof=1)) / needed**0.5 if needed > 1 else 0.0
    return _Measured(value=abs(value), error=error, above=float((mean - value * direction).norm()))
