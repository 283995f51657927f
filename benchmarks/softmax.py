"""Runs of a softmax regression on digits, which train all devices of a round at once.

They are the runs of ``fedsched run``, with its batches and its schedule; the updates agree but for
rounding in float32. A device costs a fraction of the processor time, and a run may end early.
"""

import numpy as np

from fedsched.learning.dataset import load_dataset
from fedsched.learning.local import minibatches
from fedsched.learning.models import build_model, flatten
from fedsched.learning.partition import Partition, index_by_class
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.updates import Evaluation, LocalUpdate
from fedsched.randomness import stream
from fedsched.rounds import train
from fedsched.runs.assembly import air_of, channel_of, training_of
from fedsched.runs.scenario_file import load_scenario


def _prepared(dataset, images):
    flat = images.reshape(len(images), -1).astype(np.float32)
    return (flat - np.float32(dataset.mean[0])) / np.float32(dataset.deviation[0])


def _log_likelihood(images, weight, bias):
    """Of all classes; images (..., n, pixels), weight (..., classes, pixels)."""
    score = images @ weight.swapaxes(-1, -2) + bias[..., None, :]
    score -= score.max(axis=-1, keepdims=True)
    return score - np.log(np.exp(score).sum(axis=-1, keepdims=True))


class SoftmaxPool(AbstractTrainingPool):
    """One linear layer on the pixels."""

    def __init__(self, scenario, devices):
        data, self.seed, self.training = (
            load_dataset("digits"),
            scenario.run.seed,
            scenario.training,
        )
        self.images, self.labels = _prepared(data, data.train_images), data.train_labels
        self.test_images, self.test_labels = _prepared(data, data.test_images), data.test_labels
        self.classes, self.model = data.classes, flatten(build_model("softmax", data, self.seed))
        partition = Partition(
            index=index_by_class(data.train_labels, data.classes), alpha=scenario.data.alpha,
            size=scenario.data.samples, devices=devices, seed=self.seed,
        )  # fmt: skip
        self.samples = [partition.indices(device) for device in range(devices)]

    @property
    def initial_parameters(self):
        return self.model.copy()

    def _layer(self, parameters):
        split = len(parameters) - self.classes
        return parameters[:split].reshape(self.classes, -1), parameters[split:]

    def _batches(self, device, t):
        batches = minibatches(
            self.samples[device], steps=self.training.steps, batch_size=self.training.batch_size,
            random=stream(self.seed, "training", t, device),
        )  # fmt: skip
        return np.stack(list(batches))

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002
        if len(devices) == 0 or work is not None:
            assert work is None, "all devices take all their steps"
            return
        batch = np.stack([self._batches(int(device), round) for device in devices])
        weight, bias = (np.stack([each] * len(devices)) for each in self._layer(parameters))
        truth = np.eye(self.classes, dtype=np.float32)
        losses = []
        for step in range(self.training.steps):
            images, labels = self.images[batch[:, step]], self.labels[batch[:, step]]
            log_likelihood = _log_likelihood(images, weight, bias)
            losses.append(-(log_likelihood * truth[labels]).sum(axis=-1, dtype=np.float64))
            slope = (np.exp(log_likelihood) - truth[labels]) / np.float32(labels.shape[1])
            weight -= np.float32(self.training.learning_rate) * (slope.swapaxes(1, 2) @ images)
            bias -= np.float32(self.training.learning_rate) * slope.sum(axis=1)
        after = np.concatenate([weight.reshape(len(devices), -1), bias], axis=1)
        of_each = np.moveaxis(np.array(losses), 1, 0)  # device, step, sample
        for place, loss in enumerate(of_each):
            yield LocalUpdate(
                delta=after[place] - parameters, loss=float(loss.mean()),
                square_loss=float(np.square(loss).mean()), steps=self.training.steps,
            )  # fmt: skip

    def losses(self, parameters, devices, round, *, whole):  # noqa: A002
        raise NotImplementedError

    def evaluate(self, parameters):
        found = _log_likelihood(self.test_images, *self._layer(parameters))
        right = found.argmax(axis=1) == self.test_labels
        loss = -found[np.arange(len(found)), self.test_labels].mean(dtype=np.float64)
        return Evaluation(accuracy=float(right.mean()), loss=float(loss))

    def close(self):
        pass


def rounds_of(policy, *, alpha, seed, rounds, compute_s=0.0, eval_every=5, **training):
    """The rounds of a run with fifty devices, one after the other."""
    scenario = load_scenario({
        "run": {"rounds": rounds, "seed": seed, "eval_every": eval_every},
        "channel": {"devices": 50},
        "uplink": {"bits": 17765696.0, "computation_s": compute_s},
        "data": {"samples": 100, "alpha": alpha},
        "training": {"model": "softmax", "learning_rate": 0.05, **training},
        "policy": policy,
    }).as_read()  # fmt: skip
    channel = channel_of(scenario)
    pool = SoftmaxPool(scenario, channel.devices)
    air = air_of(scenario, channel, len(pool.model))
    for done, _ in train(air, training_of(scenario, pool), pool.initial_parameters):
        yield done
