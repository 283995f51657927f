"""Participation probabilities of one round: the three participation models, solved globally."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.core.blocks import blocks
from fedsched.core.checks import finite_array, whole_number
from fedsched.core.newton import solve_rows
from fedsched.core.search import search
from fedsched.core.solution import Solution, Status
from fedsched.core.waterfill import waterfill
from fedsched.errors import InputError
from fedsched.records import PerDevice

__all__ = [
    "fixed_size_probabilities",
    "independent_probabilities",
    "optimal_probabilities",
]

# What could be gained, to first order and relative to the objective, before a solve is doubted.
TOLERANCE = 1e-9


def optimal_probabilities(
    price: ArrayLike, *, weight: ArrayLike, draws: int, floor: float = 0.0
) -> Solution:
    r"""Draw probabilities that minimise the sum of variance and price, globally.

    Solves, over the simplex of draw probabilities,

    .. math:: \min_{\omega} \sum_n \frac{a_n}{q_n} + b_n q_n
              \quad\text{s.t.}\quad q_n = 1 - (1 - \omega_n)^m,\; \sum_n \omega_n = 1,\;
              q_n \ge q_{\min},

    where m devices are drawn with replacement and each distinct one takes part once. For m > 1
    the problem is not convex and may have several local minima; all are found and compared, or
    excluded, and the result says so.

    Args:
        price: b >= 0, what taking part costs, shape (devices,) or (batch, devices).
        weight: a > 0, a number or one per device: what a small probability costs.
        draws: m, at least 1.
        floor: q_min, the least probability allowed, in [0, 1).

    Returns:
        The solution with its certificate. Never raises on a numerical failure; call
        :meth:`~fedsched.core.solution.Solution.raise_for_status` for that.

    Example:
        >>> solution = optimal_probabilities([40.0, 2.0, 2.0], weight=1.0, draws=2)
        >>> solution.probability.round(3).tolist()
        [0.158, 0.707, 0.707]
        >>> round(float(solution.draw_probability.sum()), 12), solution.status.name
        (1.0, 'OPTIMAL')
    """
    rows, weights, shape = _prepare(price, weight)
    m = whole_number("draws", draws)
    devices = rows.shape[1]
    w_floor = _check_floor(floor, -np.expm1(np.log1p(-floor) / m) if floor < 1 else 1.0, devices, 1)
    minima, certified = _unique(len(rows))
    no_choice = devices == 1 or w_floor * devices >= 1.0 - 1e-15
    if no_choice:
        omega = np.full_like(rows, 1.0 / devices)
        rest = 1.0 - 1.0 / devices
        slope = m * rest ** (m - 1) * (rows - weights / (1.0 - rest**m) ** 2)
        multiplier = slope.min(axis=1)
    elif m == 1:
        omega, multiplier = waterfill(rows, weights, 1.0, floor)
    else:
        fast = solve_rows(rows, weights, m, floor)
        omega, multiplier = fast.draw_probability, fast.multiplier
        minima, certified = fast.minima, fast.certified
    searched = np.zeros(len(rows), dtype=bool)
    doubted = ~certified
    while True:
        for row in np.flatnonzero(doubted):
            result = search(rows[row], np.broadcast_to(weights, rows.shape)[row], m, floor)
            omega[row], multiplier[row] = result.draw_probability, result.multiplier
            minima[row], certified[row] = result.minima, result.certified
        searched |= doubted
        _make_sum_exact(omega, w_floor)
        q, objective, residual = _certificate(omega, multiplier, rows, weights, m, floor)
        # The fast method has few digits where q comes close to 1; the search has them all.
        doubted = ~(residual <= TOLERANCE) & ~searched
        if m == 1 or no_choice or not doubted.any():
            break
    return _solution(shape, q, omega, objective, multiplier, residual, minima, certified)


def independent_probabilities(
    price: ArrayLike, *, weight: ArrayLike, floor: float = 0.0
) -> Solution:
    r"""Probabilities when every device tosses its own coin (Poisson participation).

    Without a constraint that couples the devices,
    :math:`q_n = \min\{1, \max\{q_{\min}, \sqrt{a_n / b_n}\}\}` minimises
    :math:`\sum_n a_n / q_n + b_n q_n`. Arguments as for :func:`optimal_probabilities`.

    Example:
        >>> independent_probabilities([4.0, 0.5], weight=1.0).probability.tolist()
        [0.5, 1.0]
    """
    rows, weights, shape = _prepare(price, weight)
    _check_floor(floor, floor, 1, 1)
    with np.errstate(divide="ignore"):
        q = np.clip(np.sqrt(weights / rows), floor, 1.0)
    objective = (weights / q + rows * q).sum(axis=1)
    nothing = np.zeros(len(rows))
    return _solution(shape, q, None, objective, nothing, nothing, *_unique(len(rows)))


def fixed_size_probabilities(
    price: ArrayLike, *, weight: ArrayLike, size: float, floor: float = 0.0
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
    rows, weights, shape = _prepare(price, weight)
    if not size > 0:
        raise InputError(f"size must be positive, got {size}; it is how many devices take part")
    _check_floor(floor, floor, rows.shape[1], size)
    q, nu = waterfill(rows, weights, float(size), floor)
    off = rows - weights / q**2 - nu[:, None]
    # At a bound only the wish to leave it counts.
    off = np.where(q <= floor, np.minimum(off, 0.0), np.where(q >= 1.0, np.maximum(off, 0.0), off))
    objective = (weights / q + rows * q).sum(axis=1)
    residual = (np.abs(off) * q).sum(axis=1) / objective
    return _solution(shape, q, None, objective, nu, residual, *_unique(len(rows)))


def _prepare(price: ArrayLike, weight: ArrayLike) -> tuple[PerDevice, PerDevice, tuple[int, ...]]:
    """Price as rows, weight as something that broadcasts against rows, and the batch shape."""
    b = finite_array("price", price, allow_zero=True)
    a = finite_array("weight", weight, allow_zero=False)
    if b.ndim == 0 or b.shape[-1] == 0:
        raise InputError(f"price must hold at least one device, got shape {b.shape}")
    if a.ndim and a.shape[-1] != b.shape[-1]:
        raise InputError(
            f"weight must be one number or one per device: price has {b.shape[-1]} devices, "
            f"weight has shape {a.shape}"
        )
    if a.ndim and np.all(a == a.flat[0]):
        a = a.flat[0] * np.ones(())
    rows = b.reshape(-1, b.shape[-1])
    if a.ndim > 1:
        a = np.broadcast_to(a, b.shape).reshape(rows.shape)
    return rows, a.reshape(-1, a.shape[-1] if a.ndim else 1), b.shape[:-1]


def _check_floor(floor: float, least_each: float, devices: int, total: float) -> float:
    if not 0.0 <= floor < 1.0:
        raise InputError(f"floor must lie in [0, 1), got {floor}; it is a probability")
    if least_each * devices > total * (1.0 + 1e-12):
        raise InputError(
            f"floor {floor} asks too much: {devices} devices at their floor need {least_each:.3g} "
            f"each and only {total:g} in all is to be shared; lower floor or raise draws or size"
        )
    return least_each


def _make_sum_exact(omega: PerDevice, least: float) -> None:
    """Scale, in place, what the devices take above the least, so that rows sum to 1."""
    if least == 0.0:
        omega /= omega.sum(axis=1, keepdims=True)
        return
    omega -= least
    np.maximum(omega, 0.0, out=omega)
    above = omega.sum(axis=1, keepdims=True)
    omega *= np.where(above > 0.0, (1.0 - least * omega.shape[1]) / above, 0.0)
    omega += least


def _certificate(
    omega: PerDevice,
    multiplier: NDArray[np.float64],
    price: PerDevice,
    weight: PerDevice,
    m: int,
    floor: float,
) -> tuple[PerDevice, NDArray[np.float64], NDArray[np.float64]]:
    r"""Probability, objective and residual of draw probabilities, from their definitions alone.

    The residual is :math:`\sum_n |F_n - \nu|\, \omega_n` relative to the objective, with
    :math:`F_n = m (1 - \omega_n)^{m-1} (b_n - a_n / q_n^2)`: what could be gained, to first order,
    by changing draw probabilities by up to themselves. A device at its floor counts only if it
    would rather rise.
    """
    q = np.empty_like(omega)
    objective, residual = np.zeros(len(omega)), np.zeros(len(omega))
    for block in blocks(omega.shape[1]):
        w, b = omega[:, block], price[:, block]
        a = weight if weight.shape[1] == 1 else weight[:, block]
        log_rest = np.log1p(-np.minimum(w, 1.0 - 1e-16))
        q_b = np.expm1(log_rest * m)
        np.negative(q_b, out=q_b)
        ratio = a / q_b
        off = b - ratio / q_b
        off *= np.exp(log_rest * (m - 1))
        off *= m
        off -= multiplier[:, None]
        if floor > 0.0:
            np.maximum(q_b, floor, out=q_b)
            at_floor = q_b <= floor * (1.0 + 1e-9)
            off = np.where(at_floor, np.minimum(off, 0.0), off)
        np.abs(off, out=off)
        off *= w
        residual += off.sum(axis=1)
        ratio += b * q_b
        objective += ratio.sum(axis=1)
        q[:, block] = q_b
    return q, objective, residual / objective


def _unique(rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Minima and certificate of convex problems."""
    return np.ones(rows, dtype=np.int64), np.ones(rows, dtype=bool)


def _solution(
    shape: tuple[int, ...],
    q: PerDevice,
    omega: PerDevice | None,
    objective: NDArray[np.float64],
    multiplier: NDArray[np.float64],
    residual: NDArray[np.float64],
    minima: NDArray[np.int64],
    certified: NDArray[np.bool_],
) -> Solution:
    optimal = bool(certified.all()) and bool((residual <= TOLERANCE).all())
    return Solution(
        probability=q.reshape(*shape, -1),
        draw_probability=None if omega is None else omega.reshape(*shape, -1),
        objective=objective.reshape(shape),
        multiplier=multiplier.reshape(shape),
        residual=residual.reshape(shape),
        minima=minima.reshape(shape),
        certified=certified.reshape(shape),
        status=Status.OPTIMAL if optimal else Status.NOT_CERTIFIED,
    )
