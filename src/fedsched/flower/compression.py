"""Fewer bits from the nodes, in any federation of Flower's: one line at each end.

    client app   app = ClientApp(mods=[CompressMod(Dithered(4))])
    server app   strategy.start(DecompressGrid(grid), ...)

The mod sends the change of the model as one payload; the grid puts the trained model together again
before the strategy sees it. So any strategy will do, and none has to know.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, final

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.flower.model import Arrays, arrays_of
from fedsched.learning.compression import (
    AbstractCompressor,
    Dithered,
    ErrorFeedback,
    PayloadError,
    decode,
)
from fedsched.randomness import stream

__all__ = ["CompressMod", "DecompressGrid", "restore"]

PAYLOAD = "fedsched.payload"  # the name of the array that is a payload
# Not "numpy.ndarray": a server that does not decode must fail, and not average the bytes.
_STYPE = "fedsched.payload"
_RESIDUAL = "fedsched.residual"  # the record in the node's own state
_UNKNOWN = 0  # Flower's code of an error that is none of its own

Named: TypeAlias = Mapping[str, Array]


@final
class CompressMod:
    """A mod for client apps that sends the change of the model in few bits.

    It works on replies to train messages. Put it first in the list: what other mods do to the
    trained model is then done before. Whole numbers and single numbers, such as counters, go as
    they are: beside weights in one bucket they would set its scale.

    The chance of a round comes from ``stream(seed, "compression", round, device)``: the same seed
    gives the same bytes. The round is the message's "server-round", counted from 0; the device is
    the node's ``partition-id`` if it has one, or else Flower's own id of the node.

    Args:
        compressor: ``Dithered(4)`` by default; or an ``ErrorFeedback``, whose residual is kept in
            the context's state.
        seed: of the random rounding.
    """

    def __init__(
        self, compressor: AbstractCompressor | ErrorFeedback | None = None, *, seed: int = 1
    ) -> None:
        self._compressor = Dithered(4) if compressor is None else compressor
        self._seed = seed

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Let the app train, and compress what it changed."""
        if not _is_train(message):
            return call_next(message, context)
        _, record = _only_record(message.content, "the train message")
        received = dict(record)  # the app may take the arrays out of the record
        round_ = _round_of(message)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        key, trained = _only_record(reply.content, "the reply")
        _check_names(received, trained)
        small = {n for n in received if not (_is_real(received[n]) and _is_real(trained[n]))}
        delta = _difference(received, trained, [name for name in received if name not in small])
        rng = stream(self._seed, "compression", round_, _device_of(context))
        payload = self._encoded(delta, rng, context)
        sent = {PAYLOAD: Array("uint8", (len(payload),), _STYPE, payload)}
        sent |= {name: trained[name] for name in trained if name in small}
        reply.content[key] = ArrayRecord(sent)
        return reply

    def _encoded(
        self, delta: NDArray[np.float32], rng: np.random.Generator, context: Context
    ) -> bytes:
        if not isinstance(self._compressor, ErrorFeedback):
            return self._compressor.encode(delta, rng)
        residual = self._compressor.init(len(delta))
        kept = context.state.get(_RESIDUAL)
        if isinstance(kept, ArrayRecord) and kept[_RESIDUAL].shape == residual.shape:
            residual = kept[_RESIDUAL].numpy()
        sent = self._compressor.encode(delta, residual, rng)
        context.state[_RESIDUAL] = ArrayRecord({_RESIDUAL: Array(sent.residual)})
        return sent.payload


def restore(content: RecordDict, received: Arrays) -> None:
    """Put the trained model of a reply together again, in place of its payload.

    A reply without a payload stays as it is.

    Args:
        content: of the reply.
        received: the model that the node was sent.

    Raises:
        PayloadError: if the payload, or what comes with it, cannot be used.
    """
    for key, record in content.array_records.items():
        if PAYLOAD in record:
            content[key] = ArrayRecord(_trained(record, received))


@final
class DecompressGrid(Grid):
    """A grid whose train replies hold whole models, whether nodes compress them or not.

    A payload that cannot be used is an error of its node, as if the node had failed; a strategy
    leaves it out and counts it.

    Args:
        grid: the grid that the server app was given.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._asked: dict[str, Message] = {}  # train messages that were pushed, by their ids

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As of the grid inside, with the models of train replies put together again."""
        sent = list(messages)
        replies = self._grid.send_and_receive(sent, timeout=timeout)
        asked = {each.metadata.dst_node_id: each for each in sent if _is_train(each)}
        models: dict[int, Arrays] = {}  # most strategies send one record to all
        return [_restored(each, asked.get(each.metadata.src_node_id), models) for each in replies]

    def set_run(self, run: Any) -> None:
        """As of the grid inside."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """As of the grid inside."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """As of the grid inside."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """As of the grid inside."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """As of the grid inside."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As of the grid inside; train messages are kept until they expire or are replied to."""
        sent, now_s = list(messages), time.time()
        numbers = list(self._grid.push_messages(sent))
        for number, each in list(self._asked.items()):
            if each.metadata.created_at + each.metadata.ttl < now_s:
                del self._asked[number]
        for each in filter(_is_train, sent):
            self._asked[each.metadata.message_id] = each
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As of the grid inside, with the models of train replies put together again."""
        models: dict[int, Arrays] = {}
        return [
            _restored(each, self._asked.pop(each.metadata.reply_to_message_id, None), models)
            for each in self._grid.pull_messages(message_ids)
        ]


# --- what the two ends share -----------------------------------------------------------------


def _restored(reply: Message, sent: Message | None, models: dict[int, Arrays]) -> Message:
    """The reply with a whole model, or the error it is."""
    if sent is None or not reply.has_content():
        return reply
    if not any(PAYLOAD in record for record in reply.content.array_records.values()):
        return reply
    try:
        _, record = _only_record(sent.content, "the train message")
        if id(record) not in models:
            models[id(record)] = arrays_of(record)
        restore(reply.content, models[id(record)])
    except InputError as error:
        return Message(Error(_UNKNOWN, f"{type(error).__name__}: {error}"), reply_to=sent)
    return reply


def _trained(record: ArrayRecord, received: Arrays) -> dict[str, Array]:
    """The arrays of the model, each as it was sent or moved by its part of the payload."""
    if record[PAYLOAD].stype != _STYPE:
        raise PayloadError(
            f"payload must be an array of type {_STYPE!r}, got {record[PAYLOAD].stype!r}"
        )
    beside = record.keys() - {PAYLOAD}
    moved = {name: x for name, x in received.items() if name not in beside}
    if not beside <= received.keys() or not all(x.dtype.kind == "f" for x in moved.values()):
        raise PayloadError(
            f"payload comes with arrays called {sorted(beside)}; it must come with those of the "
            f"model {list(received)} that do not hold real numbers"
        )
    delta = decode(record[PAYLOAD].data, sum(x.size for x in moved.values()))
    arrays, start = {}, 0
    for name, x in received.items():
        if name in beside:
            arrays[name] = record[name]
            continue
        part = delta[start : start + x.size].reshape(x.shape)
        arrays[name] = Array(np.asarray((x + part).astype(x.dtype, copy=False)))
        start += x.size
    return arrays


def _difference(received: Named, trained: Named, names: list[str]) -> NDArray[np.float32]:
    """The change of these arrays in one row."""
    parts = [np.empty(0, np.float32)]
    for name in names:
        x, y = received[name].numpy(), trained[name].numpy()
        if y.shape != x.shape:
            raise InputError(
                f"array {name!r} of the reply must have the model's shape {x.shape}, got {y.shape}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            parts.append((y - x).astype(np.float32).reshape(-1))
    return np.concatenate(parts)


def _check_names(received: Named, trained: Named) -> None:
    if trained.keys() != received.keys():
        raise InputError(
            f"the reply's arrays must be called as the model's, {list(received)}, got "
            f"{list(trained)}; compress whole models alone"
        )


def _only_record(content: RecordDict, where: str) -> tuple[str, ArrayRecord]:
    records = list(content.array_records.items())
    if len(records) != 1:
        raise InputError(
            f"{where} must hold one array record, the model, to be compressed; it holds "
            f"{len(records)}"
        )
    return records[0]


def _is_train(message: Message) -> bool:
    return message.metadata.message_type.partition(".")[0] == str(MessageType.TRAIN)


def _is_real(array: Array) -> bool:
    return np.dtype(array.dtype).kind == "f" and len(array.shape) > 0


def _round_of(message: Message) -> int:
    for record in message.content.config_records.values():
        told = record.get("server-round")
        if isinstance(told, int) and told >= 1:
            return told - 1
    raise InputError(
        "the train message must hold a config record with 'server-round', counted from 1, so that "
        "every round has a chance of its own; Flower's strategies put it there"
    )


def _device_of(context: Context) -> int:
    return int(context.node_config.get("partition-id", context.node_id))
