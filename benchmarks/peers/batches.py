"""Prepared minibatches of a device, with fedsched's samples, shuffles and augmentation."""

from collections.abc import Iterator

import torch

from benchmarks.peers.workload import BATCH, DEVICES, SEED, STEPS
from fedsched.learning.cifar10 import read_cifar10
from fedsched.learning.local import augment, minibatches
from fedsched.learning.partition import Partition, index_by_class
from fedsched.randomness import stream


class DeviceBatches:
    """The minibatches of any device in any round, the same for every engine that asks."""

    def __init__(self) -> None:
        self.dataset = read_cifar10()
        self.labels = torch.tensor(self.dataset.train_labels)
        self._partition = Partition(
            index=index_by_class(self.dataset.train_labels, 10),
            alpha=float("inf"),
            size=500,
            devices=DEVICES,
            seed=SEED,
        )
        scale = torch.tensor(1.0 / self.dataset.deviation, dtype=torch.float32)
        shift = torch.tensor(-self.dataset.mean / self.dataset.deviation, dtype=torch.float32)
        self._scale, self._shift = scale.view(-1, 1, 1), shift.view(-1, 1, 1)

    def __call__(self, device: int, round_: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        random = stream(SEED, "training", round_, device)
        samples = self._partition.indices(device)
        walk = minibatches(samples, steps=STEPS, batch_size=BATCH, random=random)
        random.integers(2**63)  # fedsched's workers draw a seed for torch here
        for batch in walk:
            yield self.prepared(batch, random), self.labels[batch]

    def prepared(self, batch, random) -> torch.Tensor:
        images = self.dataset.train_images[batch]
        images = augment(images, flip=True, crop_padding=4, random=random)
        return torch.from_numpy(images).float().mul_(self._scale).add_(self._shift)
