"""Changes to any channel: a floor under its gains, and devices that come and go."""

from dataclasses import dataclass
from typing import final

import numpy as np

from fedsched.errors import InputError
from fedsched.radio.channel import (
    AbstractChannel,
    ChannelState,
    check_number,
    check_per_device,
)
from fedsched.radio.units import Quantity
from fedsched.values import PerDevice

__all__ = ["Floored", "Intermittent"]


@dataclass(frozen=True, eq=False)
class _Wrapper(AbstractChannel):
    """A channel around another one, with its devices and its state."""

    inner: AbstractChannel

    @property
    def devices(self) -> int:
        """How many devices the channel serves."""
        return self.inner.devices

    @property
    def quantity(self) -> Quantity:
        """What the channel within yields."""
        return self.inner.quantity

    def init(self, rng: np.random.Generator) -> ChannelState:
        """The state of the channel within."""
        return self.inner.init(rng)


@final
@dataclass(frozen=True, eq=False)
class Floored(_Wrapper):
    """Any channel with its gains raised to at least ``floor``; NaN stays NaN.

    A floor keeps one device in a deep fade from taking hours of airtime.
    """

    floor: float

    def __post_init__(self) -> None:
        check_number("Floored.floor", self.floor, above=0.0, allowed="positive and finite")

    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """Gains of this round, floored, and the next state of the channel within."""
        gain, state = self.inner.step(state, rng)
        return np.maximum(gain, self.floor), state


@final
@dataclass(frozen=True, eq=False)
class Intermittent(_Wrapper):
    """Any channel with devices that are out of reach at random.

    In each round device n is reachable with probability ``availability[n]``, independently of
    everything else. The channel within draws first, so its gains are the same with and without
    this wrapper.

    Args:
        inner: the channel.
        availability: probability of being reachable in a round, in (0, 1], shape (devices,).
    """

    availability: PerDevice

    def __post_init__(self) -> None:
        availability = check_per_device(
            "Intermittent.availability",
            self.availability,
            above=0.0,
            most=1.0,
            allowed="a probability in (0, 1]",
        )
        if len(availability) != self.inner.devices:
            raise InputError(
                "Intermittent.availability needs one probability per device: it has "
                f"{len(availability)}, the channel has {self.inner.devices} devices"
            )
        object.__setattr__(self, "availability", availability)

    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """Gains of this round, NaN where out of reach, and the next state of the channel within."""
        gain, state = self.inner.step(state, rng)
        reachable = rng.random(self.devices) < self.availability
        return np.where(reachable, gain, np.nan), state
