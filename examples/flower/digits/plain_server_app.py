"""The server app of a plain federation."""

from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from digits import task

app = ServerApp()


def evaluate(_server_round, arrays):
    model = {name: array.numpy() for name, array in arrays.items()}
    loss, accuracy = task.loss_and_accuracy(model, *task.load_test())
    return MetricRecord({"loss": loss, "accuracy": accuracy})


@app.main()
def main(grid, context):
    config = context.run_config
    strategy = FedAvg(fraction_evaluate=0.0)
    strategy.start(
        grid,
        ArrayRecord({name: Array(value) for name, value in task.new_model().items()}),
        num_rounds=config["num-rounds"],
        timeout=config["timeout-s"],
        evaluate_fn=evaluate,
    )
