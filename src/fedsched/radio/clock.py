"""The clock: how long a round's uploads occupy the link."""

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import UnknownNameError

__all__ = ["round_airtime_s"]


def round_airtime_s(upload_s: NDArray[np.float64], access: str) -> float:
    """Seconds on air of one round.

    Under "tdma" devices take turns and their times add up; under "parallel" they send at once, each
    on a link of its own, and the slowest decides. Computation time is added by whoever reads the
    log: it only shifts the clock, by the same amount in every round.

    Example:
        >>> uploads = np.array([0.5, 0.25])
        >>> round_airtime_s(uploads, "tdma"), round_airtime_s(uploads, "parallel")
        (0.75, 0.5)
    """
    if access not in ("tdma", "parallel"):
        raise UnknownNameError("access", access, ("tdma", "parallel"))
    if len(upload_s) == 0:
        return 0.0
    return float(upload_s.sum() if access == "tdma" else upload_s.max())
