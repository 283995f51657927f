"""The figures of a run, to set policies side by side."""

from typing import Any

import numpy as np

from fedsched.analysis.arrival import ACCURACY
from fedsched.analysis.sent import mean_omega, upload_bits
from fedsched.analysis.used import budget_uses
from fedsched.runs.manifest import common_computation_s
from fedsched.runs.runlog import RunLog

__all__ = ["comparison_row"]


def comparison_row(log: RunLog, target: float) -> dict[str, Any]:
    """The figures of one run; what has no value is None."""
    reached = ACCURACY.reach(log, target)
    computation_s = common_computation_s(log.manifest)
    inverse = log.column("mean_inverse_probability")
    devices = [device for round_ in log.lists("device") for device in round_]
    count = np.bincount(np.array(devices, dtype=np.int64), minlength=_devices(log))
    return {
        "policy": log.manifest["scenario"]["policy"]["kind"],
        "compress": log.manifest["scenario"]["training"].get("compress", "none"),
        "biased": bool(log.manifest.get("biased", False)),
        "seconds_to_target": None if reached is None else reached.time_s(computation_s),
        "rounds_to_target": None if reached is None else reached.rounds,
        "upload_bits": upload_bits([log]),
        "omega": mean_omega([log]),
        "airtime_s_per_round": float(log.column("airtime_s").mean()),
        "feedback_s_per_round": float(log.column("feedback_s").mean()),
        "devices_per_round": len(devices) / log.rounds,
        "worst_mean_power_w": float(log.column("worst_power_w")[-1]),
        "budgets": budget_uses([log]),
        "jain_fairness": _jain(count),
        "mean_inverse_probability": None if np.isnan(inverse).all() else float(np.nanmean(inverse)),
        "final_accuracy": float(log.column("test_accuracy")[-1]),
    }


def _devices(log: RunLog) -> int:
    return int(log.manifest["devices"])


def _jain(count: np.ndarray[Any, Any]) -> float:
    """Jain's index of how often devices took part: 1 if all alike, 1/N if only one."""
    square = float((count.astype(np.float64) ** 2).sum())
    return float(count.sum()) ** 2 / (len(count) * square) if square else 1.0
