"""What a strategy itself costs in a Flower round, beside FedAvg in the same run.

    python -m benchmarks.flower_round             processor time of many nodes
    python -m benchmarks.flower_round --model 100 time and memory of a model of 100 MB

The grid lives in this process and replies at once. What it takes for itself is subtracted.
"""

import argparse
import gc
import logging
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fedsched.flower import ChannelStrategy
from fedsched.flower.protocol import CHANNEL_QUERY, RECORD, Report, assigned_round

# Messages are signed by the process that makes them.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
SMALL = {"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)}


class Instant(Grid):
    """Nodes that have trained before they were asked; ``own_s`` is what the grid took."""

    def __init__(self, nodes, trained):
        self._nodes, self._trained = list(range(2, nodes + 2)), trained
        self._waiting, self.own_s, self.rounds_s = {}, 0.0, []

    def get_node_ids(self) -> Iterable[int]:
        return list(self._nodes)

    def push_messages(self, messages) -> Iterable[str]:
        sent, began_s = list(messages), time.process_time()
        numbers = []
        for n, message in enumerate(sent):
            message.metadata.__dict__["_message_id"] = str(n)
            if message.metadata.message_type == CHANNEL_QUERY:
                asked = message.content[RECORD]["round"]
                content = RecordDict({RECORD: self._report(message, asked)})
            else:
                metrics = MetricRecord({"num-examples": 10, "train_loss": 1.0})
                content = RecordDict({"arrays": self._trained(n), "metrics": metrics})
                t = assigned_round(message)
                if t is not None:
                    content[RECORD] = self._report(message, t + 1)
            self._waiting[str(n)] = Message(content, reply_to=message)
            numbers.append(str(n))
        self.own_s += time.process_time() - began_s
        return numbers

    def _report(self, message, t):
        node = message.metadata.dst_node_id
        return Report(device=str(node), round=t, gain=0.5 + node % 7).record()

    def pull_messages(self, message_ids) -> Iterable[Message]:
        return [self._waiting.pop(number) for number in message_ids]

    def send_and_receive(self, messages, **_) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def get_nodes(self): ...
    def set_run(self, run) -> None: ...
    def create_message(self, *args, **kwargs): ...

    @property
    def run(self): ...


def record(model):
    return ArrayRecord({name: Array(each) for name, each in model.items()})


def cost_ms(make, nodes, rounds=7):
    """Processor time of a round without the grid's: the median after the first two."""
    reply = record({name: each + 1e-3 for name, each in SMALL.items()})
    grid = Instant(nodes, lambda _: reply)
    seen = []

    def note(*_):
        seen.append((time.process_time(), grid.own_s))

    made = make()
    made.start(grid, record(SMALL), num_rounds=rounds, timeout=60.0, evaluate_fn=note)
    took = [1e3 * (b[0] - a[0] - (b[1] - a[1])) for a, b in pairwise(seen)]
    return median(took[2:])


def fedavg(**options):
    return lambda: FedAvg(fraction_evaluate=0.0, **options)


def ours(*policy, **options):
    return lambda: ChannelStrategy(*policy, fraction_evaluate=0.0, **options)


def nodes_table():
    """Milliseconds a round, and how many times those of FedAvg with as many nodes."""
    print("| nodes | who trains | FedAvg, ms | here, ms | times |\n|---|---|---|---|---|")
    for nodes in (1000, 10_000):
        few = 10 / nodes
        for who, theirs, mine in (
            ("10", fedavg(fraction_train=few), ours(draws=10)),
            ("10 by `lyapunov`, nobody asked", fedavg(fraction_train=few),
             ours("lyapunov", draws=10, uplink="paper", max_age_rounds=100)),
            ("10 by `lyapunov`, all asked", fedavg(fraction_train=few),
             ours("lyapunov", draws=10, uplink="paper")),
            ("all, nothing set", fedavg(), ours()),
        ):  # fmt: skip
            base, own = cost_ms(theirs, nodes), cost_ms(mine, nodes)
            print(f"| {nodes:,} | {who} | {base:.1f} | {own:.1f} | {own / base:.2f} |", flush=True)


def one_model(name, megabytes, *, traced, nodes=4, rounds=9):
    """In a process of its own: processor seconds and peak memory of rounds with a large model."""
    parts = 8
    width = int(megabytes * 1e6 / 4 / parts)
    model = {f"{n}.weight": np.zeros(width, np.float32) for n in range(parts)}
    replies = [
        record({name: np.full(width, 1e-3 * (n + 1), np.float32) for name in model})
        for n in range(nodes)
    ]
    first = record(model)
    made = {"FedAvg": fedavg(), "ChannelStrategy()": ours(), "bounds off": ours(bounds="off")}[
        name
    ]()
    del model
    grid = Instant(nodes, lambda n: replies[n])
    seen = []

    def note(*_):
        seen.append((time.process_time(), grid.own_s))
        if traced:
            gc.collect()  # Flower's messages refer to themselves: chance decides when they go

    if traced:  # it takes time to trace
        tracemalloc.start()
    made.start(grid, first, num_rounds=rounds, timeout=60.0, evaluate_fn=note)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    took = [b[0] - a[0] - (b[1] - a[1]) for a, b in pairwise(seen)]
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{peak:.0f}" if traced else f"{fmean(took[1:]):.3f} {rss:.0f}")


def model_table(megabytes):
    print("| strategy | s a round | process, MB | peak of new memory, MB |\n|---|---|---|---|")
    for name in ("FedAvg", "ChannelStrategy()", "bounds off"):
        cells = []
        for how in ([], ["--traced"]):
            command = [sys.executable, "-m", "benchmarks.flower_round", "--model", str(megabytes)]
            command += ["--one", name, *how]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            cells += done.stdout.split()
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=float, help="MB of a large model")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    if given.one:
        one_model(given.one, given.model, traced=given.traced)
    elif given.model:
        model_table(given.model)
    else:
        nodes_table()


if __name__ == "__main__":
    main()
