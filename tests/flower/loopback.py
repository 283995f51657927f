"""A federation in one process: a grid that hands messages to client apps, and nodes that fail."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedsched.flower import ChannelClientApp, ChannelStrategy, assignment_of
from fedsched.flower import exchange as exchanges

# The link makes up this error for a node that is gone, and signs it itself.
LINK, UNAVAILABLE, RAISED = 1, 5, 2
# Messages are signed by the process that makes them.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, LINK, 1

# A model with a name with dots, and a counter as batch normalisation has one.
MODEL = {
    "net.0.weight": np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3),
    "net.0.bias": np.array([0.25, -0.5], dtype=np.float32),
    "net.1.num_batches_tracked": np.array(7, dtype=np.int64),
}


def record(arrays=None):
    """A model as Flower carries it."""
    given = MODEL if arrays is None else arrays
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in given.items()})


def delta_of(device: str, round_: int, name: str) -> np.ndarray:
    """What training changes in an array: a function of device and round alone."""
    rng = np.random.default_rng([*device.encode(), round_, *name.encode()])
    return rng.normal(size=MODEL[name].shape).astype(np.float32)


def trained(message: Message, context: Context) -> Message:
    """A reply to a train message whose floats have moved by ``delta_of``."""
    device, t = str(context.node_config["partition-id"]), assignment_of(message).round
    arrays = {
        name: each.numpy() + 1
        if each.dtype == "int64"
        else each.numpy() + delta_of(device, t, name)
        for name, each in message.content["arrays"].items()
    }
    metrics = MetricRecord({"train_loss": 1.0 + 0.1 * int(device) + 0.01 * t, "num-examples": 10})
    return Message(RecordDict({"arrays": record(arrays), "metrics": metrics}), reply_to=message)


def gain(context: Context, round_: int) -> float:
    """Gains that differ between devices and rounds."""
    device = int(context.node_config["partition-id"])
    return 0.5 + (3 * device + 5 * round_) % 7


def app(gain=gain, **options) -> ChannelClientApp:
    """The client app of all nodes."""
    made = ChannelClientApp(gain, **options)
    made.train()(trained)

    @made.evaluate()
    def evaluate(message, context):
        device = int(context.node_config["partition-id"])
        metrics = MetricRecord({"accuracy": 0.1 * device, "num-examples": 1 + device})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return made


# --- ways to fail: each makes a node's reply from the message and what the app replied ---------


def silent(message: Message, reply: Callable[[], Message]) -> None:
    """It never replies."""


def raises(message: Message, _: Callable[[], Message]) -> Message:
    """Its app raises."""
    return Message(Error(RAISED, "ValueError: no data"), reply_to=message)


def dead(message: Message, _: Callable[[], Message]) -> Message:
    """It is gone, and the link says so in its own name."""
    answer = Message(Error(UNAVAILABLE, "Node Unavailable"), reply_to=message)
    answer.metadata.__dict__["_src_node_id"] = LINK
    return answer


def changed(change: Callable[[RecordDict], None]) -> Callable:
    """It replies, with something else in it."""

    def fail(_: Message, reply: Callable[[], Message]) -> Message:
        answer = reply()
        change(answer.content)
        return answer

    return fail


def _arrays(change):
    def apply(content):
        arrays = {name: each.numpy() for name, each in content["arrays"].items()}
        content["arrays"] = record(change(arrays))

    return changed(apply)


def _nan(arrays):
    return {n: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a) if a.dtype == np.float32
            else a for n, a in arrays.items()}  # fmt: skip


def _unreadable(content):
    arrays = dict(content["arrays"])
    arrays["net.0.bias"] = Array(dtype="float32", shape=(2,), stype="numpy.ndarray", data=b"cut")
    content["arrays"] = ArrayRecord(arrays)


nan = _arrays(_nan)
wrong_shape = _arrays(
    lambda arrays: {n: np.zeros((5, *a.shape), a.dtype) for n, a in arrays.items()}
)
wrong_names = _arrays(lambda arrays: {f"other.{n}": a for n, a in arrays.items()})
fewer_arrays = _arrays(lambda arrays: dict(list(arrays.items())[:1]))
texts = _arrays(lambda arrays: {n: np.full(a.shape, "x") for n, a in arrays.items()})
complex_numbers = _arrays(lambda arrays: {n: a + 0.0j for n, a in arrays.items()})
too_large = _arrays(lambda arrays: {n: np.full_like(a, 3e38) if a.dtype == np.float32 else a
                                    for n, a in arrays.items()})  # fmt: skip
unreadable = changed(_unreadable)
no_arrays = changed(lambda content: content.pop("arrays"))
nothing = changed(lambda content: content.clear())
FAILURES = {
    "silent": silent, "raises": raises, "dead": dead, "nan": nan, "wrong_shape": wrong_shape,
    "wrong_names": wrong_names, "fewer_arrays": fewer_arrays, "texts": texts,
    "complex_numbers": complex_numbers, "unreadable": unreadable, "no_arrays": no_arrays,
    "nothing": nothing,
}  # fmt: skip


@dataclass
class Node:
    """A node: its context, and how it fails at each kind of message ("train", "query", ...).

    ``takes`` are its seconds until a reply is written, and from then until it is there.
    """

    context: Context
    app: ClientApp
    fails: dict[str, Callable] = field(default_factory=dict)
    takes: tuple[float, float] = (0.0, 0.0)


class Clock(exchanges.Clock):
    """Time that passes only where somebody waits; those who wait side by side wait together."""

    def __init__(self) -> None:
        self._now = 2.0**31
        self._waits: list[_Wait] = []

    def now_s(self) -> float:
        self._now = max([self._now, *(each.now for each in self._waits)])
        self._waits = []
        return self._now

    def side_by_side(self):
        self._waits.append(_Wait(self._now))
        return self._waits[-1]


class _Wait(exchanges.Clock):
    """The clock of one who waits; ``looked`` is what it told the present thread last."""

    looked = threading.local()

    def __init__(self, now: float) -> None:
        self.now = now

    def now_s(self) -> float:
        self.looked.s = self.now
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


# Nobody sits out the timeouts of nodes that live in this process.
CLOCK = exchanges.clock = Clock()


class StoppedError(Exception):
    """What a test stops a server with."""


class Loopback(Grid):
    """A grid whose nodes live in this process.

    ``before`` is called with the number of the exchange and its messages, and may change the nodes
    or raise; ``order`` rearranges the replies.
    """

    def __init__(self, devices=3, client=None, *, before=None, order=None) -> None:
        self.client = client or app()
        self.partitions = devices
        self.nodes: dict[int, Node] = {}
        self.sent: list[list[Message]] = []
        self.before, self.order = before, order
        self._waiting: dict[str, tuple[float, Message]] = {}
        for device in range(devices):
            self.join(device)

    def join(self, device: int, node_id: int | None = None) -> int:
        """A node comes; the same device again is one that was restarted."""
        node_id = 100 + device if node_id is None else node_id
        config = {"partition-id": device, "num-partitions": self.partitions}
        context = Context(
            run_id=1, node_id=node_id, node_config=config, state=RecordDict(), run_config={}
        )
        self.nodes[node_id] = Node(context, self.client)
        return node_id

    def leave(self, node_id: int) -> None:
        """A node goes."""
        del self.nodes[node_id]

    def fail(self, how, *kinds: str, node_id: int) -> None:
        """A node fails at these kinds of messages from now on; ``how`` None heals it."""
        for kind in kinds or ("train", "query", "evaluate"):
            self.nodes[node_id].fails[kind] = how

    def asked(self, kind: str) -> list[list[int]]:
        """Which nodes got messages of a kind, exchange by exchange."""
        return [
            [m.metadata.dst_node_id for m in batch]
            for batch in self.sent
            if batch and batch[0].metadata.message_type == kind
        ]

    # --- what Flower asks for ------------------------------------------------------------------

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None) -> Iterable[Message]:
        assert timeout is not None and timeout > 0
        return [self._waiting.pop(n)[1] for n in self.push_messages(messages) if n in self._waiting]

    def push_messages(self, messages) -> Iterable[str]:
        batch = list(messages)
        self.sent.append(batch)
        if self.before is not None:
            self.before(self, batch)
        numbers = [f"{len(self.sent)}.{n}" for n in range(len(batch))]
        for number, message in zip(numbers, batch, strict=True):
            message.metadata.__dict__["_message_id"] = number
        replies = [reply for each in batch if (reply := self._deliver(each)) is not None]
        now = CLOCK.now_s()
        for reply in self.order(replies) if self.order else replies:
            node = self.nodes.get(reply.metadata.src_node_id)
            work_s, upload_s = (0.0, 0.0) if node is None else node.takes
            reply.metadata.created_at = now + work_s
            self._waiting[reply.metadata.reply_to_message_id] = (now + work_s + upload_s, reply)
        return numbers

    def pull_messages(self, message_ids) -> Iterable[Message]:
        wanted, now = set(message_ids), _Wait.looked.s
        there = [n for n, (when, _) in list(self._waiting.items()) if n in wanted and when <= now]
        return [self._waiting.pop(number)[1] for number in there]

    def _deliver(self, message: Message) -> Message | None:
        node = self.nodes.get(message.metadata.dst_node_id)
        if node is None:
            return dead(message, lambda: message)

        def reply() -> Message:
            return node.app(_through_wire(message), node.context)

        fail = node.fails.get(message.metadata.message_type.partition(".")[0])
        try:
            answer = reply() if fail is None else fail(message, reply)
        except Exception as error:
            answer = Message(Error(RAISED, f"{type(error).__name__}: {error}"), reply_to=message)
        return None if answer is None else _through_wire(answer)

    def set_run(self, run) -> None: ...
    def create_message(self, *args, **kwargs): ...

    @property
    def run(self): ...


def _through_wire(message: Message) -> Message:
    """The message as the other side reads it."""
    return message_from_proto(message_to_proto(message))


def strategy(folder, policy="full", **options) -> ChannelStrategy:
    """A strategy with small numbers."""
    own = {"draws": 2, "seed": 5, "fraction_evaluate": 0.0, "uplink": "paper", **options}
    return ChannelStrategy(policy, folder=folder, **own)


def run(grid, folder, rounds=3, policy="full", evaluate_fn=None, initial=None, **options):
    """Rounds of a federation; the strategy and Flower's result."""
    made = strategy(folder, policy, **options)
    done = made.start(
        grid, record(initial), num_rounds=rounds, timeout=60.0, evaluate_fn=evaluate_fn
    )
    return made, done


def arrays(found: ArrayRecord) -> dict[str, np.ndarray]:
    """The arrays of a record by name."""
    return {name: each.numpy() for name, each in found.items()}


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    """Whether two models are the same to the bit."""
    return list(a) == list(b) and all(
        a[n].dtype == b[n].dtype and a[n].tobytes() == b[n].tobytes() for n in a
    )


def stop_at(exchange: int) -> Callable:
    """Stop the server in its n-th exchange, from 1."""

    def before(grid: Loopback, _: list[Message]) -> None:
        if len(grid.sent) == exchange:
            raise StoppedError

    return before
