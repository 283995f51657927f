"""The client app of a federation that is scheduled by its channels."""

import time

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from digits import task
from fedsched.flower import ChannelClientApp, SimulatedGain

app = ChannelClientApp(SimulatedGain("heterogeneous", seed=1))


@app.train()
def train(message, context):
    model = {name: array.numpy() for name, array in message.content["arrays"].items()}
    part = int(context.node_config["partition-id"])
    images, labels = task.load(part, int(context.node_config["num-partitions"]))
    time.sleep(context.run_config["pause-s"])
    model, loss = task.train(
        model,
        images,
        labels,
        steps=context.run_config["local-steps"],
        learning_rate=context.run_config["learning-rate"],
        seed=[part, message.content["config"]["server-round"]],
    )
    arrays = ArrayRecord({name: Array(value) for name, value in model.items()})
    metrics = MetricRecord({"num-examples": len(labels), "train_loss": float(loss)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
