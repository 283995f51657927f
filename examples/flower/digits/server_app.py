"""The server app of a federation that is scheduled by its channels."""

from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp

from digits import task
from fedsched.flower import ChannelStrategy

app = ServerApp()


def evaluate(_server_round, arrays):
    model = {name: array.numpy() for name, array in arrays.items()}
    loss, accuracy = task.loss_and_accuracy(model, *task.load_test())
    return MetricRecord({"loss": loss, "accuracy": accuracy})


@app.main()
def main(grid, context):
    config = context.run_config
    strategy = ChannelStrategy(
        config["policy"],
        folder=config["folder"] or None,
        draws=config["draws"] or None,
        uplink="paper",
        fraction_evaluate=0.0,
        min_available_nodes=config["min-nodes"],
        max_age_rounds=config["max-age-rounds"],
        query_timeout_s=config["timeout-s"],
        run_config=config,
    )
    strategy.start(
        grid,
        ArrayRecord({name: Array(value) for name, value in task.new_model().items()}),
        num_rounds=config["num-rounds"],
        timeout=config["timeout-s"],
        evaluate_fn=evaluate,
    )
