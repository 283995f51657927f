"""A cell with geometry: distance sets the mean gain, shadowing scatters it, fading moves it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from fedsched.checks import whole_number
from fedsched.errors import InputError
from fedsched.radio.channel import (
    AbstractChannel,
    ChannelState,
    check_number,
    check_per_device,
)
from fedsched.values import PerDevice

__all__ = ["AbstractGeometry", "Annulus", "Distances", "PathLoss"]


class AbstractGeometry(ABC):
    """Where the devices stand, as seen from the base station."""

    @property
    @abstractmethod
    def devices(self) -> int:
        """How many devices there are."""

    @abstractmethod
    def place(self, rng: np.random.Generator) -> PerDevice:
        """Distances to the base station in metres, shape (devices,)."""


@final
@dataclass(frozen=True, eq=False)
class Distances(AbstractGeometry):
    """Devices at given distances, in metres."""

    distance_m: PerDevice

    def __post_init__(self) -> None:
        distance_m = check_per_device(
            "Distances.distance_m", self.distance_m, above=0.0, allowed="positive and finite"
        )
        object.__setattr__(self, "distance_m", distance_m)

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.distance_m)

    def place(self, rng: np.random.Generator) -> PerDevice:
        """The given distances."""
        del rng  # nothing is left to chance
        return self.distance_m.copy()


@final
@dataclass(frozen=True, kw_only=True)
class Annulus(AbstractGeometry):
    r"""Devices placed uniformly by area between two circles around the base station.

    .. math:: d_n = \sqrt{r_{in}^2 + U_n (r_{out}^2 - r_{in}^2)}, \quad U_n \sim \mathrm{U}(0, 1).
    """

    device_count: int
    inner_radius_m: float
    outer_radius_m: float

    def __post_init__(self) -> None:
        whole_number("Annulus.device_count", self.device_count)
        inner = check_number(
            "Annulus.inner_radius_m", self.inner_radius_m, above=0.0, allowed="positive and finite"
        )
        check_number(
            "Annulus.outer_radius_m",
            self.outer_radius_m,
            above=inner,
            allowed=f"finite and greater than inner_radius_m = {inner}",
        )

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return self.device_count

    def place(self, rng: np.random.Generator) -> PerDevice:
        """Distances drawn uniformly by area."""
        inner, outer = self.inner_radius_m**2, self.outer_radius_m**2
        return np.sqrt(inner + rng.random(self.devices) * (outer - inner))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PathLoss(AbstractChannel):
    r"""Power-law path loss, log-normal shadowing, and Rayleigh fading in every round.

    .. math:: |h_n^t|^2 = g_0 \left( \tfrac{d_n}{d_0} \right)^{-\eta} 10^{X_n / 10} \, E_n^t,
              \quad X_n \sim \mathcal{N}(0, s^2), \; E_n^t \sim \mathrm{Exp}(1).

    Distances and shadowing are drawn once, by :meth:`init`, and stay; the state shows them as
    ``distance_m`` and ``mean_gain``. Rounds differ by the fading alone. 0 dB is the *median* of
    the shadowing; its mean is :math:`\exp((s \ln(10) / 10)^2 / 2)`, 5.4 for s = 8 dB.

    Args:
        geometry: where the devices stand.
        reference_gain_db: g_0, the gain at the reference distance without shadowing.
        reference_distance_m: d_0.
        exponent: eta; 2 in free space, 3 to 4 in towns.
        shadowing_db: s, standard deviation of the shadowing; 0 switches it off.
    """

    geometry: AbstractGeometry
    reference_gain_db: float
    reference_distance_m: float
    exponent: float
    shadowing_db: float

    def __post_init__(self) -> None:
        check_number("PathLoss.reference_gain_db", self.reference_gain_db)
        for name in ("reference_distance_m", "exponent"):
            check_number(
                f"PathLoss.{name}", getattr(self, name), above=0.0, allowed="positive and finite"
            )
        if not 0.0 <= self.shadowing_db < np.inf:
            raise InputError(
                "PathLoss.shadowing_db must be finite and at least 0 (0 switches shadowing off), "
                f"got {self.shadowing_db}"
            )

    @property
    def devices(self) -> int:
        """How many devices the channel serves."""
        return self.geometry.devices

    def init(self, rng: np.random.Generator) -> ChannelState:
        """Place the devices and draw their shadowing, for the whole run."""
        distance_m = self.geometry.place(rng)
        shadowing_db = self.shadowing_db * rng.standard_normal(self.devices)
        loss_db = 10.0 * self.exponent * np.log10(distance_m / self.reference_distance_m)
        mean_gain = 10.0 ** ((self.reference_gain_db - loss_db + shadowing_db) / 10.0)
        return {"distance_m": distance_m, "mean_gain": mean_gain}

    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """Gains of this round, and the state unchanged: nobody moves."""
        return state["mean_gain"] * rng.standard_exponential(self.devices), state
