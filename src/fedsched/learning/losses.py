r"""Updates that get lost: their weight, corrected without knowing how often that happens.

A device that is chosen with probability q, and whose update arrives with probability a, takes part
with probability q a. Its weight should be :math:`p / (q a)`. Nobody knows a, but the number S of
attempts until one arrives has the mean :math:`1 / a`. So the weight is multiplied by the mean of
the S seen so far (the rule of FedAU, with attempts for rounds).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_ATTEMPTS", "attempts", "correction", "first_attempts"]

Memory = Mapping[str, NDArray[Any]]

MOST_ATTEMPTS = 50  # that are waited for; then the wait itself is counted


def first_attempts(devices: int) -> dict[str, NDArray[np.float64]]:
    """Nothing was tried yet."""
    names = ("missed", "waits", "attempts")
    return {f"losses.{name}": np.zeros(devices) for name in names}


def correction(memory: Memory, device: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean number of attempts until one arrives, of each of these devices; 1 if none was seen.

    Example:
        >>> memory = first_attempts(2)
        >>> for arrived in ([0], [], [0], []):
        ...     memory = attempts(memory, np.array([0, 1]), np.isin([0, 1], arrived))
        >>> correction(memory, np.array([0, 1]))
        array([1.5, 1. ])
    """
    waits, tried = memory["losses.waits"][device], memory["losses.attempts"][device]
    return np.where(waits > 0, tried / np.maximum(waits, 1.0), 1.0)


def attempts(
    memory: Memory, device: NDArray[np.int64], arrived: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """The counts after these attempts: waits that ended, the attempts in them, those that go on."""
    missed = memory["losses.missed"].copy()
    waits, tried = memory["losses.waits"].copy(), memory["losses.attempts"].copy()
    missed[device] += 1.0
    over = device[arrived | (missed[device] >= MOST_ATTEMPTS)]
    waits[over] += 1.0
    tried[over] += missed[over]
    missed[over] = 0.0
    return {"losses.missed": missed, "losses.waits": waits, "losses.attempts": tried}
