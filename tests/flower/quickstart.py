"""Flower's quickstart with PyTorch, written anew from its documentation, on handwritten digits.

    python -m tests.flower.quickstart    the table of docs/flower.md: strategies, three seeds

A small convolutional network, ten nodes with a tenth of the data each, one local epoch of SGD with
momentum at a step size that somebody chose for FedAvg, batches of 16, 30 rounds.
"""

import argparse
import logging
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits
from tests.flower.loopback import Loopback
from torch import nn
from torch.nn import functional

from fedsched.flower import ChannelClientApp, ChannelStrategy, SimulatedGain

NODES, ROUNDS, RATE, BATCH = 10, 30, 0.05, 16
# Seconds of each node: half a second of work, and an upload of 20 Mbit at 1 to 50 Mbit/s.
TAKES = [(0.5, 20.0 / mbit_s) for mbit_s in np.geomspace(1.0, 50.0, NODES).tolist()]


class Net(nn.Module):
    """Two convolutions and three dense layers."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 16, 3, padding=1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc2(functional.relu(self.fc1(x.flatten(1)))))
        return self.fc3(x)


@cache
def data():
    """Training images and labels, then test images and labels, in one order for all."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = torch.tensor(images[order], dtype=torch.float32).reshape(-1, 1, 8, 8) / 8.0 - 1.0
    labels = torch.tensor(labels[order])
    return images[360:], labels[360:], images[:360], labels[:360]


def record(net):
    return ArrayRecord({name: Array(x.numpy()) for name, x in net.state_dict().items()})


def loaded(arrays):
    net = Net()
    net.load_state_dict({name: torch.tensor(x.numpy()) for name, x in arrays.items()})
    return net


def train(message: Message, context: Context) -> Message:
    """One epoch over the node's own data."""
    part, config = int(context.node_config["partition-id"]), message.content["config"]
    net = loaded(message.content["arrays"])
    images, labels = (each[part::NODES] for each in data()[:2])
    torch.manual_seed(1000 * int(config["app-seed"]) + 100 * int(config["server-round"]) + part)
    step = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for batch in torch.randperm(len(labels)).split(BATCH):
        step.zero_grad()
        loss = functional.cross_entropy(net(images[batch]), labels[batch])
        loss.backward()
        step.step()
        losses.append(float(loss.detach()))
    metrics = MetricRecord({"train_loss": float(np.mean(losses)), "num-examples": len(labels)})
    return Message(RecordDict({"arrays": record(net), "metrics": metrics}), reply_to=message)


def evaluate(_server_round, arrays):
    """Accuracy on the test images."""
    with torch.no_grad():
        logits = loaded(arrays)(data()[2])
    loss = float(functional.cross_entropy(logits, data()[3]).nan_to_num(posinf=1e9))
    return MetricRecord({"accuracy": float((logits.argmax(1) == data()[3]).float().mean()),
                         "loss": loss})  # fmt: skip


def client(*, radio):
    """The client app: Flower's own, or one that reports a gain."""
    app = ChannelClientApp(SimulatedGain("heterogeneous", seed=1)) if radio else ClientApp()
    app.train()(train)
    return app


def measured(name, folder, seed, rounds=ROUNDS):
    """The mean accuracy of the last five rounds, and the mean seconds of the slowest node asked."""
    torch.manual_seed(seed)
    grid = Loopback(NODES, client(radio="radio" in name))
    for node, takes in zip(grid.nodes.values(), TAKES, strict=True):
        node.takes = takes
    done = STRATEGIES[name](folder, seed + 1).start(
        grid, record(Net()), num_rounds=rounds, timeout=60.0,
        train_config=ConfigRecord({"app-seed": seed}), evaluate_fn=evaluate,
    )  # fmt: skip
    found = [done.evaluate_metrics_serverapp[t]["accuracy"] for t in range(rounds - 4, rounds + 1)]
    slowest = [max(sum(grid.nodes[n].takes) for n in cohort) for cohort in grid.asked("train")]
    return float(np.mean(found)), float(np.mean(slowest))


def scheduled(folder, seed, **settings):
    return ChannelStrategy(folder=folder, seed=seed, fraction_evaluate=0.0, **settings)


PAPER = {"design": "with-replacement", "lam": 100.0, "v": 100.0, "start": "empty", "qmin": 0.0}
STRATEGIES = {  # by what the table calls them; each from a run folder and a seed of cohorts
    "FedAvg, all nodes": lambda *_: FedAvg(fraction_evaluate=0.0),
    "FedAvg, half of the nodes": lambda *_: FedAvg(fraction_train=0.5, fraction_evaluate=0.0),
    "ChannelStrategy, nothing set": scheduled,
    "ChannelStrategy, half of the nodes": lambda *of: scheduled(*of, fraction_train=0.5),
    "radio known, nothing else set": lambda *of: scheduled(*of, uplink="paper"),
    "radio known, lyapunov": lambda *of: scheduled(*of, policy="lyapunov", uplink="paper"),
    "radio known, the paper's settings, ten draws": lambda *of: scheduled(
        *of, policy="lyapunov", uplink="paper", draws=10, options=PAPER
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    print("| strategy | accuracy, seed by seed | mean | slowest node, s |\n|---|---|---|---|")  # noqa: T201
    for name in STRATEGIES:
        with tempfile.TemporaryDirectory() as place:
            rows = [measured(name, Path(place) / str(seed), seed) for seed in range(given.seeds)]
        each, slowest = zip(*rows, strict=True)
        shown = " / ".join(f"{one:.3f}" for one in each)
        print(f"| {name} | {shown} | {np.mean(each):.3f} | {np.mean(slowest):.1f} |")  # noqa: T201


if __name__ == "__main__":
    main()
