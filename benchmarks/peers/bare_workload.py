"""Federated averaging as one would write it without a library: two processes, shared tensors.

"same": the arithmetic, the samples and the augmentation of fedsched's own workers.
"textbook": the model and the augmentation as most tutorials have them: images normalised to
float32 beforehand, cropped and flipped one by one in torch, and relu before pooling.
"""

import sys

import torch
from torch import Tensor, multiprocessing, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from benchmarks.peers.batches import DeviceBatches
from benchmarks.peers.workload import (
    COHORT,
    LEARNING_RATE,
    PROCESSES,
    SEED,
    Finished,
    Gate,
    cohort,
    one_thread,
    own_session,
)
from fedsched.learning.models import build_model


class TextbookCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 5, padding=2)
        self.hidden = nn.Linear(2048, 256)
        self.output = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.output(functional.relu(self.hidden(x.flatten(1))))


class TextbookBatches(DeviceBatches):
    """Each image of a minibatch padded, cropped and flipped on its own."""

    def __init__(self) -> None:
        super().__init__()
        images = torch.tensor(self.dataset.train_images).float()
        self._images = images.mul_(self._scale).add_(self._shift)

    def prepared(self, batch, random) -> Tensor:
        return torch.stack([self._transformed(self._images[i], random) for i in batch])

    def _transformed(self, image: Tensor, random) -> Tensor:
        row, column = random.integers(0, 9, 2)
        image = functional.pad(image, (4, 4, 4, 4))[:, row : row + 32, column : column + 32]
        return image.flip(2) if random.random() < 0.5 else image


def work(rank: int, variant: str, address: str, shared: Tensor, barrier) -> None:
    """Train every second device of each cohort; the first process averages."""
    own_session()
    one_thread()
    gate = Gate(address)
    batches = DeviceBatches() if variant == "same" else TextbookBatches()
    same = variant == "same"
    model = build_model("paper-cnn", batches.dataset, SEED) if same else TextbookCNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    if rank == 0:
        shared[-1] = parameters_to_vector(model.parameters()).detach()
    barrier.wait()
    round_ = steps = 0
    while True:
        try:
            gate.wait(steps)
        except Finished:
            return
        total = torch.zeros_like(shared[-1])
        steps = 0
        for device in cohort(round_)[rank::PROCESSES]:
            vector_to_parameters(shared[-1].clone(), model.parameters())
            for images, labels in batches(int(device), round_):
                optimizer.zero_grad()
                functional.cross_entropy(model(images), labels).backward()
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
