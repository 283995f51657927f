"""What server and nodes tell each other, as records of Flower messages.

server -> node   query.fedsched_channel    which round is to be decided
node -> server   a Report                  in answer to that query, and in every train reply
server -> node   an Assignment             in the configuration of a train message
server -> node   query.fedsched_feedback   the model and what the policy wants to know of it
"""

import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedsched.errors import InputError
from fedsched.flower.exchange import UnusableError, plain

__all__ = [
    "CHANNEL_QUERY",
    "FEEDBACK_QUERY",
    "RECORD",
    "Assignment",
    "Records",
    "Report",
    "assigned_round",
    "assignment_of",
    "round_in",
]

CHANNEL_QUERY = "query.fedsched_channel"
FEEDBACK_QUERY = "query.fedsched_feedback"
Records: TypeAlias = dict[str, ArrayRecord | MetricRecord | ConfigRecord]
_LEAST_GAIN = 1e-100  # airtimes and powers of what lies beyond leave the range of numbers
_LEAST_RATE = 1e-15  # bit/s
_LONGEST_NAME = 128  # characters of a device's name
_MOST_ROUNDS = 2**31 - 1
RECORD = "fedsched"  # the name of our record in what nodes say
_PREFIX = "fedsched-"  # of what the server adds to the configuration of the app


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a node says of its channel."""

    device: str  # the name of the device, the same after a restart of its node
    round: int  # that the gain is for, counted from 0
    gain: float  # |h|^2; NaN: the node cannot send in that round
    rate: float = math.nan  # of its upload in bit/s; NaN: the node does not know

    def record(self) -> ConfigRecord:
        """The report as it travels."""
        record = ConfigRecord({"device": self.device, "round": self.round, "gain": self.gain})
        if not math.isnan(self.rate):
            record["rate"] = self.rate
        return record

    @classmethod
    def read(cls, content: RecordDict) -> Self:
        """The report in a reply; an UnusableError says why there is none.

        A gain out of bounds is read as that of a node that cannot send, and a rate out of bounds
        as none.
        """
        record = content.get(RECORD)
        if not isinstance(record, ConfigRecord):
            raise UnusableError("it holds no report")
        device, round_, gain = (record.get(name) for name in ("device", "round", "gain"))
        if not (isinstance(device, str) and 0 < len(device) <= _LONGEST_NAME):
            raise UnusableError(f"its name is not a text of 1 to {_LONGEST_NAME} characters")
        if not device.isprintable():
            raise UnusableError(f"its name {plain(device)!r} holds control characters")
        if isinstance(round_, bool) or not isinstance(round_, int):
            raise UnusableError("its round is not a whole number")
        if not 0 <= round_ <= _MOST_ROUNDS:
            raise UnusableError(f"its round is not one from 0 to {_MOST_ROUNDS}")
        if not (isinstance(gain, float) and _LEAST_GAIN <= gain <= 1.0 / _LEAST_GAIN):
            gain = math.nan
        rate = record.get("rate")
        if not (isinstance(rate, float) and _LEAST_RATE <= rate <= 1.0 / _LEAST_RATE):
            rate = math.nan
        return cls(device=device, round=round_, gain=gain, rate=rate)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What the server asks of a node that takes part."""

    round: int  # counted from 0
    device: int  # the node's number in the run log
    airtime_s: float  # that the upload is planned to take
    power_w: float | None = None  # to send the update with, if the server knows the radio
    weight: float | None = None  # of the update in the model, if the server tells

    def entries(self) -> dict[str, int | float]:
        """The assignment as it travels: in the configuration of the app, under names of ours."""
        return {_PREFIX + name: value for name, value in vars(self).items() if value is not None}


def assignment_of(message: Message) -> Assignment:
    """The assignment in a train message, for client apps that set their radio by it."""
    found = _assigned(message)
    if found is None:
        raise InputError(
            f"message holds no {_PREFIX}round in its configuration and so no assignment; it was "
            "not sent by a ChannelStrategy"
        )
    return Assignment(**found)


def assigned_round(message: Message) -> int | None:
    """The round of a train message that was sent by a ChannelStrategy."""
    found = _assigned(message)
    return None if found is None else round_in(ConfigRecord({"round": found["round"]}))


def _assigned(message: Message) -> dict[str, Any] | None:
    for record in message.content.config_records.values() if message.has_content() else ():
        if f"{_PREFIX}round" in record:
            names = (name for name in record if name.startswith(_PREFIX))
            return {name.removeprefix(_PREFIX): record[name] for name in names}
    return None


def round_in(record: ConfigRecord) -> int:
    """The round that a record of ours is about."""
    value = record["round"]
    if not isinstance(value, int):
        raise InputError(f"round must be a whole number, got {value!r}")
    return value
