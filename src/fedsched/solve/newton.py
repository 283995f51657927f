r"""The draw-probability problem by Newton's method, with bounds that prove the answer global.

The problem of one round, for ``draws`` :math:`m \ge 2`, is

.. math:: \min_\omega \sum_n \frac{a_n}{q_n} + b_n q_n, \quad q_n = 1 - (1 - \omega_n)^m,
          \quad \sum_n \omega_n = 1 .

With :math:`r = (m-1)/m` and :math:`\kappa = (1-q)^{-r}` stationarity reads
:math:`1 / q_n^2 = b_n / a_n - (\nu / (m a_n)) \kappa(q_n)`, which is nearly linear in
:math:`y = 1 / q^2` because :math:`\kappa \approx 1` for small q. So each sweep takes one Newton
step in y for every device and one in the scalar unknown, together; three to six sweeps reach
rounding error.

Let :math:`q^* = \min(1, \sqrt{a / b})` be what each device would choose alone and
:math:`S = \sum \omega(q^*)`.

* :math:`S \ge 1`, too much is wanted: :math:`\nu \le 0`, all devices sit where the objective is
  convex, and the stationary point is the only one.
* :math:`S < 1`, too little is wanted: at a minimum at most one device sits where its term is
  concave, on its falling branch, and with one weight for all it is k, the cheapest (``search``
  proves it). With k on its falling branch the unknown is :math:`U = 1 - \omega_k`, the sum of
  the others; with k on its rising branch it is nu. A minimum of one kind is accepted at once
  where bounds exclude all others (``uniqueness``); where each kind may have one, both are found
  and compared, and a scan of U proves that there is no third. What remains is left to ``search``.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsched.solve.blocks import blocks
from fedsched.solve.response import Cheapest, Devices
from fedsched.solve.uniqueness import count_falling, no_root_at_all, none_rising, one_root_at_most
from fedsched.values import PerDevice

__all__ = ["NewtonResult", "newton"]

_SWEEPS = 16
# Enough devices to place the start of the iteration.
_SAMPLE = 4_000
# The sum of omegas, before it is made exact; steps are quadratic, so 1e-6 was the last one.
_TOLERANCE = 1e-11
# Closest to 1 that q may come: y = 1 / q^2 cannot tell it apart from 1 beyond that.
_Y_LEAST = 1.0 + 2e-12


@dataclass(frozen=True)
class NewtonResult:
    """Draw probabilities that are proven to be the global minimum."""

    draw_probability: PerDevice  # their sum is 1 up to the tolerance
    multiplier: float
    minima: int  # how many were found and compared


def newton(price: PerDevice, weight: PerDevice, draws: int, floor: float) -> NewtonResult | None:
    """Solve one problem; None where the answer could not be proven global.

    ``price`` has shape (devices,), ``weight`` the same or (1,); ``draws`` and devices are at least
    2. With unequal weights only problems with S >= 1 are solved here.
    """
    unit = float(weight[0])
    inverse = None if len(weight) == 1 else unit / weight
    b = price / weight
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        alone = _alone(b, draws, floor)
        wanted = float(alone.sum())
        if wanted >= 1.0:
            answer = _convex(b, inverse, draws, floor)
        elif inverse is None:
            answer = _reverse_convex(b, draws, floor, alone, wanted)
        else:
            answer = None
    if answer is None:
        return None
    return NewtonResult(answer.draw_probability, answer.multiplier * unit, answer.minima)


def _alone(b: PerDevice, m: int, floor: float) -> PerDevice:
    """What each device would choose without the constraint."""
    omega = np.empty_like(b)
    for block in blocks(len(b)):
        q = np.sqrt(np.maximum(b[block], 1.0))
        np.divide(-1.0, q, out=q)
        if floor > 0.0:
            np.minimum(q, -floor, out=q)
        np.log1p(q, out=q)
        q *= 1.0 / m
        np.expm1(q, out=q)
        np.negative(q, out=omega[block])
    return omega


def _convex(b: PerDevice, inverse: PerDevice | None, m: int, floor: float) -> NewtonResult | None:
    """Too much is wanted: one stationary point, at nu <= 0."""
    # Start where devices of the middle price would be uniform.
    even = -math.expm1(m * math.log1p(-1.0 / len(b)))
    kappa = math.exp(min((1 - m) * math.log1p(-1.0 / len(b)), 600.0)) / m
    stride = -(-len(b) // _SAMPLE)
    some = b[::stride]
    nu = min((float(some.mean()) - 1.0 / even**2) / kappa, 0.0)
    if stride > 8:
        # A sample that is to take its share of the whole knows nu to a few per cent.
        some_inverse = None if inverse is None else inverse[::stride]
        sample = _convex_devices(some, some_inverse, m, floor, nu * kappa)
        nu, _ = _solve_for_nu(sample, nu, 0.0, len(some) / len(b))
    devices = _convex_devices(b, inverse, m, floor, nu * kappa)
    nu, found = _solve_for_nu(devices, nu, 0.0, 1.0)
    return NewtonResult(devices.omega(), nu, 1) if found else None


def _convex_devices(
    b: PerDevice, inverse: PerDevice | None, m: int, floor: float, charge: float
) -> Devices:
    y_least = np.maximum(b, _Y_LEAST)
    y_most = math.inf if floor == 0.0 else max(1.0 / floor**2, _Y_LEAST)
    y = b - (charge if inverse is None else charge * inverse)
    np.maximum(y, y_least, out=y)
    np.minimum(y, y_most, out=y)
    return Devices(b, m, floor, y=y, y_least=y_least, y_most=y_most, inverse_weight=inverse)


def _solve_for_nu(devices: Devices, nu: float, nu_most: float, whole: float) -> tuple[float, bool]:
    r"""Newton in y and, for nu, on :math:`(\sum \omega)^{-2} = 1` (or of the ``whole``).

    That power of the sum is nearly linear in nu, since :math:`\omega \approx q / m` and
    :math:`q \approx (b - \nu / m)^{-1/2}`.
    """
    for _ in range(_SWEEPS):
        total, slope, moved = (each / whole for each in devices.sweep(nu))
        if abs(total - 1.0) <= _TOLERANCE and moved <= 1e-6:
            devices.move(0.0)
            return nu, True
        if slope > 0.0:
            target = min(nu + 0.5 * total * (1.0 - total) * (1.0 + total) / slope, nu_most)
        elif total < 1.0 and nu < nu_most:
            target = nu_most  # all are at their floor and must be paid to leave it
        else:
            break
        devices.move(target - nu)
        nu = target
    return nu, False


def _reverse_convex(
    b: PerDevice, m: int, floor: float, alone: PerDevice, wanted: float
) -> NewtonResult | None:
    """Too little is wanted: k takes what the others leave, or nobody sits on a falling branch."""
    k = Cheapest.of(b, m)
    if floor > k.q_turn:
        return None
    least = wanted - float(alone[k.index])  # what the others take at the least
    falling = _falling_root(k, floor, least)
    if falling is not None and one_root_at_most(k, floor):
        return falling
    rising = _rising_root(b, k, floor)
    if falling is None and rising is not None and no_root_at_all(k, floor, least):
        return rising
    falls = count_falling(k, floor, least)
    if falls is None or falls > 1 or (falls == 1) != (falling is not None):
        return None
    if rising is None and not none_rising(k, floor, least):
        return None  # there is one, and it was not found
    points = [point for point in (rising, falling if falls else None) if point is not None]
    if not points:
        return None
    best = min(points, key=lambda point: _objective(b, point.draw_probability, m))
    return NewtonResult(best.draw_probability, best.multiplier, len(points))


def _objective(b: PerDevice, omega: PerDevice, m: int) -> float:
    q = -np.expm1(m * np.log1p(-omega))
    return float((1.0 / q + b * q).sum())


def _falling_root(k: Cheapest, floor: float, least: float) -> NewtonResult | None:
    """The stationary point where k takes most: Newton from the least the others can take."""
    if not least < k.rest_turn:
        return None
    rest = least
    nu, nu_slope = k.price_of(rest)
    devices = k.respond(floor, nu)
    for _ in range(_SWEEPS):
        total, slope, moved = devices.sweep(nu)
        gap = total - rest
        if abs(gap) <= _TOLERANCE * rest and moved <= 1e-6 * total:
            devices.move(0.0)
            return NewtonResult(k.insert(devices.omega(), 1.0 - rest), nu, 1)
        # Newton on others(nu(U)) - U; at a minimum its derivative is negative.
        steepness = min(slope * nu_slope - 1.0, -0.02)
        rest = max(rest - gap / steepness, 0.0)
        if not rest < k.rest_turn:
            return None
        nu_next, nu_slope = k.price_of(rest)
        devices.move(nu_next - nu)
        nu = nu_next
    return None


def _rising_root(b: PerDevice, k: Cheapest, floor: float) -> NewtonResult | None:
    """The stationary point with every device on its rising branch, if there is one."""
    nu_most, _ = k.price_of(k.rest_turn)
    y_most = b if floor == 0.0 else np.minimum(b, 1.0 / floor**2)
    devices = Devices(b, k.m, floor, y=y_most.copy(), y_least=k.y_turn, y_most=y_most)
    nu, found = _solve_for_nu(devices, 0.0, nu_most * (1.0 - 1e-9), 1.0)
    return NewtonResult(devices.omega(), nu, 1) if found else None
