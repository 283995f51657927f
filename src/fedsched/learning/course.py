r"""Whether a model keeps its course: how long its way was, without the noise of sampling.

After :math:`T = 2^k` rounds, the last T/2 of them are cut into four quarters, in which the model
moved by :math:`D_1` to :math:`D_4`. What sampling adds to a move is of mean zero and new in every
round, but the next moves take it back: a model that was pushed aside is pulled home. So quarters
that meet are left out, and

.. math:: \tfrac{16}{3} (\langle D_1, D_3 \rangle + \langle D_1, D_4 \rangle
                       + \langle D_2, D_4 \rangle)

is the squared length of the way that is progress, with little of the noise on average.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["begin_course", "follow_course"]

# In the memory of a training: where a quarter began, the move of the one before, and the moves of
# all in this window before that.
_NAME = "course"


def begin_course(dimension: int) -> dict[str, NDArray[Any]]:
    """What is remembered before the first round."""
    return {_NAME: np.zeros((3, dimension), dtype=np.float32), f"{_NAME}_square": np.zeros(())}


def follow_course(
    memory: dict[str, NDArray[Any]], model: NDArray[np.float32], rounds: int
) -> float:
    r"""Follow a model after so many rounds; the squared length of its way where a window ends.

    It is NaN after any number of rounds that is no power of two, 0 before the eighth, where there
    are no four quarters yet, and NaN for whoever did not begin.

    Example:
        >>> memory, way = begin_course(1), np.arange(9, dtype=np.float32)[:, None] * 3
        >>> [follow_course(memory, way[rounds], rounds) for rounds in (1, 2, 3, 4, 5, 6, 7, 8)]
        [0.0, 0.0, nan, 0.0, nan, nan, nan, 144.0]
    """
    odd = rounds // (rounds & -rounds)  # 1 after 2^k rounds; 5, 3 and 7 on the way to the next
    if _NAME not in memory or odd not in (1, 3, 5, 7):
        return np.nan
    began, before, earlier = memory[_NAME]
    moved = model - began
    # Not a dot product of BLAS, which adds up in another order with another number of threads.
    square = memory[f"{_NAME}_square"] + (moved.astype(np.float64) * earlier).sum()
    ends = odd == 1
    past = np.zeros((2, len(model))) if ends else np.stack([moved, earlier + before])
    memory[_NAME] = np.vstack([model, past]).astype(np.float32)
    memory[f"{_NAME}_square"] = np.asarray(0.0 if ends else square)
    return float(square) * 16.0 / 3.0 if ends else np.nan
