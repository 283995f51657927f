"""The models, and their parameters as one flat vector."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedsched.errors import InputError, UnknownNameError
from fedsched.imports import import_object, made_by
from fedsched.learning.dataset import Dataset
from fedsched.randomness import stream

__all__ = ["MODELS", "PaperCNN", "SmallCNN", "Softmax", "build_model", "flatten", "load_flat"]


class PaperCNN(nn.Module):
    """Two 5x5 convolutions of 32 channels, each halved by max pooling, and two linear layers.

    On CIFAR-10 it has 555,178 parameters. With ``response_normalisation`` the activations pass,
    as in the model's public ancestor, through local response normalisation after the first
    pooling and before the second: ``x / (1 + 0.001 / 9 * sum of squares)^0.75``, the sum being
    over the nine channels around each. It has no parameters.
    """

    def __init__(self, dataset: Dataset, *, response_normalisation: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(dataset.image_shape[0], 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 5, padding=2)
        self.hidden = nn.Linear(32 * _pixels_left(dataset), 256)
        self.output = nn.Linear(256, dataset.classes)
        # Torch divides alpha by the size, which the ancestor's definition does not: 9 * 0.001 / 9.
        self.normalise: nn.Module | None = (
            nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)
            if response_normalisation
            else None
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits, shape (n, classes)."""
        x = images.contiguous(memory_format=torch.channels_last)
        if self.normalise is None:
            # Pooling first gives the same numbers and gradients, on a quarter of the activations.
            x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
            x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        else:
            x = self.normalise(functional.relu(functional.max_pool2d(self.conv1(x), 2)))
            x = functional.max_pool2d(self.normalise(functional.relu(self.conv2(x))), 2)
        logits: Tensor = self.output(functional.relu(self.hidden(x.flatten(1))))
        return logits


class SmallCNN(nn.Module):
    """Two 3x3 convolutions of 16 and 32 channels, each halved by max pooling, and a linear layer.

    On the digits it has 6,090 parameters.
    """

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(dataset.image_shape[0], 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.output = nn.Linear(32 * _pixels_left(dataset), dataset.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, shape (n, classes)."""
        x = images.contiguous(memory_format=torch.channels_last)
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        logits: Tensor = self.output(x.flatten(1))
        return logits


def _pixels_left(dataset: Dataset) -> int:
    """Of each channel, after both sides of an image were halved twice."""
    _, height, width = dataset.image_shape
    if min(height, width) < 4:
        raise InputError(f"model: the CNN needs images of 4x4 or more, got {height}x{width}")
    return (height // 4) * (width // 4)


class Softmax(nn.Module):
    """Softmax regression: one linear layer on the pixels."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.output = nn.Linear(math.prod(dataset.image_shape), dataset.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, shape (n, classes)."""
        logits: Tensor = self.output(images.flatten(1))
        return logits


MODELS: Mapping[str, Callable[[Dataset], nn.Module]] = {
    "paper-cnn": PaperCNN,
    "paper-cnn-lrn": lambda dataset: PaperCNN(dataset, response_normalisation=True),
    "small-cnn": SmallCNN,
    "softmax": Softmax,
}


def build_model(name: str, dataset: Dataset, seed: int) -> nn.Module:
    """A model for the data set, its initial values a function of the seed alone.

    Args:
        name: a key of ``MODELS``, or ``"package.module:Class"``, a ``torch.nn.Module`` that is
            made without arguments and gives logits of shape (n, classes).
        dataset: tells the shape of the images and the number of classes.
        seed: the run's seed.

    Example:
        >>> from fedsched.learning.dataset import load_dataset
        >>> flatten(build_model("small-cnn", load_dataset("digits"), seed=1)).shape
        (6090,)
    """
    if name in MODELS:
        make = MODELS[name]
    elif ":" in name:
        import_object("model", name)
        make = partial(_of_path, name)
    else:
        raise UnknownNameError("model", name, (*MODELS, "package.module:Class"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "model").integers(2**63)))
        model = make(dataset)
    _check(name, model, dataset)
    return model


def vectors(model: nn.Module) -> Iterator[Tensor]:
    """What the flat vector holds, in its order: all parameters, then all float buffers."""
    yield from (parameter.data for parameter in model.parameters())
    yield from (buffer for buffer in model.buffers() if buffer.is_floating_point())


def flatten(model: nn.Module) -> NDArray[np.float32]:
    """The model as one vector: its parameters, then its float buffers, each in module order.

    Buffers such as the running statistics of batch normalisation are part of the vector, so they
    travel, and are averaged, like parameters. Integer buffers (counters) are not.
    """
    return torch.cat([tensor.detach().cpu().reshape(-1) for tensor in vectors(model)]).numpy()


def load_flat(model: nn.Module, vector: NDArray[np.float32]) -> None:
    """Write a vector made by :func:`flatten` into the model."""
    dimension = sum(tensor.numel() for tensor in vectors(model))
    if vector.shape != (dimension,):
        raise InputError(f"vector must have shape ({dimension},), got {vector.shape}")
    position = 0
    for tensor in vectors(model):
        part = vector[position : position + tensor.numel()]
        tensor.copy_(torch.tensor(part).view_as(tensor))
        position += tensor.numel()


def _of_path(name: str, _dataset: Dataset) -> nn.Module:
    return made_by("model", name)  # type: ignore[no-any-return]


def _check(name: str, model: object, dataset: Dataset) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"model: {name!r} must make a torch.nn.Module, got {type(model).__name__}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"model: {name!r} has no parameters to train")
    if any(tensor.dtype != torch.float32 for tensor in vectors(model)):
        raise InputError(f"model: the parameters and float buffers of {name!r} must be float32")
    training = model.training
    model.eval()
    with torch.no_grad():
        try:
            shape = tuple(model(torch.zeros(2, *dataset.image_shape)).shape)
        except RuntimeError as error:
            raise InputError(
                f"model: {name!r} cannot take images of shape {dataset.image_shape} ({error})"
            ) from error
    model.train(training)
    if shape != (2, dataset.classes):
        raise InputError(
            f"model: {name!r} must give logits of shape (n, {dataset.classes}), got "
            f"{shape} for n = 2"
        )
