"""What a process needs to know to train: a small value that travels to workers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import require
from fedsched.learning.dataset import Dataset, load_dataset
from fedsched.learning.partition import Partition, index_by_class

if TYPE_CHECKING:
    from fedsched.learning.local import LocalTrainer

__all__ = ["TrainerSpec"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainerSpec:
    """How to build a :class:`~fedsched.learning.local.LocalTrainer`, in any process.

    A data set named by a string is loaded where the trainer is built, so a worker gets a name and
    not the images; a :class:`Dataset` is copied to each worker.
    """

    dataset: str | Dataset
    model: str
    alpha: float  # of the Dirichlet partition
    devices: int
    steps: int
    batch_size: int
    learning_rate: float
    seed: int
    size: int | NDArray[np.int64] = 500  # samples of every device, or of each
    torch_device: str = "cpu"
    cache: Path | None = None

    def data(self) -> tuple[Dataset, Partition]:
        """Load the images, and who holds which."""
        dataset = (
            load_dataset(self.dataset, cache=self.cache)
            if isinstance(self.dataset, str)
            else self.dataset
        )
        partition = Partition(
            index=index_by_class(dataset.train_labels, dataset.classes),
            alpha=self.alpha,
            size=self.size,
            devices=self.devices,
            seed=self.seed,
        )
        return dataset, partition

    def build(self) -> "LocalTrainer":
        """Load the data, make the model and bring them together. Imports torch."""
        dataset, partition = self.data()
        # Late, so that a mistake in the data shows before torch is loaded.
        require("torch", extra="torch", purpose="training")
        from fedsched.learning.local import LocalTrainer
        from fedsched.learning.models import build_model

        return LocalTrainer(
            dataset=dataset,
            partition=partition,
            model=build_model(self.model, dataset, self.seed),
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
            device=self.torch_device,
        )
