"""The columns of a run log, in one place: name, kind, meaning, and how a round fills them.

A log keeps the columns it was begun with. To add one, add a line here: the writer, packed copies
and TensorBoard go over this table, and :meth:`RunLog.has` tells readers of older logs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedsched.values import Decision, PerDevice, ScheduledRound, TrainedRound

__all__ = ["COLUMNS", "GROUPS", "Column", "arrow_schema", "device_groups", "row_of"]

GROUPS = 10  # devices are followed in this many groups of neighbours


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a log."""

    name: str
    kind: Literal["int", "float", "ints", "floats"]
    meaning: str
    value: Callable[[TrainedRound], Any]
    looked_at: bool = False  # only looked at: packed copies keep fewer bits
    scalar: str | None = None  # its name in TensorBoard


def device_groups(values: NDArray[np.float64]) -> list[float]:
    """Means over groups of neighbouring devices, at most :data:`GROUPS` of them."""
    parts = np.array_split(values, min(GROUPS, len(values))) if len(values) else []
    return [float(part.mean()) for part in parts]


def _mean_inverse(decision: Decision) -> float:
    """The mean of 1/q over the reachable devices; NaN for a choice that has no probabilities."""
    reachable = decision.probability[decision.probability > 0.0]
    if decision.deterministic or not len(reachable):
        return math.nan
    return float((1.0 / reachable).mean())


def _spent_w(done: TrainedRound) -> PerDevice:
    decision = done.scheduled.decision
    return np.asarray(decision.probability * decision.power_w)


def _lost(done: ScheduledRound) -> list[int]:
    return [] if done.arrived is None else done.cohort.device[~done.arrived].tolist()


def _mean(values: PerDevice) -> float:
    return float(values.mean()) if values.size else 0.0


COLUMNS = (
    Column(name="round", kind="int", meaning="from 0", value=lambda done: done.scheduled.round),
    Column(name="airtime_s", kind="float", scalar="uplink/airtime_s",
           meaning="seconds of the round, without the computation all have in common",
           value=lambda done: done.scheduled.airtime_s),
    Column(name="train_loss", kind="float", scalar="train/loss",
           meaning="weighted sum over the cohort", value=lambda done: done.train_loss),
    Column(name="test_accuracy", kind="float", scalar="test/accuracy",
           meaning="NaN where it was not measured", value=lambda done: done.accuracy),
    Column(name="test_loss", kind="float", scalar="test/loss",
           meaning="NaN where it was not measured", value=lambda done: done.test_loss),
    Column(name="mean_inverse_probability", kind="float",
           scalar="schedule/mean_inverse_probability",
           meaning="mean of 1/q over reachable devices; NaN without probabilities",
           value=lambda done: _mean_inverse(done.scheduled.decision)),
    Column(name="price_of_time", kind="float", looked_at=True, scalar="auto/lambda",
           meaning="lambda, as auto has set it; NaN for other policies",
           value=lambda done: done.scheduled.tuning.get("price_of_time", math.nan)),
    Column(name="kappa", kind="float", looked_at=True, scalar="auto/kappa",
           meaning="of the law of rounds, as auto has it; NaN for other policies",
           value=lambda done: done.scheduled.tuning.get("kappa", math.nan)),
    Column(name="average_inverse_probability", kind="float", looked_at=True, scalar="auto/Q",
           meaning="Q, the average of 1/q by which auto chooses; NaN for other policies",
           value=lambda done: done.scheduled.tuning.get("average_inverse_probability", math.nan)),
    Column(name="average_airtime_s", kind="float", looked_at=True, scalar="auto/tau",
           meaning="tau, the average airtime by which auto chooses; NaN for other policies",
           value=lambda done: done.scheduled.tuning.get("average_airtime_s", math.nan)),
    Column(name="residual", kind="float", looked_at=True, meaning="of the solver's optimality",
           value=lambda done: done.scheduled.decision.residual),
    Column(name="mean_power_w", kind="float", looked_at=True, scalar="uplink/mean_power_w",
           meaning="mean of P q over devices", value=lambda done: _mean(_spent_w(done))),
    Column(name="feedback_s", kind="float", meaning="seconds on air of the reports",
           value=lambda done: done.scheduled.feedback_s),
    Column(name="wait_s", kind="float",
           meaning="seconds until the round began, where a budget of a second asked for it",
           value=lambda done: done.scheduled.decision.wait_s),
    Column(name="worst_power_w", kind="float", looked_at=True,
           meaning="largest time average of P q so far of any device; NaN if nobody knows powers",
           value=lambda done: done.worst_power_w),
    Column(name="worst_use", kind="floats", looked_at=True,
           meaning="of each budget in the manifest: what the worst device used of its limit so far",
           value=lambda done: [use.share for use in done.uses]),
    Column(name="worst_device", kind="ints",
           meaning="of each budget: the device that this was, from 0",
           value=lambda done: [use.device for use in done.uses]),
    Column(name="worst_limit", kind="floats",
           meaning="of each budget: the limit of that device",
           value=lambda done: [use.limit for use in done.uses]),
    Column(name="lost", kind="ints", meaning="members of the cohort whose updates did not arrive",
           value=lambda done: _lost(done.scheduled)),
    Column(name="rejected", kind="int", meaning="updates left out because they were not finite",
           value=lambda done: done.rejected),
    Column(name="device", kind="ints", meaning="the cohort",
           value=lambda done: done.scheduled.cohort.device.tolist()),
    Column(name="weight", kind="floats", meaning="of each update of the cohort",
           value=lambda done: done.scheduled.cohort.weight.tolist()),
    Column(name="power_w", kind="floats", looked_at=True, meaning="of each upload",
           value=lambda done: (
               done.scheduled.decision.power_w[done.scheduled.cohort.device].tolist())),
    Column(name="upload_s", kind="floats", looked_at=True, meaning="of each upload",
           value=lambda done: done.scheduled.upload_s.tolist()),
    Column(name="bits", kind="floats", meaning="of each upload",
           value=lambda done: done.scheduled.decision.bits_sent.tolist()),
    Column(name="omega", kind="float", looked_at=True, scalar="uplink/omega",
           meaning="what compression adds to the second moment of an update, in its square norm; "
                   "mean over the cohort, NaN without compression",
           value=lambda done: done.omega),
    Column(name="ready_s", kind="floats",
           meaning="when each could begin to upload; empty where all could at once",
           value=lambda done: done.scheduled.ready_s.tolist()),
    Column(name="wall_s", kind="float", scalar="round/wall_s",
           meaning="seconds that the round took on the wall; NaN where it is simulated",
           value=lambda done: done.wall_s),
    Column(name="took_s", kind="floats", looked_at=True,
           meaning="seconds of each member from message to reply, where they were measured",
           value=lambda done: done.took_s.tolist()),
    Column(name="group_power_w", kind="floats", looked_at=True,
           meaning="mean of P q over groups of neighbouring devices",
           value=lambda done: device_groups(_spent_w(done))),
)  # fmt: skip


def row_of(done: TrainedRound, airtime_s: float) -> dict[str, Any]:
    """One round as a row; ``airtime_s`` depends on how the uploads share the link."""
    return {column.name: column.value(done) for column in COLUMNS} | {"airtime_s": airtime_s}


def arrow_schema(arrow: Any, metadata: dict[str, str]) -> Any:
    """The columns for pyarrow."""
    kinds = {"int": arrow.int64(), "float": arrow.float64()}
    kinds |= {f"{kind}s": arrow.list_(each) for kind, each in kinds.items()}
    return arrow.schema([(each.name, kinds[each.kind]) for each in COLUMNS], metadata=metadata)
