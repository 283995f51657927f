"""The transmit power of Theorem 2, corrected, and of devices that pay by the joule."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.solve import _kernel
from fedsched.values import PerDevice

__all__ = ["Tariff", "cheapest_power", "log2_factor", "optimal_power"]


_LN2 = math.log(2.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tariff:
    """What a second on air, a watt and a joule cost a device: one for all, or one each."""

    second: float | PerDevice = 0.0
    watt: float | PerDevice = 0.0
    joule: float | PerDevice = 0.0

    def __add__(self, other: Self) -> "Tariff":
        return Tariff(
            second=self.second + other.second,
            watt=self.watt + other.watt,
            joule=self.joule + other.joule,
        )


def cheapest_power(
    gain: PerDevice,
    tariff: Tariff,
    *,
    length: float,
    noise: float,
    max_power: float | PerDevice,
) -> PerDevice:
    r"""The power that minimises the price of one upload by the tariff.

    With s, w and j the prices of a second, a watt and a joule, it solves for each device

    .. math:: \min_{0 < P \le P_{\max}} (s + j P) \, \tau + w P, \quad
              \tau = L / \log_2(1 + |h|^2 P / N_0) .

    The price falls up to the best power and rises after it. With :math:`x = 1 + |h|^2 P / N_0` that
    power is where :math:`j (x \ln x - x + 1) + \frac{w}{L \ln 2} x \ln^2 x = s |h|^2 / N_0`. The
    left side grows and is convex in x, so Newton's method finds the root.

    Args:
        gain: |h|^2 > 0, one a device; NaN: out of reach.
        tariff: prices; that of a second is positive.
        length: L, the seconds of an upload at one bit per symbol: bits over bandwidth.
        noise: N0.
        max_power: Pmax, one for all or one a device.

    Returns:
        Power of each device; 0 where the gain is NaN.

    Example:
        >>> only_joules = Tariff(second=1.0, joule=1.0)
        >>> cheapest_power(np.ones(1), only_joules, length=1.0, noise=1.0, max_power=9.0).round(4)
        array([1.7183])
    """
    for name, value in (("length", length), ("noise", noise)):
        positive_number(name, value)
    g = np.ascontiguousarray(gain, dtype=float)

    def per_device(value: float | PerDevice) -> PerDevice:
        return np.ascontiguousarray(np.broadcast_to(value, g.shape), dtype=float)

    second, watt, joule = map(per_device, (tariff.second, tariff.watt, tariff.joule))
    peak, power = per_device(max_power), np.empty(g.shape)
    if _kernel.tariff(g, second, watt, joule, peak, power, length, noise):
        finite_array("gain", g[~np.isnan(g)], allow_zero=False)
        finite_array("tariff.second", second, allow_zero=False)
        finite_array("tariff.watt", watt, allow_zero=True)
        finite_array("tariff.joule", joule, allow_zero=True)
        finite_array("max_power", peak, allow_zero=False)
    return power


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
