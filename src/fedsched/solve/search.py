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

Candidates that cannot win are passed over by weak duality: for any nu >= 0,
:math:`\nu + \sum_n \min (\phi_n(\omega) - \nu \omega)` is at most the objective of any point where
k is on its falling branch, if the minimum runs over the rising branch for n != k and over the ends
of the falling branch, where the term is concave, for k.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsched.solve.branches import Branches, bracket_root
from fedsched.solve.leader import Leader, Minimum
from fedsched.values import PerDevice

__all__ = ["SearchResult", "search"]

_MOST_RESPONSES = 4_000
_BOUNDS = 24


@dataclass(frozen=True)
class SearchResult:
    """The best stationary point, and whether every other one was found or excluded."""

    draw_probability: PerDevice
    multiplier: float
    minima: int
    certified: bool


def search(price: PerDevice, weight: PerDevice, draws: int, floor: float) -> SearchResult:
    """Solve one problem; ``price`` and ``weight`` of shape (devices,), both at least 2 long."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        problem = Branches.of(price, weight, draws, floor)
        if problem.omega(problem.t_base).sum() >= 1.0:
            return _search_convex(problem)
        return _search_reverse_convex(problem)


def _search_convex(p: Branches) -> SearchResult:
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
        low, high = bracket_root(lambda nu: p.excess(nu, least, most), min(nu_low, low), low)
    # Where F vanishes the response jumps from one end of the bracket to the other; the
    # mixture of the two that sums to 1 is as good as any, for there the terms are flat.
    below = p.omega(p.respond(low, least, most))
    above = p.omega(p.respond(high, least, most) if high < 0.0 else most)
    span = above.sum() - below.sum()
    share = np.clip((1.0 - below.sum()) / span, 0.0, 1.0) if span > 0.0 else 1.0
    return SearchResult(below + share * (above - below), high, 1, True)


def _search_reverse_convex(p: Branches) -> SearchResult:
    """Too little is wanted: nu > 0 and at most one device on its falling branch."""
    peak = p.slope(p.t_turn)
    nu_most = float(peak.min())
    found: list[Minimum] = []
    if p.total(p.respond(nu_most, p.t_base, p.t_turn)) >= 1.0:
        # One sign at both ends lets the root be approached by magnitudes.
        nu_least = min(p.negligible, 0.5 * nu_most)
        if p.excess(nu_least, p.t_base, p.t_turn)[0] >= 0.0:
            nu_least = 0.0
        _, nu = bracket_root(lambda nu: p.excess(nu, p.t_base, p.t_turn), nu_least, nu_most)
        t = p.respond(nu, p.t_base, p.t_turn)
        found.append(Minimum(float(p.terms(t).sum()), nu, p.omega(t)))
    candidates = _candidates(p)
    bound = np.full(len(p.b), -math.inf)
    for nu in nu_most * np.linspace(0.0, 1.0, _BOUNDS) ** 3:
        np.maximum(bound, _lower_bounds(p, nu), out=bound)
    certified, budget = True, _MOST_RESPONSES
    for k in sorted(candidates, key=lambda k: float(bound[k])):
        if found and bound[k] > min(found).objective * (1.0 + 1e-12):
            continue
        best = min(found).objective if found else math.inf
        leader = Leader(branches=p, k=k, nu_most=nu_most)
        minima, budget, complete = leader.minima(best, budget)
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


def _candidates(p: Branches) -> list[int]:
    """The cheapest device of each distinct weight."""
    order = np.lexsort((p.b, p.a))
    first = np.ones(len(order), dtype=bool)
    first[1:] = p.a[order][1:] != p.a[order][:-1]
    return [int(k) for k in order[first]]


def _lower_bounds(p: Branches, nu: float) -> PerDevice:
    """For each k, what the objective cannot be below if k sits on its falling branch."""
    t = p.respond(nu, p.t_base, p.t_turn)
    rising = p.terms(t) - nu * p.omega(t)
    at_turn = p.terms(p.t_turn) - nu * p.omega(p.t_turn)
    falling = np.minimum(at_turn, p.a + p.b - nu)
    return np.asarray(nu + rising.sum() - rising + falling)
