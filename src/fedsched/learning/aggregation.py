"""The model update: a running weighted sum of the devices' updates, in plain arrays."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Aggregated", "aggregate"]


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
