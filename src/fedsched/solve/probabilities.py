"""Participation probabilities of one round: the three participation models, solved globally."""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedsched.checks import finite_array, number_within, whole_number
from fedsched.errors import InputError
from fedsched.solve import _kernel
from fedsched.solve.solution import Solution
from fedsched.values import PerDevice

__all__ = [
    "DESIGNS",
    "fixed_size_probabilities",
    "independent_probabilities",
    "optimal_probabilities",
]

# What the kernel calls the three ways to take part.
DESIGNS = {"with-replacement": 0, "fixed-size": 1, "independent": 2}


def optimal_probabilities(
    price: ArrayLike, *, weight: ArrayLike, draws: int, floor: float = 0.0, threads: int = 1
) -> Solution:
    r"""Draw probabilities that minimise the sum of variance and price, globally.

    Solves, over the simplex of draw probabilities,

    .. math:: \min_{\omega} \sum_n \frac{a_n}{q_n} + b_n q_n
              \quad\text{s.t.}\quad q_n = 1 - (1 - \omega_n)^m,\; \sum_n \omega_n = 1,\;
              q_n \ge q_{\min},

    where m devices are drawn with replacement and each distinct one takes part once. For m > 1
    the problem is not convex and may have several local minima; all that could be the least are
    found and compared, the others are excluded, and the result says how surely.

    Args:
        price: b >= 0, what taking part costs, shape (devices,) or (batch, devices).
        weight: a > 0, a number or one per device: what a small probability costs.
        draws: m, at least 1.
        floor: q_min, the least probability allowed, in [0, 1).
        threads: how many may share a long array; the bits do not depend on it.

    Returns:
        The solution with its certificate. Never raises on a numerical failure; call
        :meth:`~fedsched.solve.solution.Solution.raise_for_status` for that.

    Example:
        >>> solution = optimal_probabilities([40.0, 2.0, 2.0], weight=1.0, draws=2)
        >>> solution.probability.round(3).tolist()
        [0.158, 0.707, 0.707]
        >>> round(float(solution.draw_probability.sum()), 12), solution.status.name
        (1.0, 'OPTIMAL')
    """
    m = whole_number("draws", draws)
    return _solve("with-replacement", price, weight, floor, draws=m, threads=threads)


def independent_probabilities(
    price: ArrayLike, *, weight: ArrayLike, floor: float = 0.0, threads: int = 1
) -> Solution:
    r"""Probabilities when every device tosses its own coin (Poisson participation).

    Without a constraint that couples the devices,
    :math:`q_n = \min\{1, \max\{q_{\min}, \sqrt{a_n / b_n}\}\}` minimises
    :math:`\sum_n a_n / q_n + b_n q_n`. Arguments as for :func:`optimal_probabilities`.

    Example:
        >>> independent_probabilities([4.0, 0.5], weight=1.0).probability.tolist()
        [0.5, 1.0]
    """
    return _solve("independent", price, weight, floor, threads=threads)


def fixed_size_probabilities(
    price: ArrayLike, *, weight: ArrayLike, size: float, floor: float = 0.0, threads: int = 1
) -> Solution:
    r"""Probabilities when exactly ``size`` distinct devices take part.

    Solves the convex problem

    .. math:: \min_q \sum_n \frac{a_n}{q_n} + b_n q_n
              \quad\text{s.t.}\quad \sum_n q_n = s,\; q_{\min} \le q_n \le 1 ;

    any fixed-size design of survey sampling then realises q exactly. ``size`` of at least the
    number of devices means that all take part. Arguments as for :func:`optimal_probabilities`.

    Example:
        >>> fixed_size_probabilities([9.0, 1.0, 1.0], weight=1.0, size=2).probability.round(3)
        array([0.326, 0.837, 0.837])
    """
    check_size(size)
    return _solve("fixed-size", price, weight, floor, size=float(size), threads=threads)


def _solve(
    design: str,
    price: ArrayLike,
    weight: ArrayLike,
    floor: float,
    *,
    draws: int = 1,
    size: float = 1.0,
    threads: int = 1,
) -> Solution:
    b, a = _prepare(price, weight)
    devices = b.shape[-1]
    whole_number("threads", threads)
    check_floor(design, floor, devices, draws, size)
    q = np.empty(b.shape)
    omega = np.empty(b.shape) if design == "with-replacement" else None
    certificate = np.empty((*b.shape[:-1], 4))
    _kernel.solve(
        b, a, omega, q, certificate, devices, DESIGNS[design], draws, size, floor, threads
    )  # fmt: skip
    return Solution(
        probability=q,
        draw_probability=omega,
        objective=certificate[..., 0],
        multiplier=certificate[..., 1],
        gap=certificate[..., 2],
    )


def _prepare(price: ArrayLike, weight: ArrayLike) -> tuple[PerDevice, PerDevice]:
    """Price and weight as the kernel takes them: contiguous, and one weight, or one a device."""
    b = np.ascontiguousarray(finite_array("price", price, allow_zero=True))
    a = np.ascontiguousarray(finite_array("weight", weight, allow_zero=False))
    if np.ndim(price) == 0 or b.size == 0:
        raise InputError(f"price must hold at least one device, got shape {np.shape(price)}")
    if np.ndim(weight) and a.shape not in (b.shape[-1:], b.shape):
        raise InputError(
            f"weight must be one number or one per device: price has {b.shape[-1]} devices and "
            f"shape {b.shape}, weight has shape {a.shape}"
        )
    return b, a


def check_size(size: float) -> None:
    """Refuse a cohort of nobody."""
    if not size > 0:
        raise InputError(f"size must be positive, got {size}; it is how many devices take part")


def check_floor(design: str, floor: float, devices: int, draws: int, size: float) -> None:
    """Refuse a floor that is no probability, or that leaves nothing to share out."""
    if floor == 0.0:
        return
    number_within("floor", floor, "[0, 1)", "it is a probability")
    if design == "independent":
        return
    drawn = design == "with-replacement"
    least = -math.expm1(math.log1p(-floor) / draws) if drawn else floor
    total = 1.0 if drawn else size
    if least * devices > total * (1.0 + 1e-12):
        raise InputError(
            f"floor (qmin) {floor} asks too much: {devices} devices at their floor need "
            f"{least:.3g} each and only {total:g} in all is to be shared; lower it, or raise "
            "draws or size"
        )
