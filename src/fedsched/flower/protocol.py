"""What server and nodes tell each other, as records of Flower messages.

server -> node   query.fedsched_channel    which round is to be decided
node -> server   a Report                  in answer to that query, and in every train reply
server -> node   an Assignment             with the model of a train message
server -> node   query.fedsched_feedback   the model and what the policy wants to know of it
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedsched.errors import InputError

__all__ = [
    "CHANNEL_QUERY",
    "FEEDBACK_QUERY",
    "RECORD",
    "Assignment",
    "Records",
    "Report",
    "assignment_of",
    "mean_metrics",
    "number_in",
    "round_in",
]

CHANNEL_QUERY = "query.fedsched_channel"
FEEDBACK_QUERY = "query.fedsched_feedback"
Records: TypeAlias = dict[str, ArrayRecord | MetricRecord | ConfigRecord]
_EXAMPLES = "num-examples"
_LEAST_GAIN = 1e-100  # airtimes and powers of what lies beyond leave the range of numbers
RECORD = "fedsched"  # the name of our record beside those of the app itself


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a node says of its channel."""

    device: str  # the name of the device, the same after a restart of its node
    round: int  # that the gain is for, counted from 0
    gain: float  # |h|^2; NaN: the node cannot send in that round

    def record(self) -> ConfigRecord:
        """The report as it travels."""
        return ConfigRecord({"device": self.device, "round": self.round, "gain": self.gain})

    @classmethod
    def read(cls, content: RecordDict) -> Self | None:
        """The report in a reply; None if there is none, or none that can be used."""
        record = content.get(RECORD)
        if not isinstance(record, ConfigRecord):
            return None
        device, round_, gain = (record.get(name) for name in ("device", "round", "gain"))
        if not (isinstance(device, str) and isinstance(round_, int)):
            return None
        if not (isinstance(gain, float) and _LEAST_GAIN <= gain <= 1.0 / _LEAST_GAIN):
            gain = math.nan
        return cls(device=device, round=round_, gain=gain)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What the server asks of a node that takes part."""

    round: int  # counted from 0
    device: int  # the node's number in the run log
    power_w: float  # to send the update with
    airtime_s: float  # that the upload is planned to take at that power
    weight: float  # of the update in the model: the server applies it, not the node

    def record(self) -> ConfigRecord:
        """The assignment as it travels."""
        return ConfigRecord(dict(vars(self)))


def assignment_of(message: Message) -> Assignment:
    """The assignment in a train message, for client apps that set their radio by it."""
    record = message.content.get(RECORD)
    if not isinstance(record, ConfigRecord):
        raise InputError(
            f"message holds no record {RECORD!r} with an assignment; it was not sent by a "
            "ChannelStrategy"
        )
    return Assignment(**dict(record))  # type: ignore[arg-type]


def round_in(record: ConfigRecord) -> int:
    """The round that a record of ours is about."""
    value = record["round"]
    if not isinstance(value, int):
        raise InputError(f"round must be a whole number, got {value!r}")
    return value


def number_in(content: RecordDict, names: tuple[str, ...]) -> float:
    """The first of these metrics that a reply holds, as a number; NaN if it has none of them."""
    for name in names:
        for record in content.metric_records.values():
            value = record.get(name)
            if isinstance(value, int | float):
                return float(value)
    return math.nan


def mean_metrics(contents: Sequence[RecordDict]) -> MetricRecord | None:
    """The means of the metrics in replies, weighted by their numbers of examples; None if none is.

    A metric of a reply that is not finite is left out, and so is one that is a list of another
    length in another reply.
    """
    told: dict[str, list[tuple[float, np.ndarray[Any, Any]]]] = {}
    for content in contents:
        examples = number_in(content, (_EXAMPLES,))
        if not 0.0 < examples < math.inf:
            continue
        for record in content.metric_records.values():
            for name, value in record.items():
                if name != _EXAMPLES and np.isfinite(value).all():
                    told.setdefault(name, []).append((examples, np.asarray(value, np.float64)))
    means = {
        name: np.average([value for _, value in pairs], axis=0, weights=[n for n, _ in pairs])
        for name, pairs in told.items()
        if len({value.shape for _, value in pairs}) == 1
    }
    return MetricRecord({name: mean.tolist() for name, mean in means.items()}) if means else None
