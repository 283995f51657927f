"""Ward's hierarchical clustering, as far as its groups stay within a limit."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["ward_groups"]

_FANOUT = 8  # rows and columns of one level that are one of the next

Matrix = NDArray[np.float64]


def ward_groups(distance: Matrix, units: NDArray[np.int64], limit: int) -> list[list[int]]:
    r"""The largest subtrees of Ward's tree whose units stay within a limit; single devices may not.

    The two nearest groups are merged, again and again. The squared distance of group k from the
    union of i and j is Lance and Williams'

    .. math:: \frac{(n_i + n_k) d_{ik}^2 + (n_j + n_k) d_{jk}^2 - n_k d_{ij}^2}{n_i + n_j + n_k} .

    Of pairs at the same distance the first by rows is merged. A group that has outgrown the limit
    can only take others with it, so the tree is not built any further once fewer than two fit.

    Time and memory are of order N^2, whatever the distances (see :func:`_levels`).
    """
    devices = len(units)
    levels = _levels(distance)
    squared = levels[0][:devices, :devices]
    size = np.ones(devices)
    alive = np.ones(devices, dtype=bool)
    held = [int(each) for each in units]
    fitting: dict[int, list[int]] = {n: [n] for n in range(devices)}  # those that may still grow
    grown: list[list[int]] = []
    while len(fitting) > 1:
        i, j = sorted(_first_least(levels))
        alive[j] = False
        others = np.flatnonzero(alive & (np.arange(devices) != i))
        squared[i, others] = squared[others, i] = _joined(squared, size, i, j, others)
        squared[j, :] = squared[:, j] = np.inf
        size[i] += size[j]
        for row in (i, j):
            _refresh(levels, row)
        if i in fitting and j in fitting and held[i] + held[j] <= limit:
            fitting[i] = fitting[i] + fitting.pop(j)
            held[i] += held[j]
        else:
            # What cannot grow any further is set aside.
            grown += [fitting.pop(key) for key in (i, j) if key in fitting]
    return grown + list(fitting.values())


def _joined(squared: Matrix, size: Matrix, i: int, j: int, others: NDArray[np.int64]) -> Matrix:
    """Squared distances of the others from the union of i and j, by Lance and Williams."""
    ni, nj, nk = size[i], size[j], size[others]
    summed = (ni + nk) * squared[i, others] + (nj + nk) * squared[j, others] - nk * squared[i, j]
    return np.asarray(summed / (ni + nj + nk))


def _levels(distance: Matrix) -> list[Matrix]:
    """Squared distances, and above them ever smaller tables of the least of square blocks.

    When a row and a column change, a row and a column of every level do; the lengths of these add
    up to the order of N. So does the way down to the least entry. N merges are of order N^2. (The
    same with blocks of two is known as Eppstein's quadtree.) Unlike a nearest-neighbour chain this
    merges in the order of the distances, so ties and rounding cannot change the groups.
    """
    levels = [_padded(distance**2)]
    np.fill_diagonal(levels[0], np.inf)
    while len(levels[-1]) > _FANOUT:
        below = levels[-1]
        blocks = len(below) // _FANOUT
        levels.append(
            _padded(below.reshape(blocks, _FANOUT, blocks, _FANOUT).min(axis=1).min(axis=2))
        )
    return levels


def _padded(table: Matrix) -> Matrix:
    """A table with as many infinite rows and columns as make whole blocks."""
    more = -len(table) % _FANOUT
    return np.pad(table, (0, more), constant_values=np.inf) if more else table


def _refresh(levels: list[Matrix], row: int) -> None:
    """Carry a changed row, and the column that equals it, to the levels above."""
    for below, above in pairwise(levels):
        row //= _FANOUT
        tall = below[row * _FANOUT : (row + 1) * _FANOUT].min(axis=0)
        line = tall.reshape(-1, _FANOUT).min(axis=1)
        above[row, : len(line)] = above[: len(line), row] = line


def _first_least(levels: list[Matrix]) -> tuple[int, int]:
    """Row and column of the least entry, the first by rows if there are several."""
    row = int(np.argmin(levels[-1])) // len(levels[-1])
    for below in reversed(levels[:-1]):
        block = below[row * _FANOUT : (row + 1) * _FANOUT]
        row = row * _FANOUT + int(np.argmin(block)) // len(below)
    return row, int(np.argmin(levels[0][row]))
