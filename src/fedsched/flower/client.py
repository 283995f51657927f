"""The node's side: a Flower client app that also reports its channel."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from fedsched.checks import positive_number
from fedsched.errors import InputError
from fedsched.flower.protocol import (
    CHANNEL_QUERY,
    FEEDBACK_QUERY,
    RECORD,
    Report,
    assigned_round,
    round_in,
)
from fedsched.radio import AbstractChannel, ChannelState, make_channel
from fedsched.randomness import stream

__all__ = ["ChannelClientApp", "SimulatedGain", "Throughput", "gain_of_snr"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
# The gain |h|^2 of this node for a round; NaN, zero or None where it cannot send.
Gain: TypeAlias = Callable[[Context, int], float | None]
# "loss", "batch-loss" or "norm" of the model in the message, on this node's data.
FeedbackOf: TypeAlias = Callable[[Message, Context, str], float]


@final
@dataclass(frozen=True)
class Throughput:
    """What a node knows of the rate of its uploads, in place of a gain.

    The server believes it, in place of what it has measured itself: say so where the node knows of
    a change before its next upload does.

    Args:
        measure: gives bit/s for the node's context; None, NaN or zero if it does not know.

    Example:
        >>> app = ChannelClientApp(Throughput(lambda context: 12e6))
    """

    measure: Callable[[Context], float | None]


@final
class ChannelClientApp(ClientApp):
    """A ``ClientApp`` that tells the server the gain of its node. The rest of the app stays.

    The gain goes with every train reply, taken after training, for the round to come; and the
    server asks for it when it has none that is new enough.

    Args:
        gain: called with the node's context and the round that is to be decided, from 0. Whatever
            measures the channel will do: the reference signal power over noise and interference,
            as a linear ratio at a transmit power of 1 W. Or a :class:`Throughput`.
        device: the name of the device, by which it keeps its queue if its node restarts; the
            node's ``partition-id`` if it has one, or else Flower's own id of the node.
        feedback: answers policies that ask devices before they decide.
        client_fn: as of ``ClientApp``.
        mods: as of ``ClientApp``.
    """

    def __init__(
        self,
        gain: Gain | Throughput,
        *,
        device: Callable[[Context], str] | None = None,
        feedback: FeedbackOf | None = None,
        client_fn: object = None,
        mods: list[object] | None = None,
    ) -> None:
        super().__init__(client_fn=client_fn, mods=mods)  # type: ignore[arg-type]
        self._gain, self._device, self._feedback = gain, device or device_name, feedback

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer the scheduler's questions, and leave the others to the app."""
        kind = message.metadata.message_type
        if kind == CHANNEL_QUERY:
            wanted = round_in(message.content.config_records[RECORD])
            return Message(RecordDict({RECORD: self._report(context, wanted)}), reply_to=message)
        if kind == FEEDBACK_QUERY:
            return Message(RecordDict({RECORD: self._answer(message, context)}), reply_to=message)
        assigned = assigned_round(message) if kind.partition(".")[0] == MessageType.TRAIN else None
        reply = super().__call__(message, context)
        if assigned is not None and reply.has_content():
            try:
                reply.content[RECORD] = self._report(context, assigned + 1)
            except Exception:  # the update is there, and is worth more than the gain
                _log.exception("the gain of the next round is not known; the server will ask")
        return reply

    def _report(self, context: Context, round_: int) -> ConfigRecord:
        device = self._device(context)
        if isinstance(self._gain, Throughput):
            rate = self._gain.measure(context)
            value = math.nan if rate is None else float(rate)
            return Report(device=device, round=round_, gain=math.nan, rate=value).record()
        gain = self._gain(context, round_)
        value = math.nan if gain is None else float(gain)
        return Report(device=device, round=round_, gain=value).record()

    def _answer(self, message: Message, context: Context) -> ConfigRecord:
        if self._feedback is None:
            raise InputError(
                "feedback: this policy asks nodes for "
                f"{message.content[RECORD]['ask']!r}; give ChannelClientApp a feedback function, "
                "or choose a policy that reads gains alone (see `fedsched policies`)"
            )
        asked = str(message.content[RECORD]["ask"])
        return ConfigRecord({"value": float(self._feedback(message, context, asked))})


def device_name(context: Context) -> str:
    """The node's ``partition-id`` if it has one, or else Flower's own id of the node."""
    return str(context.node_config.get("partition-id", context.node_id))


def gain_of_snr(snr_db: float, power_w: float) -> float:
    """The gain of a channel whose signal-to-noise ratio was measured at a transmit power.

    It is over a noise of 1 W: give the strategy an Uplink with ``noise_w=1.0``.

    Example:
        >>> round(gain_of_snr(-3.0, 0.2), 3)
        2.506
    """
    return float(10.0 ** (snr_db / 10.0)) / positive_number("power_w", power_w)


@final
class SimulatedGain:
    """The gain of a node from one of fedsched's channels: the same as in the simulator.

    Every node draws the whole channel from the seed and takes its own place in it, by its
    ``partition-id``; so nobody has to send gains around.

    Args:
        channel: a name that ``fedsched schedule --channel`` knows, or a trace file.
        seed: of the channel.
        devices: how many; the node's ``num-partitions`` if None.
    """

    def __init__(
        self, channel: str = "heterogeneous", *, seed: int, devices: int | None = None
    ) -> None:
        self._channel, self._seed, self._devices = channel, seed, devices
        self._lived: dict[int, _Lived] = {}  # by the number of devices

    def __call__(self, context: Context, round_: int) -> float:
        """The gain of this node in a round."""
        config = context.node_config
        if "partition-id" not in config or (
            self._devices is None and "num-partitions" not in config
        ):
            raise InputError(
                "node config must hold 'partition-id' and 'num-partitions' for a simulated gain; "
                'start the node with --node-config "partition-id=0 num-partitions=3"'
            )
        devices = self._devices or int(config["num-partitions"])
        lived = self._lived.get(devices)
        if lived is None or round_ < lived.round:
            lived = _begun(make_channel(self._channel, devices), self._seed)
        # A channel with memory has to be lived through; a node that starts late catches up.
        channel, state = lived.channel, lived.state
        for t in range(lived.round, round_) if state else ():
            _, state = channel.step(state, stream(self._seed, "channel", t))
        # Where it has come to is kept: to begin anew in every round would cost their square.
        self._lived[devices] = _Lived(channel=channel, round=round_, state=state)
        gain, _ = channel.step(state, stream(self._seed, "channel", round_))
        return float(gain[int(config["partition-id"])])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Lived:
    """A channel that has come to the beginning of a round."""

    channel: AbstractChannel
    round: int
    state: ChannelState


def _begun(channel: AbstractChannel, seed: int) -> _Lived:
    if channel.quantity != "gain":
        raise InputError(
            "channel: a simulated gain needs a trace of gains, got one of rates; name the power at "
            "which they were measured, as in the unit mbit/s@23dbm"
        )
    return _Lived(channel=channel, round=0, state=channel.init(stream(seed, "channel")))
