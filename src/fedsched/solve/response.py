"""How devices respond to a price: Newton steps, device by device, for a multiplier nu."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.solve.blocks import blocks
from fedsched.values import PerDevice

__all__ = ["Cheapest", "Devices", "newton_step"]

Values: TypeAlias = NDArray[np.float64]

# Closest to 1 that the q of a falling branch may begin.
_Q_MOST = 1.0 - 1e-15


def newton_step(
    y: Values,
    b: Values,
    nu: float | Values,
    m: int,
    floor: float,
    *,
    step: Values,
    response: Values,
    inverse_weight: Values | None = None,
) -> tuple[Values, Values]:
    r"""One Newton step, not taken yet, of each device on :math:`y - b + \nu \kappa / (m a) = 0`.

    Minus the step in y is written to ``step`` and minus :math:`dy / d\nu` to ``response``; ``y``
    and these two have one shape, to which the others extend.

    Returns:
        Omega at y, and by how much it falls when y rises, :math:`-d\omega / dy`.
    """
    r = (m - 1) / m
    q = np.sqrt(y)
    np.divide(1.0, q, out=q)
    log_rest = np.log1p(-q)
    kappa = np.exp(log_rest * -r)
    kappa *= 1.0 / m
    fall = q / y
    fall *= 0.5
    fall *= kappa  # since d omega / dq = kappa / m
    q -= 1.0
    inverse = fall / q
    if inverse_weight is not None:
        kappa *= inverse_weight
        inverse *= inverse_weight
    # The derivative in y is 1 - nu r (-d omega / dy) / (a (1-q)).
    inverse *= r * nu
    inverse += 1.0
    np.divide(1.0, inverse, out=inverse)
    np.multiply(kappa, inverse, out=response)
    kappa *= nu
    kappa += y
    kappa -= b
    np.multiply(kappa, inverse, out=step)
    if floor > 0.0:
        # A device at its floor moves only if the step leads off it.
        free = (y < 1.0 / floor**2) | (step > 0.0)
        response *= free
        step *= free
    log_rest *= 1.0 / m
    np.expm1(log_rest, out=log_rest)
    np.negative(log_rest, out=log_rest)
    return log_rest, fall


class Devices:
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
        self.step, self.response = np.empty_like(y), np.empty_like(y)

    def sweep(self, nu: float) -> tuple[float, float, float]:
        """A Newton step in y at fixed nu, not taken yet.

        Returns:
            The sum of omega after the step, its derivative in nu, and how far the step moves the
            omegas in all.
        """
        total = slope = moved = 0.0
        for block in blocks(len(self.y)):
            step, response = self.step[block], self.response[block]
            inverse_weight = None if self.inverse_weight is None else self.inverse_weight[block]
            omega, fall = newton_step(
                self.y[block], self.b[block], nu, self.m, self.floor,
                step=step, response=response, inverse_weight=inverse_weight,
            )  # fmt: skip
            total += float(fall.dot(step)) + float(omega.sum())
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


@dataclass(frozen=True)
class Cheapest:
    """k, the only device that may sit on its falling branch, and the others."""

    index: int
    b: float
    m: int
    others: PerDevice  # b of the others
    q_turn: float  # where F_k turns from rising to falling
    y_turn: float
    rest_turn: float  # 1 - omega_k there

    @classmethod
    def of(cls, b: PerDevice, m: int) -> "Cheapest":
        """The cheapest of these devices."""
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

    def respond(self, floor: float, nu: float = 0.0) -> Devices:
        """The others, ready to respond to nu >= 0; they start where q is small and kappa is 1."""
        y_most = self.others if floor == 0.0 else np.minimum(self.others, 1.0 / floor**2)
        y = np.maximum(y_most - nu / self.m, self.y_turn)
        return Devices(self.others, self.m, floor, y=y, y_least=self.y_turn, y_most=y_most)

    def insert(self, others: PerDevice, own: float) -> PerDevice:
        """The draw probabilities of all, from those of the others and of k."""
        return np.concatenate([others[: self.index], [own], others[self.index :]])
