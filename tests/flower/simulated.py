"""Flower's simulation of a scenario, with the simulator's own devices. Imported by its processes.

The folder in FEDSCHED_PLACE holds scenario.toml; the run folder "flower" is left beside it.
"""

import os
from functools import cache
from pathlib import Path

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from fedsched.flower import ChannelClientApp, ChannelStrategy, SimulatedGain, assignment_of
from fedsched.runs.assembly import policy_of, trainer_spec_of, uplink_of
from fedsched.runs.scenario_file import load_scenario

PLACE = Path(os.environ["FEDSCHED_PLACE"])
SCENARIO = load_scenario(PLACE / "scenario.toml")
DEVICES = SCENARIO.channel.devices
SPEC = trainer_spec_of(SCENARIO, DEVICES, "cpu")


@cache
def trainer():
    return SPEC.build()


client = ChannelClientApp(
    SimulatedGain(SCENARIO.channel.kind, seed=SCENARIO.run.seed, devices=DEVICES)
)


@client.train()
def train(message, context):
    x = message.content["arrays"]["x"].numpy()
    device = int(context.node_config["partition-id"])
    update = trainer().train(x, device, assignment_of(message).round)
    content = {
        "arrays": ArrayRecord({"x": Array(x + update.delta)}),
        "metrics": MetricRecord({"train_loss": update.loss, "num-examples": 1}),
    }
    return Message(RecordDict(content), reply_to=message)


server = ServerApp()


@server.main()
def main(grid, context):  # noqa: ARG001 - Flower passes it
    x = trainer().initial_parameters
    uplink = uplink_of(SCENARIO, len(x))
    strategy = ChannelStrategy(
        policy_of(SCENARIO, uplink),
        folder=PLACE / "flower",
        seed=SCENARIO.run.seed,
        uplink=uplink,
        min_available_nodes=DEVICES,
        bounds=SCENARIO.training.bounds,
        fraction_evaluate=0.0,
        query_timeout_s=240,  # the first answer waits for processes that import torch
    )

    def evaluate(server_round, arrays):
        if server_round == 0:
            return None
        found = trainer().evaluate(arrays["x"].numpy())
        return MetricRecord({"accuracy": found.accuracy, "loss": found.loss})

    strategy.start(
        grid,
        ArrayRecord({"x": Array(x)}),
        num_rounds=SCENARIO.run.rounds,
        timeout=240,
        evaluate_fn=evaluate,
    )


def run():
    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=DEVICES,
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": 2, "include_dashboard": False},
        },
    )
