"""Which training images each device holds: a Dirichlet distribution over the classes."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import number_within
from fedsched.errors import InputError
from fedsched.randomness import stream
from fedsched.values import PerDevice

__all__ = ["ClassIndex", "Indices", "Partition", "class_probabilities", "index_by_class"]

Indices: TypeAlias = NDArray[np.int64]  # positions in the training images

# Below this, the second largest class probability underflows to zero: the limit itself.
ALPHA_SMALLEST = 1e-200
MOST_SAMPLES = 10**7  # of a device
ABOUT_ALPHA = "0 gives every device one class, inf gives all devices the same distribution"


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassIndex:
    """The training images sorted by class."""

    order: Indices  # positions of all images, class by class
    start: NDArray[np.int64]  # shape (classes,), where a class begins in order
    count: NDArray[np.int64]  # shape (classes,), how many images it has


def index_by_class(labels: NDArray[np.int64], classes: int) -> ClassIndex:
    """Sort image positions by class.

    Example:
        >>> index_by_class(np.array([1, 0, 1]), 2).order.tolist()
        [1, 0, 2]
    """
    count = np.bincount(labels, minlength=classes)
    if empty := np.flatnonzero(count == 0).tolist():
        raise InputError(
            f"the classes {empty} have no training image; a partition draws from every class, so "
            "number the classes without gaps"
        )
    return ClassIndex(
        order=np.argsort(labels, kind="stable"), start=np.cumsum(count) - count, count=count
    )


def class_probabilities(
    alpha: float, classes: int, random: np.random.Generator
) -> NDArray[np.float64]:
    r"""Draw :math:`c \sim \mathrm{Dir}(\alpha e)`, with :math:`e` the uniform probability vector.

    Each class has the concentration :math:`a = \alpha / C`. The limits are :math:`\alpha = 0`, all
    mass on one class, and :math:`\alpha = \infty`, :math:`c = e`. A Dirichlet vector is a vector of
    independent Gamma(a) numbers divided by its sum; these are drawn by their logarithms,
    :math:`\log G_{a+1} - E / a` with :math:`E` exponential, because for small :math:`a` all of the
    numbers themselves underflow.

    Example:
        >>> class_probabilities(np.inf, 4, np.random.default_rng(1)).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if alpha == np.inf:
        return np.full(classes, 1.0 / classes)
    if alpha < ALPHA_SMALLEST:
        return np.asarray(np.eye(classes)[random.integers(classes)])
    shape = alpha / classes
    log_gamma = np.log(random.standard_gamma(shape + 1.0, classes))
    log_gamma -= random.standard_exponential(classes) / shape
    weight = np.exp(log_gamma - log_gamma.max())
    return np.asarray(weight / weight.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Partition:
    r"""The data of every device, drawn on demand from the device's own random stream.

    A device draws :math:`c \sim \mathrm{Dir}(\alpha e)` once. Each of its samples is an image drawn
    uniformly, with repetition, from a class that is itself drawn from :math:`c`. Nothing is kept
    per device but its size, so a hundred thousand devices cost no more memory than their sizes.

    Example:
        >>> labels = np.repeat(np.arange(10), 20)
        >>> partition = Partition(index=index_by_class(labels, 10), alpha=0.0, size=5,
        ...                       devices=3, seed=1)
        >>> len(set(labels[partition.indices(2)].tolist()))  # one class only
        1
    """

    index: ClassIndex
    alpha: float  # in [0, inf]
    size: int | NDArray[np.int64]  # samples of every device, or of each
    devices: int
    seed: int

    def __post_init__(self) -> None:
        number_within("alpha", self.alpha, "[0, inf]", ABOUT_ALPHA)
        if self.devices < 1:
            raise InputError(f"devices must be >= 1, got {self.devices}")
        size = np.asarray(self.size)
        if size.shape not in ((), (self.devices,)) or not np.issubdtype(size.dtype, np.integer):
            raise InputError(
                f"size must be one integer or one for each of the {self.devices} devices, got "
                f"{size.dtype} of shape {size.shape}"
            )
        if (size < 1).any():
            raise InputError(f"size must be >= 1 for every device, got {size.min()}")
        if (size > MOST_SAMPLES).any():
            raise InputError(
                f"size, the samples of a device (data.samples), must be at most {MOST_SAMPLES:,}, "
                f"got {size.max():,}; they are drawn in memory"
            )

    def indices(self, device: int) -> Indices:
        """Positions of the device's samples among the training images, shape (size of device,)."""
        if not 0 <= device < self.devices:
            raise InputError(f"device must lie in 0 .. {self.devices - 1}, got {device}")
        size = int(np.broadcast_to(self.size, (self.devices,))[device])
        random = stream(self.seed, "data", device)
        classes = len(self.index.count)
        probability = class_probabilities(self.alpha, classes, random)
        drawn = random.choice(classes, size=size, p=probability)
        within = random.integers(0, self.index.count[drawn])
        return np.asarray(self.index.order[self.index.start[drawn] + within])

    @property
    def data_weight(self) -> PerDevice:
        """p, each device's share of all samples; sums to one."""
        size = np.broadcast_to(np.asarray(self.size, dtype=np.float64), (self.devices,))
        return np.asarray(size / size.sum())
