r"""One device on its falling branch, the leader: all minima of the round that it can lead.

Let :math:`U = 1 - \omega_k` be what leader k leaves. The others respond to :math:`\nu = F_k`,
which rises with U, and so does their sum R(U); stationary points are the fixed points R(U) = U.
Any of them in [s, t] lies in [R(s), R(t)] too: intervals shrink, split or vanish until each holds
one fixed point or none.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsched.solve.branches import Branches, bracket_root
from fedsched.values import PerDevice

__all__ = ["Leader", "Minimum"]

# Points whose objectives differ by less, relatively, are not told apart: a tenth of the promise.
_INDIFFERENT = 1e-10
# Where the response is steeper by less, relatively, a minimum and a saddle are within that limit.
_SADDLE = 1e-4


@dataclass(frozen=True, order=True)
class Minimum:
    """A minimum of the round; the cheaper one is the smaller one."""

    objective: float
    nu: float = field(compare=False)
    omega: PerDevice = field(compare=False)


@dataclass(frozen=True)
class _Point:
    """What the leader leaves, and how the others respond."""

    rest: float
    nu: float
    t: PerDevice  # of the others; the leader's entry is not used
    others: float  # R, the sum of their omegas
    slope: float  # dR / d nu


@dataclass(frozen=True, kw_only=True)
class Leader:
    """Device k of a round as its leader; everything as a function of what it leaves, ``rest``."""

    branches: Branches
    k: int
    nu_most: float  # the least peak of F: beyond it somebody has no rising branch

    @property
    def _a(self) -> float:
        return float(self.branches.a[self.k])

    @property
    def _b(self) -> float:
        return float(self.branches.b[self.k])

    @cached_property
    def _is_other(self) -> NDArray[np.bool_]:
        return np.asarray(np.arange(len(self.branches.b)) != self.k)

    def minima(self, best: float, budget: int) -> tuple[list[Minimum], int, bool]:
        """All minima below ``best`` that it leads.

        Returns:
            The minima, how many responses are left to spend, and whether the search was complete.
        """
        intervals = [(self._respond_to(0.0), self._respond_to(self._most()))]
        found: list[Minimum] = []
        while intervals:
            low, high = intervals.pop()
            # R(low) > high or R(high) < low: no fixed point in between.
            if low.others > high.rest * (1.0 + 1e-14) or high.others < low.rest * (1.0 - 1e-14):
                continue
            if budget <= 0:
                return [*found, self._minimum(low), self._minimum(high)], 0, False
            budget -= 2
            if self._least_between(low, high) > best * (1.0 + 1e-12):
                continue
            # Where minima merge, U - R(U) is flat and not told from 0, but so is the objective.
            here, width = self._minimum(low), high.rest - low.rest
            narrow = width <= 1e-13 * high.rest
            # Of moving the leader's draws elsewhere, to first order.
            gain = abs(self._tilt(low)) * (1.0 - low.others)
            settled = narrow or gain <= _INDIFFERENT * here.objective
            known = min(
                [best, *(each.objective for each in found), here.objective if settled else best]
            )
            bound = max(
                self._bound_by_duality(low, high),
                self._bound_by_curvature(low, high, here.objective),
            )
            if narrow or bound >= known * (1.0 - _INDIFFERENT):
                # A saddle is no minimum, but the closer two points are the less can be told.
                a_minimum = low.slope * self._price(low.rest)[1] < 1.0 + _SADDLE
                if settled and a_minimum and here.objective <= known:
                    found.append(here)
                continue
            crosses = low.rest <= low.others and high.rest >= high.others
            # U - R(U) rises all the way.
            only_one = high.slope * self._steepest(low.rest, high.rest) < 1.0
            if crosses and (only_one or not found):
                # Where more may follow, the first one found is what the others are measured by:
                # without it a stretch where U - R(U) cannot be told from 0 would be cut into ever
                # finer pieces.
                at = bracket_root(self._gap, low.rest, high.rest)[1]
                found.append(self._minimum(self._respond_to(at)))
            if not only_one:
                intervals += self._parts(low, high)
        return found, budget, True

    def _most(self) -> float:
        """The largest rest: k at its inflection, or where F_k reaches the others' least peak."""
        most = math.exp(-float(self.branches.t_turn[self.k]) / self.branches.m)
        if self.nu_most >= self._price(most)[0]:
            return most

        def above(rest: float) -> tuple[float, float]:
            price, slope = self._price(rest)
            return price - self.nu_most, slope

        return bracket_root(above, 0.0, most)[1]

    def _parts(self, low: _Point, high: _Point) -> list[tuple[_Point, _Point]]:
        """Smaller intervals with the same fixed points: the image under R, or two halves."""
        inner_low = max(low.rest, low.others * (1.0 - 1e-15))
        inner_high = min(high.rest, high.others * (1.0 + 1e-15))
        if inner_low < inner_high and inner_high - inner_low < 0.7 * (high.rest - low.rest):
            return [(self._respond_to(inner_low), self._respond_to(inner_high))]
        middle = self._respond_to(0.5 * (low.rest + high.rest))
        return [(low, middle), (middle, high)]

    # --- at one rest -----------------------------------------------------------------------------

    def _q(self, rest: float) -> float:
        # A rest that rounds to 1 still leaves k something.
        return max(-math.expm1(self.branches.m * math.log(rest)), 1e-17) if rest > 0.0 else 1.0

    def _margin(self, rest: float) -> float:
        # As of the branches: near q = 1 the digits of b - a / q^2 are in b - a and in the rest.
        q = self._q(rest)
        return (self._b - self._a) - self._a * rest**self.branches.m * (1.0 + q) / q**2

    def _convex_part(self, rest: float) -> float:
        m = self.branches.m
        return 2.0 * self._a * (m * rest ** (m - 1)) ** 2 / self._q(rest) ** 3

    def _term(self, rest: float) -> float:
        q = self._q(rest)
        return self._a / q + self._b * q

    def _price(self, rest: float) -> tuple[float, float]:
        """F_k and its derivative in rest."""
        m, above = self.branches.m, self._margin(rest)
        slope = m * (m - 1) * rest ** (m - 2) * above - self._convex_part(rest)
        return m * rest ** (m - 1) * above, slope

    def _respond_to(self, rest: float) -> _Point:
        p = self.branches
        nu = min(self._price(rest)[0], self.nu_most)
        t = p.respond(nu, p.t_base, p.t_turn)
        slope = float(p.response(t, nu)[self._is_other].sum())
        return _Point(rest, nu, t, float(p.omega(t)[self._is_other].sum()), slope)

    def _gap(self, rest: float) -> tuple[float, float]:
        """U - R(U), and its derivative."""
        point = self._respond_to(rest)
        return rest - point.others, 1.0 - point.slope * self._price(rest)[1]

    def _tilt(self, point: _Point) -> float:
        """G', with G(U) the objective when the others take U as best they can: nu less F_k."""
        return point.nu - self._price(point.others)[0]

    def _minimum(self, point: _Point) -> Minimum:
        p = self.branches
        omega = p.omega(point.t)
        omega[self.k] = 1.0 - omega[self._is_other].sum()
        # q from what k leaves, not from omega: near 1 its digits are in the rest.
        q = -np.expm1(p.m * np.log1p(-omega))
        return Minimum(float((p.a / q + p.b * q).sum()), point.nu, omega)

    # --- between two -----------------------------------------------------------------------------

    def _others_terms(self, point: _Point) -> float:
        return float(self.branches.terms(point.t)[self._is_other].sum())

    def _least_between(self, low: _Point, high: _Point) -> float:
        """What the objective cannot be below: every term at its least.

        Beyond what they want alone every term rises: the others' with U, k's with 1 - U.
        """
        return self._others_terms(low) + self._term(high.rest)

    def _bound_by_duality(self, low: _Point, high: _Point) -> float:
        """What the objective cannot be below between two points, by weak duality at low.nu.

        The terms of the others are convex and least where they respond to nu; k's is concave and
        least at an end. Unlike the sum of least terms it is short by the square of the width only.
        """
        ends = [self._term(rest) + low.nu * (rest - low.others) for rest in (low.rest, high.rest)]
        return self._others_terms(low) + min(ends)

    def _bound_by_curvature(self, low: _Point, high: _Point, objective: float) -> float:
        """The same by Taylor's formula for G from the ``objective`` where low's others are.

        G'' is 1 / slope less the rise of F_k; the slope rises with nu, so both have bounds. Where
        minima merge G'' is about 0 and this is short by the cube of the width; nor does it take
        part in the rounding of R(U), which is large where many devices are at their inflections.
        """
        begin, end = low.others, min(high.rest, high.others)
        if begin >= end:
            return -math.inf
        bend = (1.0 / high.slope if high.slope > 0.0 else math.inf) - self._steepest(begin, end)
        change = self._tilt(low) * (end - begin) + 0.5 * min(bend, 0.0) * (end - begin) ** 2
        return objective + min(change, 0.0)

    def _steepest(self, low: float, high: float) -> float:
        """An upper bound of d nu / d rest between two values of rest."""
        m = self.branches.m
        return m * (m - 1) * high ** (m - 2) * self._margin(low) - self._convex_part(low)
