"""Participation probabilities of one round: the three participation models, solved globally."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.checks import finite_array, whole_number
from fedsched.errors import InputError
from fedsched.solve.blocks import blocks
from fedsched.solve.newton import newton
from fedsched.solve.search import search
from fedsched.solve.solution import Solution, Status
from fedsched.solve.waterfill import waterfill
from fedsched.values import PerDevice

__all__ = [
    "fixed_size_probabilities",
    "independent_probabilities",
    "optimal_probabilities",
]

# What could be gained, to first order and relative to the objective, before a solve is doubted.
TOLERANCE = 1e-9
_ROUNDING = 1e-12  # of sums over very many devices


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
        :meth:`~fedsched.solve.solution.Solution.raise_for_status` for that.

    Example:
        >>> solution = optimal_probabilities([40.0, 2.0, 2.0], weight=1.0, draws=2)
        >>> solution.probability.round(3).tolist()
        [0.158, 0.707, 0.707]
        >>> round(float(solution.draw_probability.sum()), 12), solution.status.name
        (1.0, 'OPTIMAL')
    """
    rows, weights, shape = _prepare(price, weight)
    m = whole_number("draws", draws)
    least = -math.expm1(math.log1p(-floor) / m) if 0.0 <= floor < 1.0 else floor
    _check_floor(floor, least, rows.shape[1], 1)
    return _solution(
        shape, [_draws(b, a, m, floor, least) for b, a in zip(rows, weights, strict=True)]
    )


@dataclass(frozen=True)
class _Answer:
    """One problem's answer, with its certificate."""

    q: PerDevice
    omega: PerDevice | None
    objective: float
    multiplier: float
    residual: float
    minima: int = 1
    certified: bool = True


def _draws(b: PerDevice, a: PerDevice, m: int, floor: float, least: float) -> _Answer:
    """The draw-probability problem of one round; ``a`` has one entry or one per device."""
    devices = len(b)
    if devices == 1 or least * devices >= 1.0 - 1e-15:
        # No choice: every device is at its floor.
        rest = 1.0 - 1.0 / devices
        slope = m * rest ** (m - 1) * (b - a / (1.0 - rest**m) ** 2)
        return _certify(np.full(devices, 1.0 / devices), float(slope.min()), b, a, m, floor, least)
    if m == 1:
        omega, multiplier = waterfill(b, a, 1.0, floor)
        return _certify(omega, multiplier, b, a, m, floor, least)
    fast = newton(b, a, m, floor)
    if fast is not None:
        omega, multiplier = fast.draw_probability, fast.multiplier
        answer = _certify(omega, multiplier, b, a, m, floor, least, fast.minima)
        # The fast method has few digits where q comes close to 1; the search has them all.
        if answer.residual <= TOLERANCE:
            return answer
    slow = search(b, np.broadcast_to(a, b.shape), m, floor)
    omega, multiplier = slow.draw_probability, slow.multiplier
    return _certify(omega, multiplier, b, a, m, floor, least, slow.minima, slow.certified)


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
    answers = []
    for b, a in zip(rows, weights, strict=True):
        with np.errstate(divide="ignore"):
            q = np.clip(np.sqrt(a / b), floor, 1.0)
        answers.append(_Answer(q, None, float((a / q + b * q).sum()), 0.0, 0.0))
    return _solution(shape, answers)


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
    return _solution(
        shape, [_fixed_size(b, a, float(size), floor) for b, a in zip(rows, weights, strict=True)]
    )


def _fixed_size(b: PerDevice, a: PerDevice, size: float, floor: float) -> _Answer:
    q, nu = waterfill(b, a, size, floor)
    off = b - a / q**2 - nu
    # At a bound only the wish to leave it counts.
    off = np.where(q <= floor, np.minimum(off, 0.0), np.where(q >= 1.0, np.maximum(off, 0.0), off))
    objective = float((a / q + b * q).sum())
    residual = float((np.abs(off) * q).sum()) / objective
    missing = _missing(float(q.sum()), min(size, float(len(q))))
    return _Answer(q, None, objective, nu, max(residual, missing))


def _prepare(
    price: ArrayLike, weight: ArrayLike
) -> tuple[PerDevice, Sequence[PerDevice], tuple[int, ...]]:
    """Price as rows, the weight of each row (one entry or one per device), the batch shape."""
    b = finite_array("price", price, allow_zero=True)
    a = finite_array("weight", weight, allow_zero=False)
    if b.ndim == 0 or b.size == 0:
        raise InputError(f"price must hold at least one device, got shape {b.shape}")
    if a.ndim and a.shape not in (b.shape[-1:], b.shape):
        raise InputError(
            f"weight must be one number or one per device: price has {b.shape[-1]} devices and "
            f"shape {b.shape}, weight has shape {a.shape}"
        )
    rows = b.reshape(-1, b.shape[-1])
    if a.ndim > 1:
        weights = np.broadcast_to(a, b.shape).reshape(rows.shape)
        return rows, [_one_or_all(each) for each in weights], b.shape[:-1]
    return rows, [_one_or_all(a.reshape(-1))] * len(rows), b.shape[:-1]


def _one_or_all(weight: PerDevice) -> PerDevice:
    """One entry where all are the same: that problem is the easier one."""
    return weight[:1] if len(weight) > 1 and np.all(weight == weight[0]) else weight


def _check_floor(floor: float, least_each: float, devices: int, total: float) -> None:
    if not 0.0 <= floor < 1.0:
        raise InputError(f"floor must lie in [0, 1), got {floor}; it is a probability")
    if least_each * devices > total * (1.0 + 1e-12):
        raise InputError(
            f"floor (qmin) {floor} asks too much: {devices} devices at their floor need "
            f"{least_each:.3g} each and only {total:g} in all is to be shared; lower it, or raise "
            "draws or size"
        )


def _certify(
    omega: PerDevice,
    multiplier: float,
    price: PerDevice,
    weight: PerDevice,
    m: int,
    floor: float,
    least: float,
    minima: int = 1,
    certified: bool = True,
) -> _Answer:
    r"""Make the draw probabilities sum to 1, and judge them by their definitions alone.

    The residual is :math:`\sum_n |F_n - \nu|\, \omega_n` relative to the objective, with
    :math:`F_n = m (1 - \omega_n)^{m-1} (b_n - a_n / q_n^2)`: what could be gained, to first order,
    by changing draw probabilities by up to themselves. A device at its floor counts only if it
    would rather rise. Where the sum of the draw probabilities is further from 1 than that, as it
    is where numbers differ by more than a double holds, the residual is how far.
    """
    omega = _summing_to_one(omega, least)
    q = np.empty_like(omega)
    objective = residual = 0.0
    for block in blocks(len(omega)):
        w, b, q_b = omega[block], price[block], q[block]
        a = weight if len(weight) == 1 else weight[block]
        log_rest = np.log1p(-np.minimum(w, 1.0 - 1e-16))
        np.expm1(log_rest * m, out=q_b)
        np.negative(q_b, out=q_b)
        ratio = a / q_b
        off = ratio / q_b
        np.subtract(b, off, out=off)
        log_rest *= m - 1
        off *= np.exp(log_rest, out=log_rest)
        off *= m
        off -= multiplier
        if floor > 0.0:
            np.maximum(q_b, floor, out=q_b)
            at_floor = q_b <= floor * (1.0 + 1e-9)
            off = np.where(at_floor, np.minimum(off, 0.0), off)
        residual += float(np.abs(off, out=off).dot(w))
        objective += float(ratio.sum()) + float(b.dot(q_b))
    residual = max(residual / objective, _missing(float(omega.sum()), 1.0))
    return _Answer(q, omega, objective, multiplier, residual, minima, certified)


def _missing(total: float, wanted: float) -> float:
    """How far a sum is off, in parts of it; 0 where it is rounding."""
    off = abs(total / wanted - 1.0)
    return off if off > _ROUNDING else 0.0


def _summing_to_one(omega: PerDevice, least: float) -> PerDevice:
    """Scale what the devices take above the least, so that all sum to 1."""
    if least == 0.0:
        return omega / float(omega.sum())
    above = np.maximum(omega - least, 0.0)
    total = float(above.sum())
    if total > 0.0:
        above *= (1.0 - least * len(omega)) / total
    return above + least


def _solution(shape: tuple[int, ...], answers: Sequence[_Answer]) -> Solution:
    """The answers of a batch as one solution."""

    def numbers(name: str, kind: type) -> NDArray[Any]:
        if shape == ():
            return np.asarray(getattr(answers[0], name), dtype=kind)
        return np.array([getattr(each, name) for each in answers], dtype=kind).reshape(shape)

    def devices(values: list[PerDevice]) -> PerDevice:
        return values[0] if shape == () else np.stack(values).reshape(*shape, -1)

    omegas = [each.omega for each in answers if each.omega is not None]
    residual, certified = numbers("residual", float), numbers("certified", bool)
    optimal = bool(certified.all()) and bool((residual <= TOLERANCE).all())
    return Solution(
        probability=devices([each.q for each in answers]),
        draw_probability=devices(omegas) if omegas else None,
        objective=numbers("objective", float),
        multiplier=numbers("multiplier", float),
        residual=residual,
        minima=numbers("minima", int),
        certified=certified,
        status=Status.OPTIMAL if optimal else Status.NOT_CERTIFIED,
    )
