"""pfl's federated averaging in two processes, started by ``torchrun`` as its manual has it."""

import sys

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional

from benchmarks.peers.batches import DeviceBatches
from benchmarks.peers.workload import (
    BATCH,
    COHORT,
    DEVICES,
    LEARNING_RATE,
    SEED,
    STEPS,
    Finished,
    Gate,
    one_thread,
)
from fedsched.learning.models import PaperCNN, build_model

MANY = 10**6


class Model(PaperCNN):
    steps = 0

    def loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return functional.cross_entropy(self(images), labels)

    @torch.no_grad()
    def metrics(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, Weighted]:
        """Asked for in the first round only, which is a warm-up."""
        loss = functional.cross_entropy(self(images), labels, reduction="sum")
        return {"loss": Weighted(loss.item(), len(labels))}


class UserData(Dataset):
    """A device's minibatches, prepared one by one while they are used."""

    def __init__(self, batches: DeviceBatches, user: int, visit: int) -> None:
        super().__init__(raw_data=(batches.labels[: STEPS * BATCH],))
        self._prepared = lambda: batches(user, visit)

    def iter(self, batch_size):  # noqa: ARG002 - pfl asks; the batches have that size
        return self._prepared()


class AtTheGate(TrainingProcessCallback):
    """Waits between rounds, and counts this process's steps."""

    def __init__(self, gate: Gate, model: Model) -> None:
        self._gate, self._model = gate, model

    def on_train_begin(self, **_: PyTorchModel) -> Metrics:
        self._gate.wait(0)
        return Metrics()

    def after_central_iteration(self, *_: object, **__: int) -> tuple[bool, Metrics]:
        steps, self._model.steps = self._model.steps, 0
        try:
            self._gate.wait(steps)
        except Finished:
            return True, Metrics()
        return False, Metrics()


def main(address: str) -> None:
    one_thread()
    batches = DeviceBatches()
    module = Model(batches.dataset)
    module.load_state_dict(build_model("paper-cnn", batches.dataset, SEED).state_dict())
    model = PyTorchModel(
        model=module,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    visits = iter(range(MANY))
    data = FederatedDataset(
        lambda user: UserData(batches, int(user), next(visits)),
        get_user_sampler("minimize_reuse", list(range(DEVICES))),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=MANY,
            evaluation_frequency=MANY,
            train_cohort_size=COHORT,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=None,
            local_num_steps=STEPS,
            local_learning_rate=LEARNING_RATE,
            local_batch_size=BATCH,
        ),
        callbacks=[AtTheGate(Gate(address), module)],
    )


if __name__ == "__main__":
    main(sys.argv[1])
