r"""Draws with replacement where some devices want to be sure: an answer with its own certificate.

Where many draws meet devices with :math:`b_n \le a_n`, these devices take all the probability of a
draw that the others leave, at no cost: their q is 1 to the last digit, and the multiplier is too
small for a double. Without the sum, every device costs at least :math:`2 \sqrt{a_n b_n}`, or
:math:`a_n + b_n` where it is sure. That is a lower bound, and the answer below meets it.
"""

import numpy as np
from numpy.typing import NDArray

from fedsched.values import PerDevice

__all__ = ["mend"]

_PROVEN = 1e-9  # the gap from which an answer is left as it is


def mend(
    price: PerDevice,
    weight: PerDevice,
    draws: int,
    floor: float,
    omega: PerDevice,
    q: PerDevice,
    certificate: NDArray[np.float64],
) -> None:
    """Replace answers, in place, whose gap is open by ones that are proven, where there are any."""
    if np.all(certificate[..., 2] <= _PROVEN):
        return
    weights = np.broadcast_to(weight, price.shape)
    for row in np.ndindex(price.shape[:-1]):
        if certificate[row][2] <= _PROVEN:
            continue
        found = _answer(price[row], weights[row], draws, floor)
        if found is not None and found[3] < certificate[row][2]:
            omega[row], q[row] = found[0], found[1]
            certificate[row] = (found[2], 0.0, found[3], 0.0)


def _answer(
    b: PerDevice, a: PerDevice, draws: int, floor: float
) -> tuple[PerDevice, PerDevice, float, float] | None:
    """Draw probabilities, q, objective and gap; None where no device wants to be sure."""
    sure = b <= a
    if not sure.any():
        return None
    wanted = np.maximum(np.sqrt(a / np.where(sure, a, b)), floor)
    omega = np.where(sure, 0.0, -np.expm1(np.log1p(-np.where(sure, 0.0, wanted)) / draws))
    rest = (1.0 - omega.sum()) / sure.sum()
    if not rest > 0.0 or -np.expm1(draws * np.log1p(-min(rest, 1.0 - 1e-16))) < floor:
        return None
    omega = np.where(sure, min(rest, 1.0), omega)
    q = -np.expm1(draws * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
    q = np.clip(np.where(sure, q, wanted), floor, 1.0)
    objective = float((a / q + b * q).sum())
    bound = float(np.where(sure, a + b, a / wanted + b * wanted).sum())
    return omega, q, objective, max(objective - bound, 0.0) / objective
