"""The figures of runs, to set policies side by side."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from fedsched.analysis.arrival import ACCURACY
from fedsched.runs.manifest import common_computation_s
from fedsched.runs.runlog import RunLog

__all__ = ["budget_uses", "comparison_row", "mean_omega", "upload_bits", "usage"]


def comparison_row(log: RunLog, target: float) -> dict[str, Any]:
    """The figures of one run; what has no value is None."""
    reached = ACCURACY.reach(log, target)
    computation_s = common_computation_s(log.manifest)
    inverse = log.column("mean_inverse_probability")
    devices = [device for round_ in log.lists("device") for device in round_]
    count = np.bincount(np.array(devices, dtype=np.int64), minlength=int(log.manifest["devices"]))
    return {
        "policy": log.manifest["scenario"]["policy"]["kind"],
        "compress": log.manifest["scenario"]["training"].get("compress", "none"),
        "biased": bool(log.manifest.get("biased", False)),
        "seconds_to_target": None if reached is None else reached.time_s(computation_s),
        "rounds_to_target": None if reached is None else reached.rounds,
        **usage([log]),
        "worst_mean_power_w": _known(log.column("worst_power_w")[-1]),
        "jain_fairness": _jain(count),
        "mean_inverse_probability": None if np.isnan(inverse).all() else float(np.nanmean(inverse)),
        "final_accuracy": float(log.column("test_accuracy")[-1]),
    }


def usage(logs: Sequence[RunLog]) -> dict[str, Any]:
    """What the rounds of some runs took, each number a mean over rounds and then over runs."""
    return {
        "upload_bits": upload_bits(logs),
        "omega": mean_omega(logs),
        "airtime_s_per_round": fmean(log.column("airtime_s").mean() for log in logs),
        "feedback_s_per_round": fmean(
            log.column("feedback_s").mean() if log.has("feedback_s") else 0.0 for log in logs
        ),
        "devices_per_round": fmean(fmean(map(len, log.lists("device"))) for log in logs),
        "budgets": budget_uses(logs),
    }


def upload_bits(logs: Sequence[RunLog]) -> float | None:
    """The mean bits of an upload; of a log that does not list them, what its manifest says."""
    found = [_bits(log) for log in logs]
    known = [bits for bits in found if bits is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _bits(log: RunLog) -> float | None:
    if not log.has("bits"):
        said = log.manifest.get("update_bits")
        return None if said is None else float(said)
    sent = [bits for round_ in log.lists("bits") for bits in round_]
    return fmean(sent) if sent else None


def mean_omega(logs: Sequence[RunLog]) -> float | None:
    """The mean of omega over rounds, then over runs; None where nothing was compressed."""
    rounds = [log.column("omega") for log in logs if log.has("omega")]
    known = [each[~np.isnan(each)] for each in rounds]
    means = [float(each.mean()) for each in known if len(each)]
    return fmean(means) if means else None


def budget_uses(logs: Sequence[RunLog]) -> list[dict[str, Any]]:
    """Every budget with the share of its limit that the worst device of any log used.

    Logs of earlier versions do not say which device that was, and then it is None.
    """
    worst: dict[str, dict[str, Any]] = {}
    for log in logs:
        declared = log.manifest.get("budgets", [])
        shares = _last(log, "worst_use")
        devices = _last(log, "worst_device") or [None] * len(shares)
        limits = _last(log, "worst_limit") or [budget["limit"] for budget in declared]
        for budget, share, device, limit in zip(declared, shares, devices, limits, strict=False):
            if share > worst.get(budget["name"], {"worst_use": -1.0})["worst_use"]:
                used = {"limit": limit, "worst_use": share, "worst_device": device}
                worst[budget["name"]] = {**budget, **used}
    return list(worst.values())


def _last(log: RunLog, name: str) -> list[Any]:
    return log.table[name][-1].as_py() if log.has(name) else []


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _devices(log: RunLog) -> int:
    return int(log.manifest["devices"])


def _jain(count: np.ndarray[Any, Any]) -> float:
    """Jain's index of how often devices took part: 1 if all alike, 1/N if only one."""
    square = float((count.astype(np.float64) ** 2).sum())
    return float(count.sum()) ** 2 / (len(count) * square) if square else 1.0
