"""The client app: as for FedAvg."""

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from slow_task import part_of, train

app = ClientApp()


@app.train()
def trained(message, context):
    config, part = context.run_config, int(context.node_config["partition-id"])
    images, labels = part_of(config["data"], part, config["parts"])
    model = {name: each.numpy() for name, each in message.content["arrays"].items()}
    seed = [config["seed"], message.content["config"]["server-round"], part]
    arrays = {name: Array(each) for name, each in train(model, images, labels, seed).items()}
    metrics = MetricRecord({"num-examples": len(labels)})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
