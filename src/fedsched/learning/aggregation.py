"""The model update: a running weighted sum of the devices' updates, in plain arrays."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AGGREGATORS",
    "Aggregated",
    "aggregate",
    "aggregate_with_memory",
    "empty_memory",
    "running_mean",
]

AGGREGATORS = ("sum", "memory")


class Aggregated(NamedTuple):
    """The next parameters, and which updates were left out."""

    parameters: NDArray[np.float32]  # shape (d,)
    rejected: tuple[int, ...]  # positions, in the order given, of updates that were not finite


def aggregate(
    parameters: NDArray[np.float32],
    weighted_updates: Iterable[tuple[float, NDArray[np.float32]]],
) -> Aggregated:
    r"""Move the model by the weighted sum of its devices' updates.

    .. math:: x \leftarrow x + \sum_n w_n \, (y_n - x)

    The sum is kept in float64, in the order given, and rounded to float32 once at the end; only
    one update is held at a time. An update with an entry that is not finite is left out.

    Args:
        parameters: x, shape (d,).
        weighted_updates: pairs of the weight :math:`w_n` and the update :math:`y_n - x`.

    Example:
        >>> x = np.zeros(2, np.float32)
        >>> good, bad = np.array([1, 2], np.float32), np.array([np.nan, 0], np.float32)
        >>> aggregate(x, [(0.5, good), (0.5, bad)])
        Aggregated(parameters=array([0.5, 1. ], dtype=float32), rejected=(1,))
    """
    total = parameters.astype(np.float64)
    weighted = np.empty_like(total)
    rejected = []
    for position, (weight, delta) in enumerate(weighted_updates):
        if not np.isfinite(delta).all():
            rejected.append(position)
            continue
        np.multiply(delta, weight, out=weighted, dtype=np.float64)
        total += weighted
    return Aggregated(total.astype(np.float32), tuple(rejected))


def empty_memory(devices: int, dimension: int) -> Mapping[str, NDArray[Any]]:
    """The memory of a server that has seen no update: 4 N d bytes, and 8 d for their sum."""
    return {
        "update": np.zeros((devices, dimension), np.float32),
        "sum": np.zeros(dimension),
    }


def aggregate_with_memory(
    parameters: NDArray[np.float32],
    memory: Mapping[str, NDArray[Any]],
    updates: Iterable[tuple[int, NDArray[np.float32]]],
) -> Aggregated:
    r"""Move the model by the mean of the latest update of every device (MIFA).

    .. math:: x \leftarrow x + \frac{1}{N} \sum_n G_n, \quad
              G_n = y_n - x \text{ if n took part, else as before}

    A device that never took part counts as zero. An update with an entry that is not finite is
    left out and the old one stays.

    Args:
        parameters: x, shape (d,).
        memory: of :func:`empty_memory`; changed in place, as a copy may be hundreds of megabytes.
        updates: pairs of the device and its update.

    Example:
        >>> memory = empty_memory(2, 1)
        >>> x = np.zeros(1, np.float32)
        >>> x, _ = aggregate_with_memory(x, memory, [(0, np.array([1.0], np.float32))])
        >>> x, _ = aggregate_with_memory(x, memory, [(1, np.array([3.0], np.float32))])
        >>> x  # 1/2, then (1 + 3) / 2 more
        array([2.5], dtype=float32)
    """
    latest, total = memory["update"], memory["sum"]
    rejected = []
    for position, (device, delta) in enumerate(updates):
        if not np.isfinite(delta).all():
            rejected.append(position)
            continue
        total += delta
        total -= latest[device]
        latest[device] = delta
    moved = parameters + total / len(latest)
    return Aggregated(parameters=moved.astype(np.float32), rejected=tuple(rejected))


def running_mean(
    mean: NDArray[np.float64], parameters: NDArray[np.float32], rounds: int
) -> NDArray[np.float64]:
    r"""Move a mean of models towards the newest one.

    .. math:: \bar x \leftarrow \bar x + (x - \bar x) / r

    With r = 1, 2, 3, ... it is the mean of all models so far; with r = W from there on, one whose
    weights fall by 1 - 1/W a round, so that it looks back over some W rounds.

    Example:
        >>> mean = np.zeros(1)
        >>> for r, x in enumerate([2.0, 4.0, 9.0], start=1):
        ...     mean = running_mean(mean, np.array([x], np.float32), r)
        >>> mean
        array([5.])
    """
    return mean + (parameters - mean) / rounds
