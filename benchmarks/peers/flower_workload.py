"""Flower's simulation: FedAvg over 100 nodes, two Ray actors of one processor each.

The client keeps its data and model between messages (a plain Flower app makes them anew each
time), so that what is measured is the framework.
"""

import functools
import sys

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional

from benchmarks.peers.batches import DeviceBatches
from benchmarks.peers.workload import (
    COHORT,
    DEVICES,
    LEARNING_RATE,
    PROCESSES,
    SEED,
    SPEC,
    Gate,
    one_thread,
)
from fedsched.learning.cifar10 import read_cifar10
from fedsched.learning.models import build_model

ROUNDS = 10**6

client = ClientApp()


@functools.cache
def workbench() -> tuple[DeviceBatches, nn.Module]:
    """Data and model of one actor's process."""
    one_thread()
    batches = DeviceBatches()
    return batches, build_model(SPEC.model, batches.dataset, SEED)


@client.train()
def train(message: Message, context: Context) -> Message:
    batches, model = workbench()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    device = int(context.node_config["partition-id"])
    steps = 0
    for images, labels in batches(device, int(message.content["config"]["server-round"])):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        steps += 1
    metrics = MetricRecord({"num-examples": 1, "steps": steps})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


class GatedFedAvg(FedAvg):
    """Federated averaging that waits before each round."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(
            fraction_train=COHORT / DEVICES,
            fraction_evaluate=0.0,
            min_train_nodes=COHORT,
            min_available_nodes=DEVICES,
        )
        self._gate, self._steps = gate, 0

    def configure_train(self, *arguments, **named):
        self._gate.wait(self._steps)
        return super().configure_train(*arguments, **named)

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        content = [reply.content for reply in replies if reply.has_content()]
        self._steps = sum(int(records["metrics"]["steps"]) for records in content)
        return super().aggregate_train(server_round, replies)


def main(address: str) -> None:
    one_thread()
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _: Context) -> None:
        model = build_model(SPEC.model, read_cifar10(), SEED)
        strategy = GatedFedAvg(Gate(address))
        strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=ROUNDS)

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=DEVICES,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": PROCESSES, "include_dashboard": False},
        },
    )


if __name__ == "__main__":
    # By its name, so that the actors import the app instead of unpickling all of this module.
    from benchmarks.peers import flower_workload

    flower_workload.main(sys.argv[1])
