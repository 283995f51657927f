"""Data sets as plain arrays: scikit-learn's digits, CIFAR-10, or a user's own."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.archives import check_zip
from fedsched.errors import InputError, UnknownNameError, require_file
from fedsched.imports import made_by
from fedsched.randomness import stream

__all__ = ["Dataset", "channel_statistics", "load_dataset"]

DIGITS_TRAIN = 1437  # of 1,797; the other 360 are the test set
NPZ_ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Images with labels, and how a minibatch of them is prepared.

    A model sees ``(image - mean) / deviation`` by channel, in the images' own units (0 to 255 for
    bytes). In training, an image is first flipped left to right with probability one half if
    ``flip`` is set, and cut at a random place out of itself framed by ``crop_padding`` zero pixels.

    Example:
        >>> import numpy as np
        >>> images, labels = np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 1, 2, 1])
        >>> mine = Dataset(name="mine", train_images=images, train_labels=labels,
        ...                test_images=images, test_labels=labels, classes=3,
        ...                mean=np.array([0.0]), deviation=np.array([1.0]))
        >>> mine.image_shape
        (1, 8, 8)
    """

    name: str
    train_images: NDArray[Any]  # uint8 or float32, shape (n, channels, height, width)
    train_labels: NDArray[np.int64]  # shape (n,), in 0 .. classes - 1
    test_images: NDArray[Any]
    test_labels: NDArray[np.int64]
    classes: int
    mean: NDArray[np.float64]  # shape (channels,)
    deviation: NDArray[np.float64]  # shape (channels,), positive
    flip: bool = False
    crop_padding: int = 0  # pixels on each side; 0 leaves the images as they are

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise InputError(f"classes of data set {self.name!r} must be >= 2, got {self.classes}")
        for part in ("train", "test"):
            images, labels = _checked(self, part)
            object.__setattr__(self, f"{part}_images", images)
            object.__setattr__(self, f"{part}_labels", labels)
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise InputError(
                f"data set {self.name!r}: train_images of shape {self.train_images.shape[1:]} and "
                f"test_images of shape {self.test_images.shape[1:]} must agree"
            )
        for field in ("mean", "deviation"):
            value = np.asarray(getattr(self, field), dtype=np.float64)
            if value.shape != self.image_shape[:1] or not np.isfinite(value).all():
                raise InputError(
                    f"{field} of data set {self.name!r} must hold one finite number for each of "
                    f"its {self.image_shape[0]} channels, got {value.tolist()}"
                )
            object.__setattr__(self, field, value)
        if not (self.deviation > 0).all():
            raise InputError(
                f"deviation of data set {self.name!r} must be positive, got "
                f"{self.deviation.tolist()}; use 1 for a constant channel"
            )
        if self.crop_padding < 0:
            raise InputError(
                f"crop_padding of data set {self.name!r} must be >= 0, got {self.crop_padding}"
            )

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width


def load_dataset(name: str, *, cache: Path | None = None) -> Dataset:
    """The data set of a name.

    Args:
        name: "digits"; "cifar10"; the path of an ``.npz`` file; or ``"package.module:function"``,
            a function without arguments that returns a :class:`Dataset`.
        cache: folder of downloaded data; None is the default cache.

    Example:
        >>> load_dataset("digits").train_images.shape
        (1437, 1, 8, 8)
    """
    if name == "digits":
        return _digits()
    if name == "cifar10":
        from fedsched.learning.cifar10 import read_cifar10

        return read_cifar10(cache)
    if name.endswith(".npz"):
        return _from_npz(Path(name))
    if ":" in name:
        return _from_callable(name)
    known = ("cifar10", "digits", "FILE.npz", "package.module:function")
    raise UnknownNameError("dataset", name, known)


def channel_statistics(
    images: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of every channel; the deviation of a constant channel is 1."""
    mean = images.mean(axis=(0, 2, 3), dtype=np.float64)
    # Channel by channel: the float64 copy of all images at once would be eight times their size.
    deviation = np.array([images[:, c].std(dtype=np.float64) for c in range(images.shape[1])])
    return mean, np.where(deviation > 0, deviation, 1.0)


def _checked(dataset: Dataset, part: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read-only views of one part's images and labels, or a sentence about what is wrong."""
    images, labels = getattr(dataset, f"{part}_images"), getattr(dataset, f"{part}_labels")
    where = f"of data set {dataset.name!r}"
    if images.dtype not in (np.uint8, np.float32):
        raise InputError(f"{part}_images {where} must be uint8 or float32, got {images.dtype}")
    if images.ndim != 4 or 0 in images.shape:
        raise InputError(
            f"{part}_images {where} must be a non-empty array of shape (n, channels, height, "
            f"width), got shape {images.shape}"
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{part}_labels {where} must be integers, got {labels.dtype}")
    if labels.shape != images.shape[:1]:
        raise InputError(
            f"{part}_labels {where} must hold one label for each of the {len(images)} images, got "
            f"shape {labels.shape}"
        )
    if labels.min() < 0 or labels.max() >= dataset.classes:
        raise InputError(
            f"{part}_labels {where} must lie in 0 .. {dataset.classes - 1}, got "
            f"{labels.min()} .. {labels.max()}"
        )
    if images.dtype == np.float32 and not np.isfinite(images).all():
        raise InputError(f"{part}_images {where} hold values that are not finite")
    images, labels = images.view(), labels.astype(np.int64)
    images.flags.writeable = labels.flags.writeable = False
    return images, labels


def _digits() -> Dataset:
    # Its file alone: to import scikit-learn takes longer than a small run does.
    path = require_file(
        "sklearn", "datasets/data/digits.csv.gz", extra="torch", purpose="the data set 'digits'"
    )
    table = np.loadtxt(path, delimiter=",")  # 64 pixels of 0 to 16 a row, and the digit
    # One constant shuffle for every run: the split belongs to the data set, not to the seed.
    order = stream(0, "digits-split").permutation(len(table))
    train, test = order[:DIGITS_TRAIN], order[DIGITS_TRAIN:]
    images = table[:, :-1].astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = table[:, -1].astype(np.int64)
    mean, deviation = channel_statistics(images[train])
    return Dataset(
        name="digits",
        train_images=images[train],
        train_labels=labels[train],
        test_images=images[test],
        test_labels=labels[test],
        classes=10,
        mean=mean,
        deviation=deviation,
    )


def _from_npz(path: Path) -> Dataset:
    if not path.is_file():
        raise InputError(f"dataset: there is no file {str(path)!r}")
    try:
        check_zip("dataset:", path)
        with np.load(path, allow_pickle=False) as archive:
            if missing := [name for name in NPZ_ARRAYS if name not in archive.files]:
                raise InputError(
                    f"dataset: {str(path)!r} lacks the arrays {', '.join(missing)}; it must hold "
                    f"{', '.join(NPZ_ARRAYS)}"
                )
            arrays = {name: archive[name] for name in NPZ_ARRAYS}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"dataset: {str(path)!r} cannot be read ({error}); write it with numpy.savez from "
            "plain arrays of numbers"
        ) from error
    for name in ("train_images", "test_images"):
        images = arrays[name]
        if images.ndim == 3:
            images = images[:, None]
        if images.dtype == np.float64:
            images = images.astype(np.float32)
        arrays[name] = images
    labels = arrays["train_labels"]
    if labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"dataset: train_labels of {str(path)!r} must be integers, one for each image, got "
            f"{labels.dtype} of shape {labels.shape}"
        )
    images = arrays["train_images"]
    channels = images.shape[1] if images.ndim == 4 else 1
    usable = images.ndim == 4 and images.size > 0 and images.dtype in (np.uint8, np.float32)
    # Of images that cannot be used nothing is computed: the constructor says what is wrong.
    mean, deviation = (
        channel_statistics(images) if usable else (np.zeros(channels), np.ones(channels))
    )
    return Dataset(
        name=path.stem, classes=int(labels.max()) + 1, mean=mean, deviation=deviation, **arrays
    )


def _from_callable(name: str) -> Dataset:
    dataset = made_by("dataset", name)
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"dataset: {name!r} must return a fedsched.learning.dataset.Dataset, got "
            f"{type(dataset).__name__}"
        )
    return dataset
