r"""The draw-probability problem by complete search: every stationary point found or excluded.

One round at a time, one weight per device allowed. With
:math:`F_n(\omega) = m (1-\omega)^{m-1} (b_n - a_n / q_n^2)`, the derivative of device n's term,
stationarity reads :math:`F_n = \nu` for all n above their floor. F rises up to an inflection and
falls beyond it.

Why the search is one-dimensional. Two devices on their falling branches break the second-order
condition on the simplex, so at most one, k, sits there. Eliminating b by stationarity, the
curvature of any device's term is :math:`c(\omega; \nu) = 2 a m^2 (1-\omega)^{2m-2} / q^3 -
(m-1) \nu / (1-\omega)`: it falls with omega and does not involve the price. Among devices of one
weight the cheapest has, by rearrangement, the largest omega, hence the smallest c; so if any of
them is on its falling branch, the cheapest is. One candidate k for each distinct weight.

For a candidate, let :math:`U = 1 - \omega_k` be what it leaves. The others respond to
:math:`\nu = F_k`, which rises with U, and so does their sum R(U); stationary points are the fixed
points R(U) = U. Any of them in [s, t] lies in [R(s), R(t)] too: intervals shrink, split or vanish
until each holds one fixed point or none.

Candidates that cannot win are passed over by weak duality: for any nu >= 0,
:math:`\nu + \sum_n \min (\phi_n(\omega) - \nu \omega)` is at most the objective of any point where
k is on its falling branch, if the minimum runs over the rising branch for n != k and over the ends
of the falling branch, where the term is concave, for k.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fedsched.records import PerDevice

__all__ = ["SearchResult", "search"]

_MOST_RESPONSES = 4_000
_BOUNDS = 24
# Points whose objectives differ by less, relatively, are not told apart: a tenth of the promise.
_INDIFFERENT = 1e-10
# Where the response is steeper by less, relatively, a minimum and a saddle are within that limit.
_SADDLE = 1e-4
_BISECTIONS = 200


@dataclass(frozen=True)
class SearchResult:
    """The best stationary point, and whether every other one was found or excluded."""

    draw_probability: PerDevice
    multiplier: float
    minima: int
    certified: bool


@dataclass(frozen=True)
class _Problem:
    """One round, in the variable t = -ln(1 - q), which loses no digits near q = 0 or q = 1."""

    a: PerDevice
    b: PerDevice
    m: int
    t_least: float  # of the floor
    t_base: PerDevice  # minimiser of each term alone, not below the floor
    t_turn: PerDevice  # inflection, not below the floor

    @property
    def negligible(self) -> float:
        """A multiplier so close to 0 that no device's term can change by it in any digit."""
        return 1e-25 * float((self.a + self.b).min())

    def omega(self, t: PerDevice) -> PerDevice:
        return np.asarray(-np.expm1(-t / self.m))

    def slope(self, t: PerDevice) -> PerDevice:
        """F, the derivative of each term in omega."""
        return np.asarray(self.m * np.exp(-t * (1 - 1 / self.m)) * self.margin(t))

    def margin(self, t: PerDevice) -> PerDevice:
        """Of b over a / q^2, as b - a less a (1 - q^2) / q^2: near q = 1 the digits are there."""
        q = -np.expm1(-t)
        return np.asarray((self.b - self.a) - self.a * np.exp(-t) * (1.0 + q) / q**2)

    def terms(self, t: PerDevice) -> PerDevice:
        q = -np.expm1(-t)
        return np.asarray(self.a / q + self.b * q)

    def total(self, t: PerDevice) -> float:
        return float(self.omega(t).sum())

    def response(self, t: PerDevice, nu: float) -> PerDevice:
        """The derivative of omega in nu on the rising branch; 0 at the floor."""
        q = -np.expm1(-t)
        curvature = 2.0 * self.a * (self.m * np.exp(-t * (1 - 1 / self.m))) ** 2 / q**3
        curvature -= (self.m - 1) * nu * np.exp(t / self.m)
        # What responds from its floor comes to rest a few roundings above it.
        free = t > self.t_least * (1.0 + 1e-13)
        return np.where(free, 1.0 / np.maximum(curvature, 0.0), 0.0)

    def excess(self, nu: float, low: PerDevice, high: PerDevice) -> tuple[float, float]:
        """By how much the sum exceeds 1 when all respond to nu, and its derivative."""
        t = self.respond(nu, low, high)
        return self.total(t) - 1.0, float(self.response(t, nu).sum())

    def respond(self, nu: float, low: PerDevice, high: PerDevice) -> PerDevice:
        """Where F = nu on the rising branch between ``low`` and ``high``, ends included."""
        t = _between(low, high)
        for _ in range(_BISECTIONS):
            q = -np.expm1(-t)
            outer = self.m * np.exp(-t * (1 - 1 / self.m))
            inner = self.margin(t)
            miss = outer * inner - nu
            low, high = np.where(miss < 0.0, t, low), np.where(miss < 0.0, high, t)
            # Newton in t once the bracket is narrow, into its middle before and where Newton
            # would leave it.
            derivative = outer * (2.0 * self.a * (1.0 - q) / q**3 - (1 - 1 / self.m) * inner)
            guess = t - miss / derivative
            narrow = high <= 4.0 * low
            settled = narrow & (np.abs(guess - t) <= 1e-14 * t)
            trusted = settled | (narrow & (guess > low) & (guess < high))
            guess = np.where(trusted, guess, _between(low, high))
            if np.all(settled | (high - low <= 4e-16 * high)):
                break
            t = guess
        return t


def _between(low: PerDevice, high: PerDevice) -> PerDevice:
    """The geometric mean where the bracket spans magnitudes, the plain one where it does not."""
    return np.where(high > 4.0 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))


def search(price: PerDevice, weight: PerDevice, draws: int, floor: float) -> SearchResult:
    """Solve one problem; ``price`` and ``weight`` of shape (devices,), both at least 2 long."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        problem = _make(price, weight, draws, floor)
        if problem.omega(problem.t_base).sum() >= 1.0:
            return _search_convex(problem)
        return _search_reverse_convex(problem)


def _make(b: PerDevice, a: PerDevice, m: int, floor: float) -> _Problem:
    t_least = -math.log1p(-floor)
    root = np.sqrt(a / np.maximum(b, a))
    # 1 - sqrt(a/b) without cancellation; b <= a wants q = 1, t = infinity.
    rest = np.maximum(b - a, 0.0) / np.maximum(b, a) / (1.0 + root)
    t_base = np.maximum(np.where(root < 0.5, -np.log1p(-root), -np.log(rest)), t_least)
    t_turn = np.maximum(_inflection(a, b, m), t_base)
    return _Problem(a, b, m, t_least, t_base, t_turn)


def _inflection(a: PerDevice, b: PerDevice, m: int) -> PerDevice:
    """Root of the increasing cubic r b q^3 + (2-r) a q - 2a as t, by bisection."""
    r = (m - 1) / m
    low, high = np.full_like(b, 1e-120), np.full_like(b, 750.0)
    for _ in range(80):
        middle = _between(low, high)
        q, rest = -np.expm1(-middle), np.exp(-middle)
        # Close to q = 1 the cubic is written in 1 - q, whose digits count there.
        cubic = r * b * q**3 + (2.0 - r) * a * q < 2.0 * a
        in_rest = r * (b - a) < (r * b * (1.0 + q + q * q) + (2.0 - r) * a) * rest
        below = np.where(q < 0.5, cubic, in_rest)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(b > a, high, np.inf)


def _root(
    evaluate: Callable[[float], tuple[float, float]], low: float, high: float
) -> tuple[float, float]:
    """The last bracket of the root of an increasing function that also gives its derivative."""
    x = 0.5 * (low + high)
    for step in range(_BISECTIONS):
        value, slope = evaluate(x)
        if value < 0.0:
            low = x
        else:
            high = x
        if high - low <= 4e-16 * max(abs(low), abs(high)) or value == 0.0:
            break
        # Steps that creep up from one side never close the bracket: halve it now and then.
        guess = x - value / slope if slope > 0.0 and step % 8 < 7 else math.nan
        if low < guess < high:
            # A last small step past the root closes the bracket from the other side.
            close = 1e-15 * abs(guess)
            past = guess + math.copysign(close, -value)
            x = past if low < past < high else guess
        elif low * high > 0.0 and max(low / high, high / low) > 4.0:
            x = math.copysign(math.sqrt(abs(low)) * math.sqrt(abs(high)), low)
        else:
            x = 0.5 * (low + high)
    return low, high


def _search_convex(p: _Problem) -> SearchResult:
    """Too much is wanted: nu <= 0, the sum rises with nu, one stationary point."""
    devices = len(p.b)
    least = np.full(devices, max(p.t_least, 1e-300))
    # Beyond 40 m omega is 1 to the last digit; that stands in for an infinite base.
    most = np.minimum(p.t_base, 40.0 * p.m)
    # Paying what the dearest of uniform devices would accept, all take 1 / devices or less.
    even = np.clip(np.full(devices, -p.m * math.log1p(-1.0 / devices)), least, most)
    nu_low = min(2.0 * float(p.slope(even).min()), 0.0)
    while p.total(p.respond(nu_low, least, most)) > 1.0 and nu_low > -1e300:
        nu_low = 16.0 * min(nu_low, -1e-300)
    low, high = -p.negligible, 0.0
    if p.excess(low, least, most)[0] >= 0.0:
        low, high = _root(lambda nu: p.excess(nu, least, most), min(nu_low, low), low)
    # Where F vanishes the response jumps from one end of the bracket to the other; the
    # mixture of the two that sums to 1 is as good as any, for there the terms are flat.
    below = p.omega(p.respond(low, least, most))
    above = p.omega(p.respond(high, least, most) if high < 0.0 else most)
    span = above.sum() - below.sum()
    share = np.clip((1.0 - below.sum()) / span, 0.0, 1.0) if span > 0.0 else 1.0
    return SearchResult(below + share * (above - below), high, 1, True)


@dataclass(frozen=True)
class _Point:
    """A candidate k that leaves ``rest``, and how the others respond."""

    rest: float
    nu: float
    t: PerDevice  # of the others; k's entry is not used
    others: float  # R, the sum of their omegas
    slope: float  # dR / d nu


@dataclass(frozen=True, order=True)
class _Minimum:
    objective: float
    nu: float = field(compare=False)
    omega: PerDevice = field(compare=False)


def _search_reverse_convex(p: _Problem) -> SearchResult:
    """Too little is wanted: nu > 0 and at most one device on its falling branch."""
    peak = p.slope(p.t_turn)
    nu_most = float(peak.min())
    found: list[_Minimum] = []
    if p.total(p.respond(nu_most, p.t_base, p.t_turn)) >= 1.0:
        # One sign at both ends lets the root be approached by magnitudes.
        nu_least = min(p.negligible, 0.5 * nu_most)
        if p.excess(nu_least, p.t_base, p.t_turn)[0] >= 0.0:
            nu_least = 0.0
        _, nu = _root(lambda nu: p.excess(nu, p.t_base, p.t_turn), nu_least, nu_most)
        t = p.respond(nu, p.t_base, p.t_turn)
        found.append(_Minimum(float(p.terms(t).sum()), nu, p.omega(t)))
    candidates = _candidates(p)
    bound = np.full(len(p.b), -math.inf)
    for nu in nu_most * np.linspace(0.0, 1.0, _BOUNDS) ** 3:
        np.maximum(bound, _lower_bounds(p, nu), out=bound)
    certified, budget = True, _MOST_RESPONSES
    for k in sorted(candidates, key=lambda k: float(bound[k])):
        if found and bound[k] > min(found).objective * (1.0 + 1e-12):
            continue
        best = min(found).objective if found else math.inf
        minima, budget, complete = _fixed_points(p, k, nu_most, best, budget)
        certified &= complete
        found.extend(minima)
        if minima:
            np.maximum(bound, _lower_bounds(p, min(found).nu), out=bound)
    if not found:
        # Only rounding can lose the last minimum; the certificate will tell.
        t = p.respond(nu_most, p.t_base, p.t_turn)
        return SearchResult(p.omega(t), nu_most, 0, False)
    winner = min(found)
    # Where minima are about to merge one and the same may be met in several intervals.
    nus = np.sort([each.nu for each in found])
    distinct = 1 + int(np.sum(np.diff(nus) > 1e-6 * nus[1:]))
    return SearchResult(winner.omega, winner.nu, distinct, certified)


def _candidates(p: _Problem) -> list[int]:
    """The cheapest device of each distinct weight."""
    order = np.lexsort((p.b, p.a))
    first = np.ones(len(order), dtype=bool)
    first[1:] = p.a[order][1:] != p.a[order][:-1]
    return [int(k) for k in order[first]]


def _lower_bounds(p: _Problem, nu: float) -> PerDevice:
    """For each k, what the objective cannot be below if k sits on its falling branch."""
    t = p.respond(nu, p.t_base, p.t_turn)
    rising = p.terms(t) - nu * p.omega(t)
    at_turn = p.terms(p.t_turn) - nu * p.omega(p.t_turn)
    falling = np.minimum(at_turn, p.a + p.b - nu)
    return np.asarray(nu + rising.sum() - rising + falling)


def _fixed_points(
    p: _Problem, k: int, nu_most: float, best: float, budget: int
) -> tuple[list[_Minimum], int, bool]:
    """All minima below ``best`` with k on its falling branch.

    Returns:
        The minima, how many responses are left to spend, and whether the search was complete.
    """
    m, a_k, b_k = p.m, float(p.a[k]), float(p.b[k])
    others = np.arange(len(p.b)) != k

    def q_leaving(rest: float) -> float:
        # A rest that rounds to 1 still leaves k something.
        return max(-math.expm1(m * math.log(rest)), 1e-17) if rest > 0.0 else 1.0

    def margin_leaving(rest: float) -> float:
        # As margin: near q = 1 the digits of b - a / q^2 are in b - a and in the rest.
        q = q_leaving(rest)
        return (b_k - a_k) - a_k * rest**m * (1.0 + q) / q**2

    def price_of(rest: float) -> tuple[float, float]:
        """F_k and its derivative in rest."""
        q = q_leaving(rest)
        above = margin_leaving(rest)
        slope = m * (m - 1) * rest ** (m - 2) * above - 2 * a_k * (m * rest ** (m - 1)) ** 2 / q**3
        return m * rest ** (m - 1) * above, slope

    def respond_to(rest: float) -> _Point:
        nu = min(price_of(rest)[0], nu_most)
        t = p.respond(nu, p.t_base, p.t_turn)
        slope = float(p.response(t, nu)[others].sum())
        return _Point(rest, nu, t, float(p.omega(t)[others].sum()), slope)

    def steepest(low: float, high: float) -> float:
        """An upper bound of d nu / d rest between two values of rest."""
        q = q_leaving(low)
        convex_part = 2.0 * a_k * (m * low ** (m - 1)) ** 2 / q**3
        return m * (m - 1) * high ** (m - 2) * margin_leaving(low) - convex_part

    def minimum(point: _Point) -> _Minimum:
        omega = p.omega(point.t)
        omega[k] = 1.0 - omega[others].sum()
        # q from what k leaves, not from omega: near 1 its digits are in the rest.
        q = -np.expm1(m * np.log1p(-omega))
        return _Minimum(float((p.a / q + p.b * q).sum()), point.nu, omega)

    def gap(rest: float) -> tuple[float, float]:
        """U - R(U), and its derivative."""
        point = respond_to(rest)
        return rest - point.others, 1.0 - point.slope * price_of(rest)[1]

    def bound_between(low: _Point, high: _Point) -> float:
        """What the objective cannot be below between two points, by weak duality at low.nu.

        The terms of the others are convex and least where they respond to nu; k's is concave and
        least at an end. Unlike the sum of least terms it is short by the square of the width only.
        """
        ends = []
        for rest in (low.rest, high.rest):
            q = q_leaving(rest)
            ends.append(a_k / q + b_k * q + low.nu * (rest - low.others))
        return float(p.terms(low.t)[others].sum()) + min(ends)

    def tilt(point: _Point) -> float:
        """G', with G(U) the objective when the others take U as best they can: nu less F_k."""
        return point.nu - price_of(point.others)[0]

    def bound_by_curvature(low: _Point, high: _Point, objective: float) -> float:
        """The same by Taylor's formula for G from the ``objective`` where low's others are.

        G'' is 1 / slope less the rise of F_k; the slope rises with nu, so both have bounds. Where
        minima merge G'' is about 0 and this is short by the cube of the width; nor does it take
        part in the rounding of R(U), which is large where many devices are at their inflections.
        """
        begin, end = low.others, min(high.rest, high.others)
        if begin >= end:
            return -math.inf
        bend = (1.0 / high.slope if high.slope > 0.0 else math.inf) - steepest(begin, end)
        change = tilt(low) * (end - begin) + 0.5 * min(bend, 0.0) * (end - begin) ** 2
        return objective + min(change, 0.0)

    # The largest rest: k at its inflection, or where F_k reaches the least peak of the others.
    most = math.exp(-float(p.t_turn[k]) / m)
    if nu_most < price_of(most)[0]:
        most = _root(lambda rest: (price_of(rest)[0] - nu_most, price_of(rest)[1]), 0.0, most)[1]
    intervals = [(respond_to(0.0), respond_to(most))]
    found: list[_Minimum] = []
    while intervals:
        low, high = intervals.pop()
        # R(low) > high or R(high) < low: no fixed point in between.
        if low.others > high.rest * (1.0 + 1e-14) or high.others < low.rest * (1.0 - 1e-14):
            continue
        if budget <= 0:
            return [*found, minimum(low), minimum(high)], 0, False
        budget -= 2
        # Beyond what they want alone every term rises: the others' with U, k's with 1 - U.
        q_k = q_leaving(high.rest)
        if p.terms(low.t)[others].sum() + a_k / q_k + b_k * q_k > best * (1.0 + 1e-12):
            continue
        # Where minima merge, U - R(U) is flat and cannot be told from 0, but so is the objective.
        here, width = minimum(low), high.rest - low.rest
        narrow = width <= 1e-13 * high.rest
        gain = abs(tilt(low)) * (1.0 - low.others)  # of moving k's draws elsewhere, to first order
        settled = narrow or gain <= _INDIFFERENT * here.objective
        known = min(
            [best, *(each.objective for each in found), here.objective if settled else best]
        )
        bound = max(bound_between(low, high), bound_by_curvature(low, high, here.objective))
        if narrow or bound >= known * (1.0 - _INDIFFERENT):
            # A saddle is not a minimum, but the closer two points are the less that can be told.
            a_minimum = low.slope * price_of(low.rest)[1] < 1.0 + _SADDLE
            if settled and a_minimum and here.objective <= known:
                found.append(here)
            continue
        crosses = low.rest <= low.others and high.rest >= high.others
        only_one = high.slope * steepest(low.rest, high.rest) < 1.0  # U - R(U) rises all the way
        if crosses and (only_one or not found):
            # Where more may follow, the first one found is what the others are measured by: without
            # it a stretch where U - R(U) cannot be told from 0 would be cut into ever finer pieces.
            found.append(minimum(respond_to(_root(gap, low.rest, high.rest)[1])))
        if not only_one:
            inner_low = max(low.rest, low.others * (1.0 - 1e-15))
            inner_high = min(high.rest, high.others * (1.0 + 1e-15))
            if inner_low < inner_high and inner_high - inner_low < 0.7 * width:
                intervals.append((respond_to(inner_low), respond_to(inner_high)))
            else:
                middle = respond_to(0.5 * (low.rest + high.rest))
                intervals += [(low, middle), (middle, high)]
    return found, budget, True
