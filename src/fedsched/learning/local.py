"""Local training: K steps of stochastic gradient descent on one device's own data."""

import contextlib
import itertools
import math
import os
from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedsched.errors import InputError
from fedsched.learning.dataset import Dataset
from fedsched.learning.models import flatten
from fedsched.learning.partition import Indices, Partition
from fedsched.learning.updates import Evaluation, LocalUpdate, add_up
from fedsched.randomness import stream

__all__ = ["LocalTrainer", "augment", "minibatches"]

# Test images a forward pass; sums are formed by these chunks whoever computes them.
EVALUATION_CHUNK = 200

_LARGEST_STEP = float(np.finfo(np.float32).max)
_MOST_BATCH_BYTES = 1 << 32  # of a batch's images in float32
_MOST_SAMPLES = 10**8  # of one device in one round


def minibatches(
    samples: Indices, *, steps: int, batch_size: int, random: np.random.Generator
) -> Iterator[Indices]:
    """Shuffle the samples and walk through them, shuffling again whenever they are used up."""
    needed = steps * batch_size
    passes = -(-needed // len(samples))
    walk = np.concatenate([random.permutation(samples) for _ in range(passes)])
    return iter(walk[:needed].reshape(steps, batch_size))


def augment(
    images: NDArray[Any], *, flip: bool, crop_padding: int, random: np.random.Generator
) -> NDArray[Any]:
    """Cut the images at random out of their zero-padded selves and mirror a random half of them.

    Args:
        images: shape (n, channels, height, width).
        flip: whether each image is mirrored with probability one half.
        crop_padding: zero pixels added on each side before a window of the old size is cut.
        random: two offsets an image are drawn if it is cropped, then one number if it may flip.
    """
    count, channels, height, width = images.shape
    if crop_padding:
        framed = np.zeros(
            (count, channels, height + 2 * crop_padding, width + 2 * crop_padding), images.dtype
        )
        framed[:, :, crop_padding:-crop_padding, crop_padding:-crop_padding] = images
        row, column = random.integers(0, 2 * crop_padding + 1, (2, count))
        windows = sliding_window_view(framed, (height, width), axis=(2, 3))
        images = windows[np.arange(count), :, row, column]
    if flip:
        mirrored = random.random(count) < 0.5
        images = images if crop_padding else images.copy()
        images[mirrored] = images[mirrored][..., ::-1]
    return images


@final
class LocalTrainer:
    """Trains and evaluates one model on one process's torch device.

    The model's parameters and float buffers are views of one flat tensor, so that loading them
    and forming an update are single operations.
    """

    def __init__(
        self,
        *,
        dataset: Dataset,
        partition: Partition,
        model: nn.Module,
        steps: int,
        batch_size: int,
        learning_rate: float,
        seed: int,
        device: str = "cpu",
    ) -> None:
        _check_sizes(steps, batch_size, dataset)
        if not 0 < learning_rate <= _LARGEST_STEP:
            raise InputError(
                f"learning_rate must be positive and at most {_LARGEST_STEP:.3g}, the largest "
                f"number that models are computed with, got {learning_rate}"
            )
        self.initial_parameters = flatten(model)
        self.dimension = len(self.initial_parameters)
        self._dataset, self._partition = dataset, partition
        self._steps, self._batch_size = steps, batch_size
        self._learning_rate, self._seed = learning_rate, seed
        self._device = _torch_device(device)
        self._model = model.to(self._device)
        self._flat = _share_one_tensor(self._model, self.initial_parameters, self._device)
        self._trainable = [p for p in self._model.parameters() if p.requires_grad]
        counters = [b for b in self._model.buffers() if not b.is_floating_point()]
        self._counters = [(counter, counter.clone()) for counter in counters]
        # (byte - mean) / deviation as one multiplication and one addition.
        scale = torch.tensor(1.0 / dataset.deviation, dtype=torch.float32)
        shift = torch.tensor(-dataset.mean / dataset.deviation, dtype=torch.float32)
        self._scale = scale.view(-1, 1, 1).to(self._device)
        self._shift = shift.view(-1, 1, 1).to(self._device)

    def train(
        self,
        parameters: NDArray[np.float32],
        device: int,
        round: int,  # noqa: A002 - the project's word for t
        work: float = 1.0,
    ) -> LocalUpdate:
        r"""K steps :math:`y \leftarrow y - \gamma g` from :math:`y = x` on one device's data.

        The result is a function of the parameters, the device, the round and the seed alone, to
        the bit, in whatever process and order it is computed.

        Args:
            parameters: x, shape (d,).
            device: which device's data.
            round: which round; shuffles and augmentation are drawn anew in each.
            work: the share of the K steps that are taken, to the nearest whole step, at least one.
        """
        random = stream(self._seed, "training", round, device)
        steps = max(1, math.floor(work * self._steps + 0.5))
        batches = minibatches(
            self._partition.indices(device),
            steps=self._steps,
            batch_size=self._batch_size,
            random=random,
        )
        dataset = self._dataset
        with _reproducible(self._device, int(random.integers(2**63))):
            self._load(parameters)
            self._model.train()
            losses, of_samples = [], []
            for batch in itertools.islice(batches, steps):
                images = augment(
                    dataset.train_images[batch],
                    flip=dataset.flip,
                    crop_padding=dataset.crop_padding,
                    random=random,
                )
                loss, of_each = self._step(images, dataset.train_labels[batch])
                losses.append(loss)
                of_samples.append(of_each)
            delta = (self._flat - torch.from_numpy(parameters).to(self._device)).cpu().numpy()
        return LocalUpdate(
            delta=delta,
            loss=torch.stack(losses).double().mean().item(),
            square_loss=torch.stack(of_samples).double().square().mean().item(),
            steps=steps,
        )

    def loss(
        self,
        parameters: NDArray[np.float32],
        device: int,
        round: int,  # noqa: A002 - the project's word for t
        *,
        whole: bool,
    ) -> float:
        """Mean loss of the model on a device's own data, all of it or one minibatch of it."""
        samples = self._partition.indices(device)
        if not whole:
            random = stream(self._seed, "feedback", round, device)
            samples = random.choice(samples, self._batch_size)
        with _reproducible(self._device, 0), torch.inference_mode():
            self._load(parameters)
            self._model.eval()
            logits = self._model(self._prepared(self._dataset.train_images[samples]))
            labels = torch.from_numpy(self._dataset.train_labels[samples]).to(self._device)
            return functional.cross_entropy(logits, labels).double().item()

    def evaluate(self, parameters: NDArray[np.float32]) -> Evaluation:
        """Accuracy and mean loss on the test set."""
        return add_up(self.evaluate_chunk(parameters, start) for start in self.chunks())

    def chunks(self) -> range:
        """Where the chunks of the test set begin, by which it is evaluated."""
        return range(0, len(self._dataset.test_labels), EVALUATION_CHUNK)

    def evaluate_chunk(self, parameters: NDArray[np.float32], start: int) -> tuple[int, int, float]:
        """Images, correct answers and summed loss of the chunk that begins at ``start``."""
        part = slice(start, start + EVALUATION_CHUNK)
        labels = torch.from_numpy(self._dataset.test_labels[part].copy()).to(self._device)
        with _reproducible(self._device, 0), torch.inference_mode():
            self._load(parameters)
            self._model.eval()
            logits = self._model(self._prepared(self._dataset.test_images[part].copy()))
            losses = functional.cross_entropy(logits, labels, reduction="none")
            correct = int((logits.argmax(dim=1) == labels).sum())
            return len(labels), correct, losses.double().sum().item()

    def _load(self, parameters: NDArray[np.float32]) -> None:
        self._flat.copy_(torch.from_numpy(parameters))
        for counter, initial in self._counters:
            counter.copy_(initial)

    def _prepared(self, images: NDArray[Any]) -> Tensor:
        pixels = torch.from_numpy(images).to(self._device, torch.float32)
        return pixels.mul_(self._scale).add_(self._shift)

    def _step(self, images: NDArray[Any], labels: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """One step of descent; the mean loss and, but for their signs, those of its samples."""
        target = torch.from_numpy(labels).to(self._device)
        # The two parts of functional.cross_entropy, as the first has the loss of every sample.
        log_likelihood = functional.log_softmax(self._model(self._prepared(images)), dim=1)
        loss = functional.nll_loss(log_likelihood, target)
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter in self._trainable:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-self._learning_rate)
                    parameter.grad = None
            of_samples = log_likelihood.gather(1, target.unsqueeze(1))
        return loss.detach(), of_samples


def _check_sizes(steps: int, batch_size: int, dataset: Dataset) -> None:
    """Refuse what would take more memory than any machine should give, before it is taken."""
    for field, value in (("steps", steps), ("batch_size", batch_size)):
        if value < 1:
            raise InputError(f"{field} must be >= 1, got {value}")
    most = _MOST_BATCH_BYTES // (4 * math.prod(dataset.image_shape))
    if batch_size > most:
        raise InputError(
            f"batch_size must be at most {most:,} for images of shape {dataset.image_shape}, got "
            f"{batch_size:,}; a batch is held in memory"
        )
    if steps * batch_size > _MOST_SAMPLES:
        raise InputError(
            f"steps x batch_size must be at most {_MOST_SAMPLES:,}, got {steps:,} x "
            f"{batch_size:,}; the order of a round's samples is held in memory"
        )


def _torch_device(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu' or 'cuda', got {name!r}")
    if name == "cuda":
        if not torch.cuda.is_available():
            raise InputError("device 'cuda' is not available to torch here; use 'cpu'")
        # Without it, matrix products may differ from run to run.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return torch.device(name)


def _share_one_tensor(
    model: nn.Module, initial: NDArray[np.float32], device: torch.device
) -> Tensor:
    """Make every parameter and float buffer of the model a view of one new flat tensor."""
    flat = torch.tensor(initial, device=device)
    position = 0
    for parameter in model.parameters():
        view = flat[position : position + parameter.numel()].view(parameter.shape)
        parameter.data = view
        position += parameter.numel()
    named = dict(model.named_modules())
    for name, buffer in list(model.named_buffers()):
        if buffer.is_floating_point():
            owner, _, own_name = name.rpartition(".")
            view = flat[position : position + buffer.numel()].view(buffer.shape)
            named[owner]._buffers[own_name] = view
            position += buffer.numel()
    return flat


@contextlib.contextmanager
def _reproducible(device: torch.device, seed: int) -> Iterator[None]:
    """One thread, and a seeded torch (for dropout and the like), while the block runs.

    One thread on a CPU always adds in the same order; on CUDA the deterministic kernels are asked
    for. The caller's settings and random state are put back.
    """
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    on_cuda = device.type == "cuda"
    torch.set_num_threads(1)
    if on_cuda:
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_cuda else []):
            # Not torch.manual_seed: on a machine without CUDA it notes a stack trace at each call.
            torch.default_generator.manual_seed(seed)
            if on_cuda:
                torch.cuda.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
        if on_cuda:
            torch.use_deterministic_algorithms(deterministic)
