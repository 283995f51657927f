"""The transmit power of Theorem 2, corrected."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.checks import finite_array, positive_number
from fedsched.errors import InputError
from fedsched.solve.blocks import blocks
from fedsched.values import PerDevice

__all__ = ["lambert_w0", "optimal_power"]


def optimal_power(
    gain: ArrayLike,
    queue: ArrayLike,
    *,
    cost: float,
    noise: float,
    max_power: float,
    as_printed: bool = False,
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

    Returns:
        Power in the units of ``max_power``, shape of ``gain`` and ``queue`` broadcast.

    Example:
        >>> import numpy as np
        >>> optimal_power([1.0, 1.0], [0.0, 5.0], cost=10.0, noise=1.0, max_power=8.0).round(4)
        array([8.    , 1.2084])
    """
    g = finite_array("gain", gain, allow_zero=False)
    z = finite_array("queue", queue, allow_zero=True)
    for name, value in (("cost", cost), ("noise", noise), ("max_power", max_power)):
        positive_number(name, value)
    try:
        np.broadcast_shapes(g.shape, z.shape)
    except ValueError:
        raise InputError(
            f"gain and queue must have matching shapes, got {g.shape} and {z.shape}; "
            "give one queue length per device"
        ) from None
    log2_factor = math.log(2.0) ** (2 if as_printed else 1)
    power = power_unchecked(g, z, cost, noise, max_power, log2_factor)
    return power.reshape(np.broadcast_shapes(g.shape, z.shape))


def power_unchecked(
    gain: PerDevice,
    queue: PerDevice,
    cost: float,
    noise: float,
    max_power: float,
    log2_factor: float,
) -> PerDevice:
    """:func:`optimal_power` for inner loops, which trust their inputs."""
    if gain.shape != queue.shape or gain.ndim == 0:
        gain, queue = np.broadcast_arrays(np.atleast_1d(gain), queue)
    power = np.empty(gain.shape)
    for block in blocks(gain.shape[-1]):
        g, p = gain[..., block], power[..., block]
        with np.errstate(divide="ignore", over="ignore"):
            # The root of each factor: A itself may overflow where its root does not.
            half_root = np.sqrt(g * (0.25 * cost * log2_factor / noise)) / np.sqrt(
                queue[..., block]
            )
        nats = lambert_w0(half_root)
        nats *= 2.0
        # Capping ln(1 + SNR) rather than P keeps exp from overflowing on the way.
        most = np.log1p(g * (max_power / noise))
        np.minimum(nats, most, out=nats)
        np.expm1(nats, out=p)
        p *= noise / g
        np.minimum(p, max_power, out=p)
        # The way there and back rounds; the peak itself is meant.
        np.copyto(p, max_power, where=nats == most)
    return power


def lambert_w0(z: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""The principal branch of :math:`W e^W = z` for :math:`z \ge 0`; infinity gives about 700.

    Two steps of a fourth-order iteration on :math:`\ln z = W + \ln W` from a start that is off by
    at most 2 %: full double precision, at a fifteenth of the cost of a general complex routine.

    Example:
        >>> import numpy as np
        >>> bool(abs(lambert_w0(np.array([np.e]))[0] - 1.0) < 1e-15)
        True
    """
    z = np.maximum(z, 1e-300)
    np.minimum(z, 1e300, out=z)
    log_1z = np.log1p(z)
    w = np.log1p(log_1z)
    w /= log_1z + 2.0
    np.subtract(1.0, w, out=w)
    w *= log_1z
    for _ in range(2):
        # In exact arithmetic the relative error e of w satisfies ln(z / w) - w = (1 + w) e + ...
        gap = z / w
        np.log(gap, out=gap)
        gap -= w
        w1 = w + 1.0
        scale = gap * (2.0 / 3.0)
        scale += w1
        scale *= w1
        scale *= 2.0
        # w *= 1 + (gap / w1) (scale - gap) / (scale - 2 gap), in place
        change = scale - gap
        change *= gap
        change /= w1
        gap *= 2.0
        scale -= gap
        change /= scale
        change += 1.0
        w *= change
    return w
