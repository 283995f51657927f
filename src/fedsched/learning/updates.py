"""What training and evaluation give back: plain values, without torch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Evaluation", "LocalUpdate", "add_up", "norm_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalUpdate:
    """What one device sends back."""

    delta: NDArray[np.float32]  # y - x, shape (d,)
    loss: float  # mean minibatch loss over the steps
    square_loss: float  # mean of the squared losses of all samples of these minibatches
    steps: int
    omega: float = math.nan  # what compression adds to its second moment; NaN without it


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How the model does on the test set."""

    accuracy: float
    loss: float  # mean cross-entropy, nats


def norm_of(delta: NDArray[np.floating[Any]]) -> float:
    """The Euclidean norm, the same on every machine."""
    # Not np.linalg.norm: BLAS adds up in another order with another number of threads.
    return math.sqrt(np.square(delta, dtype=np.float64).sum())


def add_up(chunks: Iterable[tuple[int, int, float]]) -> Evaluation:
    """The evaluation whose chunks have these numbers of images and correct answers and loss sums.

    Example:
        >>> add_up([(3, 2, 1.5), (1, 1, 0.5)])
        Evaluation(accuracy=0.75, loss=0.5)
    """
    images, correct, loss = 0, 0, 0.0
    for chunk_images, chunk_correct, chunk_loss in chunks:
        images, correct, loss = images + chunk_images, correct + chunk_correct, loss + chunk_loss
    return Evaluation(accuracy=correct / images, loss=loss / images)
