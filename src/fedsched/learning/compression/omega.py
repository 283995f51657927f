"""How many bits: the second moment that compression adds, against what bits cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from fedsched.errors import InputError
from fedsched.learning.compression.base import Vector

__all__ = ["RunningOmega", "best_width", "some_of"]

_BLOCK = 512  # entries that stay together; buckets divide it
_SEEN = 1 << 16  # entries that tell enough of an update


@dataclass(frozen=True, kw_only=True)
class RunningOmega:
    r"""A running mean of :math:`\omega` as updates show it. State in, state out.

    .. math:: \bar\omega \leftarrow \bar\omega + (\omega - \bar\omega) / \min(k, W)

    for the k-th update: the mean of all until there are W of them, and from there on one whose
    weights fall by 1 - 1/W an update.

    Example:
        >>> mean = RunningOmega()
        >>> for omega in (0.1, 0.2, 0.6):
        ...     mean = mean.observe(omega)
        >>> round(mean.mean, 12), mean.updates
        (0.3, 3)
    """

    mean: float = math.nan
    updates: int = 0
    window: int = 200  # W, updates it looks back over

    def __post_init__(self) -> None:
        if self.window < 1 or self.updates < 0:
            raise InputError(
                f"window must be >= 1 and updates >= 0, got {self.window} and {self.updates}"
            )

    def observe(self, omega: float) -> Self:
        """With one more update, such as ``compressor.expected_omega(update)`` tells of it."""
        _not_negative("omega", omega)
        before = self.mean if self.updates else 0.0
        count = min(self.updates + 1, self.window)
        return replace(self, mean=before + (omega - before) / count, updates=self.updates + 1)


def some_of(vector: Vector, turn: int) -> Vector:
    """Some 65,536 entries in blocks of 512, evenly spread; another turn has other blocks.

    All of them, if there are not twice as many.

    Example:
        >>> import numpy as np
        >>> x = np.arange(1 << 18, dtype=np.float32)
        >>> len(some_of(x, 0)), some_of(x, 0)[:1], some_of(x, 1)[:1]
        (65536, array([0.], dtype=float32), array([512.], dtype=float32))
    """
    stride, blocks = len(vector) // _SEEN, len(vector) // _BLOCK
    if stride < 2:
        return vector
    return vector[: blocks * _BLOCK].reshape(blocks, _BLOCK)[turn % stride :: stride].reshape(-1)


def best_width(omega_by_width: Mapping[int, float], price_by_width: Mapping[int, float]) -> int:
    r"""The width with the least :math:`(1 + \omega) \times` price; the smaller of equal ones.

    An update that is sent with probability q adds :math:`a (1 + \omega) / q` to the second moment
    and costs b q. At the best q their sum is :math:`2 \sqrt{a (1 + \omega) b}`, whatever the
    channel: what is left to choose is the product.

    Args:
        omega_by_width: of each width in bits that may be used.
        price_by_width: of one update at each width: its bits, its airtime or its energy.

    Example:
        >>> best_width({2: 0.78, 3: 0.14, 4: 0.03}, {2: 2.03, 3: 3.03, 4: 4.03})
        3
    """
    if not omega_by_width or omega_by_width.keys() != price_by_width.keys():
        raise InputError(
            f"omega and price must be given for the same widths, got {sorted(omega_by_width)} and "
            f"{sorted(price_by_width)}"
        )
    for width in omega_by_width:
        _not_negative(f"omega at {width} bits", omega_by_width[width])
        _not_negative(f"price at {width} bits", price_by_width[width])
    return min(
        sorted(omega_by_width),
        key=lambda width: (1.0 + omega_by_width[width]) * price_by_width[width],
    )


def _not_negative(field: str, value: float) -> None:
    if not 0.0 <= value < math.inf:
        raise InputError(f"{field} must be finite and not below zero, got {value!r}")
