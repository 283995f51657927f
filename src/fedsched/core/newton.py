r"""The draw-probability problem by Newton's method, for many rounds or many devices at once.

The problem, for ``draws`` :math:`m \ge 2`, is

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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsched.core.blocks import blocks
from fedsched.records import PerDevice

__all__ = ["NewtonResult", "solve_rows"]

_SWEEPS = 16
# Enough devices to place the start of the iteration.
_SAMPLE = 4_000
_SHRINKS = 8
_SCAN = 16
# The sum of omegas, before it is made exact; steps are quadratic, so 1e-6 was the last one.
_TOLERANCE = 1e-11
# Bounds are pushed outwards by this much, far more than rounding can move them.
_SLACK = 1e-12
# Closest to 1 that q may come: y = 1 / q^2 cannot tell it apart from 1 beyond that.
_Y_LEAST = 1.0 + 2e-12
_NONE = np.zeros((1, 1))

Row = NDArray[np.float64]  # shape (rows, 1)
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class NewtonResult:
    """Draw probabilities, and for which rows they are proven to be the global minimum."""

    draw_probability: PerDevice  # (rows, devices); their sum is 1 up to the tolerance
    multiplier: NDArray[np.float64]  # (rows,)
    certified: Bools  # (rows,)
    minima: NDArray[np.int64]  # (rows,), how many were found and compared


def solve_rows(price: PerDevice, weight: PerDevice, draws: int, floor: float) -> NewtonResult:
    """Solve each row of ``price``, shape (rows, devices); ``draws`` and devices at least 2.

    ``weight`` has shape (1, 1), or broadcasts to that of ``price``; in the latter case rows with
    S < 1 are not certified.
    """
    rows = _Rows(price, weight, draws, floor)
    result = NewtonResult(
        draw_probability=np.empty_like(price),
        multiplier=np.zeros(len(price)),
        certified=np.zeros(len(price), dtype=bool),
        minima=np.ones(len(price), dtype=np.int64),
    )
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        alone, wanted = _alone(rows)
        convex = wanted[:, 0] >= 1.0
        pending = ~convex if rows.one_weight else np.zeros_like(convex)
        _settle(convex, rows, alone, wanted, _convex, result)
        _settle(pending, rows, alone, wanted, _cheapest_falling, result)
        _settle(pending & ~result.certified, rows, alone, wanted, _all_rising, result)
        for row in np.flatnonzero(pending & ~result.certified):
            _compare_both(int(row), rows, alone, wanted, result)
    return result


class _Rows:
    """Prices in units of the weights, and what all sweeps share."""

    def __init__(self, price: PerDevice, weight: PerDevice, m: int, floor: float) -> None:
        self.b = price / weight
        self.weight = weight
        self.m = m
        self.r = (m - 1) / m
        self.floor = floor
        self.y_most = np.inf if floor == 0.0 else 1.0 / floor**2

    @property
    def one_weight(self) -> bool:
        return self.weight.size == 1

    def inverse_weight(self, block: slice) -> PerDevice:
        """1 / a, in the units in which the first weight is 1."""
        if self.one_weight:
            return np.ones((1, 1))
        return np.asarray(self.weight[:, :1] / self.weight[:, block])

    def weight_unit(self, rows: Bools) -> NDArray[np.float64]:
        """The first weight of each row, in which its multiplier is measured."""
        return np.asarray(self.weight[:, 0] if len(self.weight) == 1 else self.weight[rows, 0])

    def take(self, rows: Bools) -> "_Rows":
        weight = self.weight if len(self.weight) == 1 else self.weight[rows]
        return _Rows(self.b[rows] * weight, weight, self.m, self.floor)

    def every(self, stride: int) -> "_Rows":
        b, weight = self.b[:, ::stride], self.weight[:, ::stride]
        return _Rows(b * weight, weight, self.m, self.floor)


_Answer = tuple[PerDevice, Row, Bools]


def _settle(
    which: Bools,
    rows: _Rows,
    alone: PerDevice,
    wanted: Row,
    method: Callable[[_Rows, PerDevice, Row], _Answer],
    result: NewtonResult,
) -> None:
    """Run a method on some rows and write its answer into theirs."""
    if not which.any():
        return
    if which.all():
        # Not to copy a million devices for nothing.
        omega, nu, sure = method(rows, alone, wanted)
        result.draw_probability[...] = omega
    else:
        omega, nu, sure = method(rows.take(which), alone[which], wanted[which])
        result.draw_probability[which] = omega
    result.multiplier[which] = nu[:, 0] * rows.weight_unit(which)
    result.certified[which] = sure[:, 0]


def _alone(rows: _Rows) -> tuple[PerDevice, Row]:
    """What each device would choose without the constraint, and the sum of it."""
    w = np.empty_like(rows.b)
    total = np.zeros((len(w), 1))
    for block in blocks(rows.b.shape[1]):
        q = 1.0 / np.sqrt(np.maximum(rows.b[:, block], 1.0))
        np.maximum(q, rows.floor, out=q)
        w[:, block] = -np.expm1(np.log1p(-q) / rows.m)
        total += w[:, block].sum(axis=1, keepdims=True)
    return w, total


class _State:
    """y of every device, with the Newton step that is due and its derivative in nu."""

    def __init__(self, rows: _Rows, y: PerDevice, y_least: PerDevice, y_most: PerDevice) -> None:
        self.rows, self.y, self.y_least, self.y_most = rows, y, y_least, y_most
        self.step, self.response, self.w = (np.empty_like(y) for _ in range(3))

    def sweep(self, nu: Row, skip: NDArray[np.int64] | None = None) -> tuple[Row, Row, Row]:
        """A Newton step in y at fixed nu, for every device but ``skip``.

        Returns:
            The sum of omega after the step, its derivative in nu, and how far the step moved the
            omegas in all.
        """
        rows, m = self.rows, self.rows.m
        total, slope, moved = (np.zeros((len(nu), 1)) for _ in range(3))
        for block in blocks(self.y.shape[1]):
            y, step = self.y[:, block], self.step[:, block]
            response, w = self.response[:, block], self.w[:, block]
            q = np.sqrt(y)
            np.divide(1.0, q, out=q)
            log_rest = np.log1p(-q)
            kappa = np.exp(log_rest * -rows.r)
            kappa *= 1.0 / m
            fall = q / y
            fall *= 0.5
            fall *= kappa  # -d omega / dy, since d omega / dq = kappa / m
            q -= 1.0
            inverse = fall / q
            if not rows.one_weight:
                kappa *= rows.inverse_weight(block)
                inverse *= rows.inverse_weight(block)
            # Newton on y - b + nu kappa / (m a): its derivative is 1 - nu r (-dw/dy) / (a (1-q)).
            inverse *= rows.r * nu
            inverse += 1.0
            np.divide(1.0, inverse, out=inverse)
            np.multiply(kappa, inverse, out=response)  # minus dy / d nu
            kappa *= nu
            kappa += y
            kappa -= rows.b[:, block]
            np.multiply(kappa, inverse, out=step)  # minus the step in y
            if rows.floor > 0.0:
                # A device at its floor moves only if the step leads off it.
                free = (y < rows.y_most) | (step > 0.0)
                response *= free
                step *= free
            log_rest *= 1.0 / m
            np.expm1(log_rest, out=w)
            np.multiply(fall, step, out=q)
            np.subtract(q, w, out=w)
            fall *= response
            if skip is not None:
                at = _locate(skip, block)
                for array in (w, fall, q):
                    array[at] = 0.0
            total += w.sum(axis=1, keepdims=True)
            slope += fall.sum(axis=1, keepdims=True)
            moved += np.abs(q, out=q).sum(axis=1, keepdims=True)
        return total, slope, moved

    def move(self, nu_change: Row) -> None:
        """Take the step that is due, corrected to first order for the change of nu."""
        for block in blocks(self.y.shape[1]):
            y = self.y[:, block]
            y -= self.step[:, block]
            y -= self.response[:, block] * nu_change
            np.maximum(y, _part(self.y_least, block), out=y)
            np.minimum(y, _part(self.y_most, block), out=y)


def _part(bound: PerDevice, block: slice) -> PerDevice:
    return bound if bound.shape[1] == 1 else bound[:, block]


def _locate(device: NDArray[np.int64], block: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column within a block of one device for each row, where it falls into the block."""
    row = np.flatnonzero((device >= block.start) & (device < block.stop))
    return row, device[row] - block.start


def _convex(rows: _Rows, alone: PerDevice, wanted: Row) -> _Answer:
    """Too much is wanted: one stationary point, at nu <= 0."""
    del alone, wanted
    m, devices = rows.m, rows.b.shape[1]
    # Start where devices of the middle price would be uniform.
    even = -np.expm1(m * np.log1p(-1.0 / devices))
    kappa = (1.0 - even) ** -rows.r
    stride = -(-devices // _SAMPLE)
    sample = rows.every(stride)
    middle = np.median(sample.b, axis=1, keepdims=True)
    nu = np.minimum((middle - 1.0 / even**2) * (m / kappa), 0.0)
    if stride > 8:
        # A sample that is to take its share of the whole knows nu to a few per cent.
        share = sample.b.shape[1] / devices
        _, nu, _ = _solve_for_nu(_convex_state(sample, nu * (kappa / m)), nu, _NONE, share)
    return _solve_for_nu(_convex_state(rows, nu * (kappa / m)), nu, _NONE, 1.0)


def _convex_state(rows: _Rows, charge: Row) -> _State:
    y_least = np.maximum(rows.b, _Y_LEAST)
    y = rows.b - (charge if rows.one_weight else charge * rows.inverse_weight(slice(None)))
    np.clip(y, y_least, max(rows.y_most, _Y_LEAST), out=y)
    return _State(rows, y, y_least, np.full((1, 1), rows.y_most))


def _solve_for_nu(state: _State, nu: Row, nu_most: Row, whole: float) -> _Answer:
    r"""Newton in y and, for nu, on :math:`(\sum \omega)^{-2} = 1` (or of the ``whole``).

    That power of the sum is nearly linear in nu, since :math:`\omega \approx q / m` and
    :math:`q \approx (b - \nu / m)^{-1/2}`.
    """
    done = np.zeros(nu.shape, dtype=bool)
    for _ in range(_SWEEPS):
        total, slope, moved = (sums / whole for sums in state.sweep(nu))
        done = (np.abs(total - 1.0) <= _TOLERANCE) & (moved <= 1e-6)
        if done.all():
            break
        target = nu + 0.5 * total * (1.0 - total) * (1.0 + total) / slope
        change = np.where(done, 0.0, np.minimum(target, nu_most) - nu)
        nu = nu + change
        state.move(change)
    return state.w, nu, done


def _cheapest_falling(rows: _Rows, alone: PerDevice, wanted: Row) -> _Answer:
    """Too little is wanted, and the cheapest device takes what the others leave."""
    k = _Cheapest(rows)
    omega, nu, found = _falling_root(rows, k, alone, wanted)
    if found.any():
        found &= _one_root_at_most(rows, k)
    return omega, nu, found & (rows.floor <= k.q_turn)


def _all_rising(rows: _Rows, alone: PerDevice, wanted: Row) -> _Answer:
    """Too little is wanted, and nobody sits on a falling branch."""
    k = _Cheapest(rows)
    none_falling = _no_root_at_all(rows, k, alone, wanted) & (rows.floor <= k.q_turn)
    if not none_falling.any():
        return alone, wanted, none_falling
    omega, nu, found = _rising_root(rows, k)
    return omega, nu, found & none_falling


def _falling_root(rows: _Rows, k: "_Cheapest", alone: PerDevice, wanted: Row) -> _Answer:
    """The stationary point where k takes most: Newton from the least the others can take."""
    rest = wanted - alone[k.at]
    y_most = np.minimum(rows.b, rows.y_most)
    state = _State(rows, y_most.copy(), k.y_turn, y_most)
    nu, nu_slope = k.price_of(rest)
    found, lost = (np.zeros(nu.shape, dtype=bool) for _ in range(2))
    for _ in range(_SWEEPS):
        total, slope, moved = state.sweep(nu, k.index)
        gap = total - rest
        found = (np.abs(gap) <= _TOLERANCE * rest) & (moved <= 1e-6 * total)
        if (found | lost).all():
            break
        # Newton on others(nu(U)) - U; at a minimum its derivative is negative.
        steepness = np.minimum(slope * nu_slope - 1.0, -0.02)
        rest = np.where(found, rest, np.maximum(rest - gap / steepness, 0.0))
        lost |= rest >= k.rest_turn
        rest = np.minimum(rest, k.rest_turn)
        nu_next, nu_slope = k.price_of(rest)
        state.move(nu_next - nu)
        nu = nu_next
    state.w[k.at] = 1.0 - rest
    return state.w, nu, found & ~lost


def _rising_root(rows: _Rows, k: "_Cheapest") -> _Answer:
    """The stationary point with every device on its rising branch, if there is one."""
    nu_most, _ = k.price_of(k.rest_turn)
    y_most = np.minimum(rows.b, rows.y_most)
    state = _State(rows, y_most.copy(), k.y_turn, y_most)
    return _solve_for_nu(state, np.zeros_like(nu_most), nu_most * (1.0 - 1e-9), 1.0)


def _compare_both(
    row: int, rows: _Rows, alone: PerDevice, wanted: Row, result: NewtonResult
) -> None:
    """One row in which k may fall or rise: find both points, keep the better one."""
    only = np.arange(len(rows.b)) == row
    part, least = rows.take(only), wanted[only] - alone[only, :].max(axis=1, keepdims=True)
    k = _Cheapest(part)
    falls = _count_falling(part, k, float(least[0, 0]))
    if falls is None or falls > 1 or rows.floor > k.q_turn[0, 0]:
        return
    points = [_rising_root(part, k)]
    if falls == 1:
        points.append(_falling_root(part, k, alone[only], wanted[only]))
        if not points[1][2].all():
            return
    objectives = []
    for omega, _, found in points:
        q = -np.expm1(part.m * np.log1p(-omega))
        value = float((1.0 / q + part.b * q).sum())
        objectives.append(value if found.all() else np.inf)
    best = int(np.argmin(objectives))
    if not np.isfinite(objectives[best]):
        return
    result.draw_probability[row] = points[best][0][0]
    result.multiplier[row] = points[best][1][0, 0] * float(rows.weight_unit(only)[0])
    result.certified[row] = True
    result.minima[row] = int(np.isfinite(objectives).sum())


def _count_falling(rows: _Rows, k: "_Cheapest", least: float) -> int | None:
    """How many minima have k on its falling branch; None if a scan of U cannot tell.

    Between two points s < t of the scan, others(s) > t or others(t) < s excludes a stationary
    point. Where one is possible, U - others(U) must be provably rising (a minimum where it
    changes sign) or provably falling (none); where neither can be told the scan is refined.
    """
    rest = np.linspace(least * (1.0 - _SLACK), float(k.rest_turn[0, 0]), _SCAN)
    others, slope = _response(rows, k, rest)
    for _ in range(_SHRINKS):
        s, t = rest[:-1], rest[1:]
        possible = (others[:-1] * (1.0 - 1e-9) <= t) & (others[1:] * (1.0 + 1e-9) >= s)
        flattest, steepest = k.price_slopes(s, t)
        # The response of the others rises with U, so its ends bound it.
        rising = slope[1:] * np.maximum(steepest, 0.0) < 1.0 - 1e-9
        falling = slope[:-1] * np.maximum(flattest, 0.0) > 1.0 + 1e-9
        unclear = np.flatnonzero(possible & ~rising & ~falling)
        if len(unclear) == 0:
            return int(np.sum(rising & (s < others[:-1]) & (t >= others[1:])))
        inner = np.linspace(s[unclear], t[unclear], 8, axis=1)[:, 1:-1].ravel()
        inner_others, inner_slope = _response(rows, k, inner)
        order = np.argsort(np.concatenate([rest, inner]))
        rest = np.concatenate([rest, inner])[order]
        others = np.concatenate([others, inner_others])[order]
        slope = np.concatenate([slope, inner_slope])[order]
    return None


def _response(
    rows: _Rows, k: "_Cheapest", rest: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the others of one row take when k leaves ``rest``, and its derivative in nu."""
    nu, _ = k.price_of(rest[:, None])
    others, slope = np.empty(len(rest)), np.empty(len(rest))
    batch = max(1, (1 << 18) // rows.b.shape[1])
    for first in range(0, len(rest), batch):
        points = slice(first, min(first + batch, len(rest)))
        b = np.repeat(rows.b, points.stop - points.start, axis=0)
        y_most = np.minimum(b, rows.y_most)
        state = _State(
            _Rows(b, np.ones((1, 1)), rows.m, rows.floor), y_most.copy(), k.y_turn, y_most
        )
        for _ in range(_SWEEPS):
            total, derivative, moved = state.sweep(nu[points], np.full(len(b), k.index[0]))
            if (moved <= 1e-7).all():
                break
            state.move(_NONE)
        others[points], slope[points] = total[:, 0], derivative[:, 0]
    return others, slope


class _Cheapest:
    """The cheapest device of each row, k: the only one that may sit on its falling branch."""

    def __init__(self, rows: _Rows) -> None:
        self.m = rows.m
        self.index = np.argmin(rows.b, axis=1)
        self.at = (np.arange(len(rows.b))[:, None], self.index[:, None])
        self.b = rows.b[self.at]
        self.q_turn = _inflection(self.b, rows.r)
        self.y_turn = 1.0 / self.q_turn**2
        self.rest_turn = np.exp(np.log1p(-self.q_turn) / rows.m)

    def price_of(self, rest: Row) -> tuple[Row, Row]:
        """The multiplier F_k at omega_k = 1 - rest, and its derivative in rest."""
        m = self.m
        power = rest ** (m - 2) if m > 2 else np.ones_like(rest)
        q = 1.0 - power * rest * rest
        above = self.b - 1.0 / q**2
        slope = m * (m - 1) * power * above - 2.0 * (m * power * rest) ** 2 / q**3
        return m * power * rest * above, slope

    def price_slopes(
        self, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds, from below and above, of d nu / d rest between two values of rest; one row."""
        m, b = self.m, float(self.b[0, 0])
        q_low, q_high = 1.0 - low**m, 1.0 - high**m
        least = m * (m - 1) * low ** (m - 2) * (b - 1.0 / q_high**2)
        least -= 2.0 * (m * high ** (m - 1)) ** 2 / q_high**3
        most = m * (m - 1) * high ** (m - 2) * (b - 1.0 / q_low**2)
        most -= 2.0 * (m * low ** (m - 1)) ** 2 / q_low**3
        return least, most


def _inflection(b: Row, r: float) -> Row:
    """Where F turns from rising to falling: the root of the cubic r b q^3 + (2-r) q = 2."""
    # q^3 + p q = s with p, s > 0 has one real root, and this form of it does not cancel.
    p, s = (2.0 - r) / (r * b), 2.0 / (r * b)
    q = 2.0 * np.sqrt(p / 3.0) * np.sinh(np.arcsinh(1.5 * s / p * np.sqrt(3.0 / p)) / 3.0)
    return np.minimum(q, 1.0)


def _one_root_at_most(rows: _Rows, k: _Cheapest) -> Bools:
    """Whether no two stationary points exist, and none has k on its rising branch.

    While k sits at or beyond its inflection the others pay at most ``nu``. So each of their q is
    at most the fixed point of q = (b - nu kappa(q) / m)^(-1/2) that is reached from above; their
    sum bounds U, and U bounds nu again. U - others(U) rises all the way to that bound, and hence
    has one root, if the steepest response of the others times the steepest rise of nu is below 1.
    """
    m = rows.m
    single = np.zeros(k.b.shape, dtype=bool)
    q = np.empty_like(rows.b)
    nu, _ = k.price_of(k.rest_turn)
    for shrink in range(_SHRINKS):
        upper, slope = np.zeros_like(nu), np.zeros_like(nu)
        for block in blocks(rows.b.shape[1]):
            if shrink == 0:
                # At its inflection k pays nu kappa / m = b_k - y_k, the others no more than that.
                q_b = 1.0 / np.sqrt(rows.b[:, block] - (k.b - k.y_turn))
            else:
                kappa = np.exp(np.log1p(-q[:, block]) * -rows.r)
                q_b = 1.0 / np.sqrt(rows.b[:, block] - (nu / m) * kappa)
            if rows.floor > 0.0:
                np.maximum(q_b, rows.floor, out=q_b)
            log_rest = np.log1p(-q_b)
            w = -np.expm1(log_rest / m)
            # The curvature of a device's term, its price eliminated by stationarity.
            curvature = 2.0 * (m * np.exp(log_rest * rows.r)) ** 2 / q_b**3
            curvature -= (m - 1) * nu / (1.0 - w)
            response = 1.0 / np.maximum(curvature, 0.0)
            at = _locate(k.index, block)
            w[at] = 0.0
            response[at] = 0.0
            q[:, block] = q_b
            upper += w.sum(axis=1, keepdims=True)
            slope += response.sum(axis=1, keepdims=True)
        upper *= 1.0 + _SLACK
        steepest = m * (m - 1) * np.minimum(upper, 1.0) ** (m - 2) * (k.b - 1.0)
        single |= (upper < k.rest_turn) & (slope * steepest < 1.0 - 1e-9)
        if single.all():
            break
        nu, _ = k.price_of(np.minimum(upper, k.rest_turn))
    return single


def _no_root_at_all(rows: _Rows, k: _Cheapest, alone: PerDevice, wanted: Row) -> Bools:
    """Whether no stationary point has k on its falling branch.

    The mirror image: the others take at least what they want alone, so U and nu are at least so
    much, so the others take at least so much more; if U is pushed past the inflection, k has
    nowhere to fall.
    """
    m = rows.m
    none = np.zeros(k.b.shape, dtype=bool)
    q = np.empty_like(rows.b)
    lower = (wanted - alone[k.at]) * (1.0 - _SLACK)
    for push in range(4 * _SHRINKS):
        none |= lower > k.rest_turn
        if none.all():
            break
        nu, _ = k.price_of(np.minimum(lower, k.rest_turn))
        pushed = np.zeros_like(nu)
        for block in blocks(rows.b.shape[1]):
            b = rows.b[:, block]
            q_b = np.maximum(1.0 / np.sqrt(b), rows.floor) if push == 0 else q[:, block]
            kappa = np.exp(np.log1p(-q_b) * -rows.r)
            q_b = 1.0 / np.sqrt(np.maximum(b - (nu / m) * kappa, k.y_turn))
            if rows.floor > 0.0:
                np.maximum(q_b, rows.floor, out=q_b)
            w = -np.expm1(np.log1p(-q_b) / m)
            w[_locate(k.index, block)] = 0.0
            q[:, block] = q_b
            pushed += w.sum(axis=1, keepdims=True)
        pushed *= 1.0 - _SLACK
        stuck = pushed < lower * 1.001
        lower = np.maximum(lower, pushed)
        if (none | stuck).all() and push > 2:
            break
    return none
