r"""Whether a model keeps its course: two moves, one after the other, and their inner product.

After :math:`T = 2^k` rounds, the last T/2 of them are cut into two halves. The model moved by
:math:`D_1` in the first and by :math:`D_2` in the second. What sampling adds to a move is of mean
zero and new in every round, so that on average :math:`\langle D_1, D_2 \rangle` has none of it:
four times this is the squared length of the way that is progress.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["begin_course", "follow_course"]

_NAME = "course"  # in the memory of a training: where a half began, and the move of the half before


def begin_course(dimension: int) -> dict[str, NDArray[Any]]:
    """What is remembered before the first round."""
    return {_NAME: np.zeros((2, dimension), dtype=np.float32)}


def follow_course(
    memory: dict[str, NDArray[Any]], model: NDArray[np.float32], rounds: int
) -> float:
    r"""Follow a model after so many rounds; :math:`\langle D_1, D_2 \rangle` where two halves end.

    It is NaN after any number of rounds that is no power of two, 0 before the fourth, where there
    are no two halves yet, and NaN for whoever did not begin.

    Example:
        >>> memory, way = begin_course(1), np.arange(5, dtype=np.float32)[:, None] * 3
        >>> [follow_course(memory, way[rounds], rounds) for rounds in (1, 2, 3, 4)]
        [0.0, 0.0, nan, 9.0]
    """
    odd = rounds // (rounds & -rounds)  # 1 after 2^k rounds, 3 half way to the next
    if _NAME not in memory or odd not in (1, 3):
        return np.nan
    began, before = memory[_NAME]
    moved = model - began
    # Not a dot product of BLAS, which adds up in another order with another number of threads.
    product = float((moved.astype(np.float64) * before).sum()) if rounds >= 4 else 0.0
    memory[_NAME] = np.stack([model, moved])
    return product if odd == 1 else np.nan
