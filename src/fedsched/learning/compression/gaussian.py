"""How much variance random rounding adds to Gaussian entries, by integration.

Between two levels a and b an entry x is rounded with variance (x - a)(b - x). Its mean over a
standard Gaussian entry has a closed form in the density and the distribution function.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["omega_of_bucketed_grid", "omega_of_powers"]

_POINTS = 400  # of the largest magnitude in a bucket
_MOST = 12.0  # standard deviations beyond which nothing happens

_erf = np.vectorize(math.erf, otypes=[float])


def _density(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _mean_variance(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""The sum of :math:`\int_a^b (x - a)(b - x) \phi(x) dx` over neighbours in the last axis."""
    a, b = levels[..., :-1], levels[..., 1:]
    half = 0.5 * _erf(levels / math.sqrt(2.0))
    mass = np.diff(half, axis=-1)
    first = _density(a) - _density(b)
    second = a * _density(a) - b * _density(b) + mass
    cells = (a + b) * first - second - a * b * mass
    return np.asarray(cells.sum(axis=-1))


@cache
def omega_of_bucketed_grid(steps: int, bucket: int) -> float:
    r"""Of L + 1 equally spaced levels from -M to M, M the largest magnitude of a bucket.

    .. math:: \omega = (B - 1) \int p(m) \, \frac{v(m)}{F(m)} dm / B, \quad
              F(m) = P(|x| \le m), \quad p = B F^{B-1} F' ,

    where v(m) is the mean variance of an entry within m. The largest entry itself is a level.
    """
    m = np.linspace(0.0, _MOST, _POINTS + 1)[1:]
    inside = _erf(m / math.sqrt(2.0))
    # p / F by logarithms, as a bucket may be large.
    weight = 2.0 * (bucket - 1) * _density(m) * np.exp((bucket - 2) * np.log(inside))
    levels = m[:, None] * np.linspace(-1.0, 1.0, steps + 1)
    return float((weight * _mean_variance(levels)).sum() * (m[1] - m[0]))


@cache
def omega_of_powers() -> float:
    """Of all powers of two, on both sides of zero."""
    powers = np.exp2(np.arange(-40, 5, dtype=np.float64))
    return 2.0 * float(_mean_variance(powers))
