"""The server app: FedAvg, or the two lines that change."""

import json
import time
from contextlib import suppress
from pathlib import Path

from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from slow_task import accuracy, new_model

app = ServerApp()


class ReachedError(Exception):
    """The model is as good as it should be."""


@app.main()
def main(grid, context):
    config = context.run_config
    if config["strategy"] == "FedAvg":
        strategy = FedAvg(
            fraction_train=config["fraction"], fraction_evaluate=0.0,
            min_available_nodes=config["parts"],
        )  # fmt: skip
    else:
        from fedsched.flower import ChannelStrategy

        strategy = ChannelStrategy(
            folder=config["folder"] or None, fraction_evaluate=0.0,
            min_available_nodes=config["parts"],
        )  # fmt: skip

    latest = []  # three accuracies

    def evaluate(server_round, arrays):
        model = {name: each.numpy() for name, each in arrays.items()}
        found = accuracy(model, config["data"])
        latest[:] = [*latest[-2:], found]
        mean = sum(latest) / 3  # of the untrained model too, so that nobody is there at once
        row = {"round": server_round, "time_s": time.time(), "accuracy": found, "mean": mean}
        with Path(config["log"]).open("a") as log:
            log.write(json.dumps(row) + "\n")
        if mean >= config["target"]:
            raise ReachedError
        return MetricRecord({"accuracy": found})

    while len(list(grid.get_node_ids())) < config["parts"]:
        time.sleep(1.0)  # so that the time of the first line is that of the first round
    first = {name: Array(each) for name, each in new_model(config["seed"]).items()}
    with suppress(ReachedError):
        strategy.start(
            grid, ArrayRecord(first), num_rounds=config["rounds"], timeout=600.0,
            evaluate_fn=evaluate,
        )  # fmt: skip
