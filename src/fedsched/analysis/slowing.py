"""A run's clock if its devices had computed faster or slower than they did."""

from dataclasses import replace

import numpy as np

from fedsched.checks import positive_number
from fedsched.errors import require
from fedsched.radio.access import make_access
from fedsched.runs.runlog import RunLog

__all__ = ["slowed"]

_COLUMN = "airtime_s"


def slowed(log: RunLog, factor: float) -> RunLog:
    r"""The log with the clock it would have if each device computed ``factor`` times as long.

    .. math:: T_t(x) = f_t + T(\tau, x r)

    with the reports' seconds f, the uploads :math:`\tau` and the computation times r of the members
    of round t, over the access T of the run: exact, as who takes part does not change. What all
    devices have in common is not in the log, so a run without times of their own stays as it is.
    """
    positive_number("slower", factor, allow_zero=True)
    if factor == 1.0 or not log.has("ready_s") or not log.sums("ready_s").any():
        return log
    arrow = require("pyarrow", extra="report", purpose="reading run logs")
    uplink = log.manifest["scenario"]["uplink"]
    access = make_access(
        uplink["access"],
        blocks=uplink["blocks"],
        unit_s=log.manifest.get("unit_s"),
    )
    members = zip(log.lists("upload_s"), log.lists("ready_s"), strict=True)
    uploads_s = [access.uploads_s(np.array(u), factor * np.array(r)) for u, r in members]
    seconds = log.column("feedback_s") + np.array(uploads_s)
    place = log.table.column_names.index(_COLUMN)
    return replace(log, table=log.table.set_column(place, _COLUMN, arrow.array(seconds)))
