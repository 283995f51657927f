r"""One round's terms and their branches: the device's side of the draw-probability problem.

The term of a device is :math:`a / q + b q`, and its derivative in the draw probability omega is
:math:`F(\omega) = m (1-\omega)^{m-1} (b - a / q^2)`. F rises up to an inflection and falls beyond
it. A device on its rising branch responds to a multiplier nu with the omega at which F = nu.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from fedsched.values import PerDevice

__all__ = ["Branches", "bracket_root"]

_BISECTIONS = 200


@dataclass(frozen=True)
class Branches:
    """All devices of a round, in t = -ln(1 - q), which loses no digits near q = 0 or q = 1."""

    a: PerDevice
    b: PerDevice
    m: int
    t_least: float  # of the floor
    t_base: PerDevice  # minimiser of each term alone, not below the floor
    t_turn: PerDevice  # inflection, not below the floor

    @classmethod
    def of(cls, b: PerDevice, a: PerDevice, m: int, floor: float) -> Self:
        """The branches of prices b and weights a when m devices are drawn."""
        t_least = -math.log1p(-floor)
        root = np.sqrt(a / np.maximum(b, a))
        # 1 - sqrt(a/b) without cancellation; b <= a wants q = 1, t = infinity.
        rest = np.maximum(b - a, 0.0) / np.maximum(b, a) / (1.0 + root)
        t_base = np.maximum(np.where(root < 0.5, -np.log1p(-root), -np.log(rest)), t_least)
        t_turn = np.maximum(_inflection(a, b, m), t_base)
        return cls(a, b, m, t_least, t_base, t_turn)

    @property
    def negligible(self) -> float:
        """A multiplier so close to 0 that no device's term can change by it in any digit."""
        return 1e-25 * float((self.a + self.b).min())

    def omega(self, t: PerDevice) -> PerDevice:
        """Draw probabilities."""
        return np.asarray(-np.expm1(-t / self.m))

    def slope(self, t: PerDevice) -> PerDevice:
        """F, the derivative of each term in omega."""
        return np.asarray(self.m * np.exp(-t * (1 - 1 / self.m)) * self.margin(t))

    def margin(self, t: PerDevice) -> PerDevice:
        """Of b over a / q^2, as b - a less a (1 - q^2) / q^2: near q = 1 the digits are there."""
        q = -np.expm1(-t)
        return np.asarray((self.b - self.a) - self.a * np.exp(-t) * (1.0 + q) / q**2)

    def terms(self, t: PerDevice) -> PerDevice:
        """What each device adds to the objective."""
        q = -np.expm1(-t)
        return np.asarray(self.a / q + self.b * q)

    def total(self, t: PerDevice) -> float:
        """The sum of the draw probabilities."""
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


def bracket_root(
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


def _between(low: PerDevice, high: PerDevice) -> PerDevice:
    """The geometric mean where the bracket spans magnitudes, the plain one where it does not."""
    return np.where(high > 4.0 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))


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
