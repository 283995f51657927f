r"""Settings that are safe at a step size which somebody chose for FedAvg.

An unbiased sum is not enough there. Each round its weights :math:`1 / (N q_n)` add up to something
else, and with them the step changes its length; a round whose weights add up to four can end the
training. So a cohort has a fixed size m, and no device a probability below half of m / N. Then

.. math:: w_n \le \frac{2}{m}, \qquad \frac{m}{N} \le \sum_{n \in \text{cohort}} w_n \le 2 .
"""

import math
from collections.abc import Mapping
from typing import Any

from fedsched.solve.uplink import AbstractLink, Uplink

__all__ = ["FRACTION", "WEIGHTS", "cohort_size", "safe_options"]

FRACTION = 0.8  # of the nodes that are present; measured, see docs/flower.md
WEIGHTS = (0.5, 2.0)  # where the sum of a round's weights is expected to lie
# lambda counts airtime in uploads at 1 bit/s/Hz, so that it serves any link and any model. With
# kappa = N and cohorts of about N uploads, (kappa + Q) / tau is between 1 and 3 of those.
_LAM = 2.0
# The price of that upload against the queues: the larger, the longer a power is off its budget.
_COST = 400.0


def cohort_size(fraction: float, least: int, devices: int) -> int:
    """How many of the present devices train in a round."""
    return min(max(math.ceil(fraction * devices - 1e-9), least, 1), max(devices, 1))


def safe_options(
    policy: str,
    *,
    uplink: AbstractLink,
    budget_w: float,
    draws: int,
    devices: int,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """The options of a policy by name: those given, and safe ones for the rest.

    Args:
        policy: its name.
        uplink: the shared link.
        budget_w: average power of a device.
        draws: m.
        devices: N, those present.
        given: options that were asked for; they win.
    """
    safe: dict[str, Any] = {}
    if policy in ("lyapunov", "uniform"):
        safe["design"] = "fixed-size"
    if policy == "lyapunov":
        upload_s = uplink.bits / uplink.bandwidth_hz if isinstance(uplink, Uplink) else 1.0
        lam = given.get("lam", _LAM / upload_s)
        safe["lam"], safe["start"] = lam, "budget"
        safe["v"] = _COST * budget_w**2 / (lam * upload_s)
        safe["qmin"] = 0.5 * min(draws / max(devices, 1), 1.0)
    if policy == "auto":
        safe["weight_limit"] = 2.0 / max(devices, 1)  # q is at least a half
    return {**safe, **given}
