"""What the uploads of runs were like: their bits, and what compression added."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from fedsched.runs.runlog import RunLog

__all__ = ["mean_omega", "upload_bits"]


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
