"""The transmit power of Theorem 2, corrected."""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.solve import _kernel
from fedsched.values import PerDevice

__all__ = ["log2_factor", "optimal_power"]


_LN2 = math.log(2.0)


def log2_factor(as_printed: bool) -> float:
    """The ln 2 in Theorem 2, squared as the paper prints it."""
    return _LN2 * _LN2 if as_printed else _LN2


def optimal_power(
    gain: ArrayLike,
    queue: ArrayLike,
    *,
    cost: float,
    noise: float,
    max_power: float,
    as_printed: bool = False,
    threads: int = 1,
) -> PerDevice:
    r"""The power that minimises the price of one upload.

    Solves, for each device by itself,

    .. math:: \min_{0 < P \le P_{\max}} \frac{c}{\log_2(1 + |h|^2 P / N_0)} + Z P .

    With :math:`x = 1 + |h|^2 P / N_0` stationarity reads :math:`x \ln^2 x = A` where
    :math:`A = c |h|^2 \ln(2) / (N_0 Z)`, so :math:`\ln x = 2 W_0(\sqrt A / 2)` and

    .. math:: P = \min\{P_{\max}, (N_0 / |h|^2)\,(e^{2 W_0(\sqrt{A} / 2)} - 1)\} ;

    an empty queue gives :math:`P_{\max}`. The paper prints :math:`\ln(2)^2` for :math:`\ln 2`,
    because its derivative of :math:`1 / \log_2` lacks a factor: 17 to 31 % too little power.

    Args:
        gain: |h|^2 > 0, shape (..., devices).
        queue: Z >= 0, broadcast against ``gain``.
        cost: c = V lambda l / B, the price of sending one bit per symbol per hertz.
        noise: N0.
        max_power: Pmax.
        as_printed: use the paper's :math:`\ln(2)^2`, to compare with its curves.
        threads: how many may share a long array; the bits do not depend on it.

    Returns:
        Power in the units of ``max_power``, shape of ``gain`` and ``queue`` broadcast.

    Example:
        >>> import numpy as np
        >>> optimal_power([1.0, 1.0], [0.0, 5.0], cost=10.0, noise=1.0, max_power=8.0).round(4)
        array([8.    , 1.2084])
    """
    for name, value in (("cost", cost), ("noise", noise), ("max_power", max_power)):
        positive_number(name, value)
    whole_number("threads", threads)
    g, z = _alike(gain, queue)
    power = np.empty(g.shape)
    if _kernel.power(
        g, z, power, cost, log2_factor(as_printed), noise, max_power, threads
    ):  # fmt: skip
        finite_array("gain", gain, allow_zero=False)
        finite_array("queue", queue, allow_zero=True)
    return power.reshape(np.broadcast_shapes(np.shape(gain), np.shape(queue)))


def _alike(gain: ArrayLike, queue: ArrayLike) -> tuple[PerDevice, PerDevice]:
    """Both as contiguous float64 arrays of one shape."""
    g, z = np.ascontiguousarray(gain, dtype=float), np.ascontiguousarray(queue, dtype=float)
    if g.shape == z.shape:
        return g, z
    try:
        np.broadcast_shapes(g.shape, z.shape)
    except ValueError:
        raise InputError(
            f"gain and queue must have matching shapes, got {g.shape} and {z.shape}; "
            "give one queue length per device"
        ) from None
    g, z = np.broadcast_arrays(g, z)
    return np.ascontiguousarray(g), np.ascontiguousarray(z)
