"""Federated averaging as one would write it without a library: two processes, shared tensors.

"same": the arithmetic, the samples and the augmentation of fedsched's own workers.
"textbook": the model and the augmentation as most tutorials have them: images normalised to
float32 beforehand, cropped and flipped one by one in torch, relu before pooling, and
``load_state_dict`` between rounds.
"""

import sys

import torch
from torch import multiprocessing, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from benchmarks.peers.workload import (
    BATCH,
    COHORT,
    DEVICES,
    LEARNING_RATE,
    PROCESSES,
    SEED,
    STEPS,
    Finished,
    Gate,
    cohort,
    one_thread,
)
from fedsched.learning.cifar10 import read_cifar10
from fedsched.learning.local import augment, minibatches
from fedsched.learning.models import build_model
from fedsched.learning.partition import Partition, index_by_class
from fedsched.randomness import stream


class TextbookCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 5, padding=2)
        self.hidden = nn.Linear(2048, 256)
        self.output = nn.Linear(256, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.output(functional.relu(self.hidden(x.flatten(1))))


class SameBatches:
    """A minibatch as fedsched's workers prepare it: bytes, augmented together, then scaled."""

    def __init__(self, dataset):
        self._images = dataset.train_images
        scale = torch.tensor(1.0 / dataset.deviation, dtype=torch.float32)
        shift = torch.tensor(-dataset.mean / dataset.deviation, dtype=torch.float32)
        self._scale, self._shift = scale.view(-1, 1, 1), shift.view(-1, 1, 1)

    def __call__(self, batch, random):
        images = augment(self._images[batch], flip=True, crop_padding=4, random=random)
        return torch.from_numpy(images).float().mul_(self._scale).add_(self._shift)


class TextbookBatches:
    """Each image of a minibatch padded, cropped and flipped on its own."""

    def __init__(self, dataset):
        mean = torch.tensor(dataset.mean, dtype=torch.float32).view(-1, 1, 1)
        deviation = torch.tensor(dataset.deviation, dtype=torch.float32).view(-1, 1, 1)
        self._images = (torch.tensor(dataset.train_images).float() - mean) / deviation

    def __call__(self, batch, random):
        return torch.stack([self._transformed(self._images[i], random) for i in batch])

    def _transformed(self, image, random):
        row, column = random.integers(0, 9, 2)
        image = functional.pad(image, (4, 4, 4, 4))[:, row : row + 32, column : column + 32]
        return image.flip(2) if random.random() < 0.5 else image


def work(rank, variant, address, shared, barrier):
    """Train every second device of each cohort; the first process averages."""
    one_thread()
    gate = Gate(address)
    dataset = read_cifar10()
    labels = torch.tensor(dataset.train_labels)
    partition = Partition(
        index=index_by_class(dataset.train_labels, 10),
        alpha=float("inf"),
        size=500,
        devices=DEVICES,
        seed=SEED,
    )
    model = build_model("paper-cnn", dataset, SEED) if variant == "same" else TextbookCNN()
    batches = SameBatches(dataset) if variant == "same" else TextbookBatches(dataset)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    if rank == 0:
        shared[-1] = parameters_to_vector(model.parameters()).detach()
    barrier.wait()
    round_, steps = 0, 0
    while True:
        try:
            gate.wait(steps)
        except Finished:
            return
        total = torch.zeros_like(shared[-1])
        steps = 0
        for device in cohort(round_)[rank::PROCESSES]:
            vector_to_parameters(shared[-1].clone(), model.parameters())
            random = stream(SEED, "training", round_, int(device))
            walk = minibatches(
                partition.indices(int(device)), steps=STEPS, batch_size=BATCH, random=random
            )
            random.integers(2**63)  # fedsched's workers draw a seed for torch here
            for batch in walk:
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(batches(batch, random)), labels[batch])
                loss.backward()
                optimizer.step()
                steps += 1
            total += parameters_to_vector(model.parameters()).detach() - shared[-1]
        shared[rank] = total
        barrier.wait()
        if rank == 0:
            shared[-1] += shared[:PROCESSES].sum(0) / COHORT
        barrier.wait()
        round_ += 1


def main(variant: str, address: str) -> None:
    context = multiprocessing.get_context("spawn")
    shared = torch.zeros(PROCESSES + 1, 555_178).share_memory_()  # sums, then the parameters
    barrier = context.Barrier(PROCESSES)
    workers = [
        context.Process(target=work, args=(rank, variant, address, shared, barrier))
        for rank in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
