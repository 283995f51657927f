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
  where bounds exclude all others; where each kind may have one, both are found and compared,
  and a scan of U proves that there is no third. What remains is left to ``search``.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.core.blocks import blocks
from fedsched.records import PerDevice

__all__ = ["NewtonResult", "newton"]

_SWEEPS = 16
# Enough devices to place the start of the iteration.
_SAMPLE = 4_000
_SHRINKS = 8
_SCAN = 16
# Where minima merge no scan is fine enough; the search has a better way.
_MOST_SCANNED = 512
# The sum of omegas, before it is made exact; steps are quadratic, so 1e-6 was the last one.
_TOLERANCE = 1e-11
# Bounds are pushed outwards by this much, far more than rounding can move them.
_SLACK = 1e-12
# Closest to 1 that q may come: y = 1 / q^2 cannot tell it apart from 1 beyond that.
_Y_LEAST = 1.0 + 2e-12
_Q_MOST = 1.0 - 1e-15


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


class _Devices:
    """Devices that respond to nu: their y, the Newton step that is due, its derivative in nu."""

    def __init__(
        self,
        b: PerDevice,
        m: int,
        floor: float,
        *,
        y: PerDevice,
        y_least: PerDevice | float,
        y_most: PerDevice | float,
        inverse_weight: PerDevice | None = None,
    ) -> None:
        self.b, self.m, self.floor, self.inverse_weight = b, m, floor, inverse_weight
        self.y, self.y_least, self.y_most = y, y_least, y_most
        self.y_floor = math.inf if floor == 0.0 else 1.0 / floor**2
        self.step, self.response = np.empty_like(y), np.empty_like(y)

    def sweep(self, nu: float) -> tuple[float, float, float]:
        """A Newton step in y at fixed nu, not taken yet.

        Returns:
            The sum of omega after the step, its derivative in nu, and how far the step moves the
            omegas in all.
        """
        m = self.m
        r = (m - 1) / m
        total = slope = moved = 0.0
        for block in blocks(len(self.y)):
            y, step, response = self.y[block], self.step[block], self.response[block]
            q = np.sqrt(y)
            np.divide(1.0, q, out=q)
            log_rest = np.log1p(-q)
            kappa = np.exp(log_rest * -r)
            kappa *= 1.0 / m
            fall = q / y
            fall *= 0.5
            fall *= kappa  # -d omega / dy, since d omega / dq = kappa / m
            q -= 1.0
            inverse = fall / q
            if self.inverse_weight is not None:
                kappa *= self.inverse_weight[block]
                inverse *= self.inverse_weight[block]
            # Newton on y - b + nu kappa / (m a): its derivative is 1 - nu r (-dw/dy) / (a (1-q)).
            inverse *= r * nu
            inverse += 1.0
            np.divide(1.0, inverse, out=inverse)
            np.multiply(kappa, inverse, out=response)  # minus dy / d nu
            kappa *= nu
            kappa += y
            kappa -= self.b[block]
            np.multiply(kappa, inverse, out=step)  # minus the step in y
            if self.floor > 0.0:
                # A device at its floor moves only if the step leads off it.
                free = (y < self.y_floor) | (step > 0.0)
                response *= free
                step *= free
            log_rest *= 1.0 / m
            np.expm1(log_rest, out=log_rest)
            total += float(fall.dot(step)) - float(log_rest.sum())
            slope += float(fall.dot(response))
            moved += float(fall.dot(np.abs(step)))
        return total, slope, moved

    def move(self, nu_change: float) -> None:
        """Take the step that is due, corrected to first order for the change of nu."""
        for block in blocks(len(self.y)):
            y = self.y[block]
            y -= self.step[block]
            if nu_change != 0.0:
                y -= self.response[block] * nu_change
            np.maximum(y, _part(self.y_least, block), out=y)
            np.minimum(y, _part(self.y_most, block), out=y)

    def omega(self) -> PerDevice:
        """The draw probabilities, once the step that is due has been taken."""
        omega = np.empty_like(self.y)
        for block in blocks(len(self.y)):
            q = np.sqrt(self.y[block])
            np.divide(-1.0, q, out=q)
            np.log1p(q, out=q)
            q *= 1.0 / self.m
            np.expm1(q, out=q)
            np.negative(q, out=omega[block])
        return omega


def _part(bound: PerDevice | float, block: slice) -> PerDevice | float:
    return bound if isinstance(bound, float) else bound[block]


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
) -> _Devices:
    y_least = np.maximum(b, _Y_LEAST)
    y_most = math.inf if floor == 0.0 else max(1.0 / floor**2, _Y_LEAST)
    y = b - (charge if inverse is None else charge * inverse)
    np.maximum(y, y_least, out=y)
    np.minimum(y, y_most, out=y)
    return _Devices(b, m, floor, y=y, y_least=y_least, y_most=y_most, inverse_weight=inverse)


def _solve_for_nu(devices: _Devices, nu: float, nu_most: float, whole: float) -> tuple[float, bool]:
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


@dataclass(frozen=True)
class _Cheapest:
    """k, the only device that may sit on its falling branch, and the others."""

    index: int
    b: float
    m: int
    others: PerDevice  # b of the others
    q_turn: float  # where F_k turns from rising to falling
    y_turn: float
    rest_turn: float  # 1 - omega_k there

    @classmethod
    def of(cls, b: PerDevice, m: int) -> "_Cheapest":
        index = int(b.argmin())
        least, r = float(b[index]), (m - 1) / m
        # The root of r b q^3 + (2-r) q = 2: q^3 + p q = s with p, s > 0 has one real root, and
        # this form of it does not cancel.
        p, s = (2.0 - r) / (r * least), 2.0 / (r * least)
        angle = math.asinh(1.5 * s / p * math.sqrt(3.0 / p)) / 3.0
        q_turn = min(2.0 * math.sqrt(p / 3.0) * math.sinh(angle), _Q_MOST)
        rest_turn = math.exp(math.log1p(-q_turn) / m)
        others = np.concatenate([b[:index], b[index + 1 :]])
        return cls(index, least, m, others, q_turn, 1.0 / q_turn**2, rest_turn)

    def price_of(self, rest: float) -> tuple[float, float]:
        """The multiplier F_k at omega_k = 1 - rest, and its derivative in rest."""
        m = self.m
        power = rest ** (m - 2)
        # A rest that rounds to 1 still leaves k something.
        q = max(1.0 - power * rest * rest, 1e-17)
        above = self.b - 1.0 / (q * q)
        slope = m * (m - 1) * power * above - 2.0 * (m * power * rest) ** 2 / q**3
        return m * power * rest * above, slope

    def price_slopes(self, low: float, high: float) -> tuple[float, float]:
        """Bounds, from below and above, of d nu / d rest between two values of rest."""
        m = self.m
        q_low, q_high = max(1.0 - low**m, 1e-17), max(1.0 - high**m, 1e-17)
        least = m * (m - 1) * low ** (m - 2) * (self.b - 1.0 / q_high**2)
        least -= 2.0 * (m * high ** (m - 1)) ** 2 / q_high**3
        most = m * (m - 1) * high ** (m - 2) * (self.b - 1.0 / q_low**2)
        most -= 2.0 * (m * low ** (m - 1)) ** 2 / q_low**3
        return least, most

    def respond(self, floor: float, nu: float = 0.0) -> _Devices:
        """The others, ready to respond to nu >= 0; they start where q is small and kappa is 1."""
        y_most = self.others if floor == 0.0 else np.minimum(self.others, 1.0 / floor**2)
        y = np.maximum(y_most - nu / self.m, self.y_turn)
        return _Devices(self.others, self.m, floor, y=y, y_least=self.y_turn, y_most=y_most)

    def insert(self, others: PerDevice, own: float) -> PerDevice:
        """The draw probabilities of all, from those of the others and of k."""
        return np.concatenate([others[: self.index], [own], others[self.index :]])


def _reverse_convex(
    b: PerDevice, m: int, floor: float, alone: PerDevice, wanted: float
) -> NewtonResult | None:
    """Too little is wanted: k takes what the others leave, or nobody sits on a falling branch."""
    k = _Cheapest.of(b, m)
    if floor > k.q_turn:
        return None
    least = wanted - float(alone[k.index])  # what the others take at the least
    falling = _falling_root(k, floor, least)
    if falling is not None and _one_root_at_most(k, floor):
        return falling
    rising = _rising_root(b, k, floor)
    if falling is None and rising is not None and _no_root_at_all(k, floor, least):
        return rising
    falls = _count_falling(k, floor, least)
    if falls is None or falls > 1 or (falls == 1) != (falling is not None):
        return None
    if rising is None and not _none_rising(k, floor, least):
        return None  # there is one, and it was not found
    points = [point for point in (rising, falling if falls else None) if point is not None]
    if not points:
        return None
    best = min(points, key=lambda point: _objective(b, point.draw_probability, m))
    return NewtonResult(best.draw_probability, best.multiplier, len(points))


def _none_rising(k: _Cheapest, floor: float, least: float) -> bool:
    """Whether the sum stays below 1 up to k's inflection, so that no point has all rising."""
    if not least < k.rest_turn:
        return False
    others, _ = _responses(k, floor, np.linspace(least, k.rest_turn, _SCAN))
    return bool(others[-1] < k.rest_turn * (1.0 - 1e-9))


def _objective(b: PerDevice, omega: PerDevice, m: int) -> float:
    q = -np.expm1(m * np.log1p(-omega))
    return float((1.0 / q + b * q).sum())


def _falling_root(k: _Cheapest, floor: float, least: float) -> NewtonResult | None:
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


def _rising_root(b: PerDevice, k: _Cheapest, floor: float) -> NewtonResult | None:
    """The stationary point with every device on its rising branch, if there is one."""
    nu_most, _ = k.price_of(k.rest_turn)
    y_most = b if floor == 0.0 else np.minimum(b, 1.0 / floor**2)
    devices = _Devices(b, k.m, floor, y=y_most.copy(), y_least=k.y_turn, y_most=y_most)
    nu, found = _solve_for_nu(devices, 0.0, nu_most * (1.0 - 1e-9), 1.0)
    return NewtonResult(devices.omega(), nu, 1) if found else None


def _one_root_at_most(k: _Cheapest, floor: float) -> bool:
    """Whether no two stationary points exist, and none has k on its rising branch.

    While k sits at or beyond its inflection the others pay at most ``nu``. So each of their q is
    at most the fixed point of q = (b - nu kappa(q) / m)^(-1/2) that is reached from above; their
    sum bounds U, and U bounds nu again. U - others(U) rises all the way to that bound, and hence
    has one root, if the steepest response of the others times the steepest rise of nu is below 1.
    """
    m, r = k.m, (k.m - 1) / k.m
    log_rest = np.empty_like(k.others)
    nu, _ = k.price_of(k.rest_turn)
    for shrink in range(_SHRINKS):
        upper = slope = 0.0
        for block in blocks(len(log_rest)):
            if shrink == 0:
                # At its inflection k pays nu kappa / m = b_k - y_k, the others no more than that.
                q = k.others[block] - (k.b - k.y_turn)
            else:
                q = np.exp(log_rest[block] * -r)
                q *= -nu / m
                q += k.others[block]
            np.sqrt(q, out=q)
            np.divide(1.0, q, out=q)
            if floor > 0.0:
                np.maximum(q, floor, out=q)
            rest = np.log1p(-q, out=log_rest[block])
            w = np.expm1(rest * (1.0 / m))
            # The curvature of a device's term, its price eliminated by stationarity.
            curvature = np.exp(rest * (2.0 * r))
            curvature *= 2.0 * m * m
            curvature /= q * q * q
            upper -= float(w.sum())
            w += 1.0
            np.divide((m - 1) * nu, w, out=w)
            curvature -= w
            if not float(curvature.min()) > 0.0:
                slope = math.inf
            np.divide(1.0, curvature, out=curvature)
            slope += float(curvature.sum())
        upper *= 1.0 + _SLACK
        if upper < k.rest_turn:
            steepest = m * (m - 1) * upper ** (m - 2) * (k.b - 1.0)
            if slope * steepest < 1.0 - 1e-9:
                return True
        nu, _ = k.price_of(min(upper, k.rest_turn))
    return False


def _no_root_at_all(k: _Cheapest, floor: float, least: float) -> bool:
    """Whether no stationary point has k on its falling branch.

    The mirror image: the others take at least what they want alone, so U and nu are at least so
    much, so the others take at least so much more; if U is pushed past the inflection, k has
    nowhere to fall.
    """
    m, r = k.m, (k.m - 1) / k.m
    lower = least * (1.0 - _SLACK)
    q = 1.0 / np.sqrt(k.others)
    np.maximum(q, floor, out=q)
    for _ in range(_SHRINKS):
        if lower > k.rest_turn:
            return True
        nu, _ = k.price_of(lower)
        y = np.exp(np.log1p(-q) * -r)
        y *= -nu / m
        y += k.others
        np.maximum(y, k.y_turn, out=y)
        q = 1.0 / np.sqrt(y)
        np.maximum(q, floor, out=q)
        pushed = -float(np.expm1(np.log1p(-q) * (1.0 / m)).sum()) * (1.0 - _SLACK)
        if pushed < lower * 1.001:
            return False
        lower = pushed
    return False


def _count_falling(k: _Cheapest, floor: float, least: float) -> int | None:
    """How many minima have k on its falling branch; None if a scan of U cannot tell.

    Between two points s < t of the scan, others(s) > t or others(t) < s excludes a stationary
    point. Where one is possible, U - others(U) must be provably rising (a minimum where it
    changes sign) or provably falling (none); where neither can be told the scan is refined.
    """
    if not least < k.rest_turn:
        return 0
    rest = np.linspace(least * (1.0 - _SLACK), k.rest_turn, _SCAN)
    others, slope = _responses(k, floor, rest)
    for _ in range(_SHRINKS):
        unclear, count = [], 0
        for i in range(len(rest) - 1):
            s, t = float(rest[i]), float(rest[i + 1])
            if others[i] * (1.0 - 1e-9) > t or others[i + 1] * (1.0 + 1e-9) < s:
                continue
            flattest, steepest = k.price_slopes(s, t)
            # The response of the others rises with U, so its ends bound it.
            if slope[i + 1] * max(steepest, 0.0) < 1.0 - 1e-9:
                count += bool(s < others[i] and t >= others[i + 1])
            elif not slope[i] * max(flattest, 0.0) > 1.0 + 1e-9:
                unclear.append(i)
        if not unclear:
            return count
        if len(rest) + 6 * len(unclear) > _MOST_SCANNED:
            break
        inner = np.concatenate([np.linspace(rest[i], rest[i + 1], 8)[1:-1] for i in unclear])
        inner_others, inner_slope = _responses(k, floor, inner)
        order = np.argsort(np.concatenate([rest, inner]))
        rest = np.concatenate([rest, inner])[order]
        others = np.concatenate([others, inner_others])[order]
        slope = np.concatenate([slope, inner_slope])[order]
    return None


def _responses(
    k: _Cheapest, floor: float, rest: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the others take when k leaves each of ``rest`` (ascending), and its derivative in nu."""
    others, slope = np.empty(len(rest)), np.empty(len(rest))
    devices, nu = k.respond(floor), 0.0
    for i, each in enumerate(rest.tolist()):
        before, nu = nu, k.price_of(each)[0]
        if i:  # start from the response to the point before
            devices.move(nu - before)
        for _ in range(_SWEEPS):
            others[i], slope[i], moved = devices.sweep(nu)
            if moved <= 1e-7:
                break
            devices.move(0.0)
    return others, slope
