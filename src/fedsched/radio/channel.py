"""What a channel is: one linear power gain per device per round, state in and state out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.errors import InputError
from fedsched.radio.units import Quantity
from fedsched.values import PerDevice

__all__ = [
    "AbstractChannel",
    "AbstractMemorylessChannel",
    "ChannelState",
    "as_float64",
    "check_number",
    "check_per_device",
    "check_same_length",
]

# Named arrays and nothing else, so that a state can be saved to an NPZ file and restored.
ChannelState: TypeAlias = Mapping[str, NDArray[Any]]


class AbstractChannel(ABC):
    """A process that yields one power gain |h|^2 per device per round.

    A channel holds parameters only. What it remembers from round to round is its state, which it
    takes and returns and never changes in place; its chance comes from the generator passed in,
    which it never keeps. Give every call a generator of its own:
    ``init(stream(seed, "channel"))``, then ``step(state, stream(seed, "channel", round))`` for
    round 0, 1, 2, ... One generator address used twice would tie the start to the first round.
    """

    @property
    @abstractmethod
    def devices(self) -> int:
        """How many devices the channel serves."""

    @property
    def quantity(self) -> Quantity:
        """What it yields: gains, as every model does, or rates in bit/s, as some recordings."""
        return "gain"

    @abstractmethod
    def init(self, rng: np.random.Generator) -> ChannelState:
        """State before the first round; empty if the channel has no memory."""

    @abstractmethod
    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """Gains of this round, and the state for the next one.

        Returns:
            Linear power gains of shape (devices,), positive, NaN where a device cannot be reached
            in this round; and the next state.
        """


class AbstractMemorylessChannel(AbstractChannel):
    """A channel whose rounds are independent of each other: one method to write."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> PerDevice:
        """Gains of one round, shape (devices,)."""

    def init(self, rng: np.random.Generator) -> ChannelState:
        """The empty state."""
        del rng  # nothing is drawn before the first round
        return {}

    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """Gains of this round, and the state unchanged."""
        return self.draw(rng), state


def check_number(
    field: str, value: float, *, above: float = -np.inf, allowed: str = "finite"
) -> float:
    """The value as a float, if it is finite and greater than ``above``."""
    number = as_float64(field, value, "a number")
    if number.ndim or not (np.isfinite(number) and number > above):
        raise InputError(f"{field} must be {allowed}, got {value}")
    return float(number)


def check_per_device(
    field: str,
    value: ArrayLike,
    *,
    least: float = -np.inf,
    above: float = -np.inf,
    most: float = np.inf,
    allowed: str,
) -> PerDevice:
    """A read-only copy with one number per device, all finite and within the bounds.

    Args:
        field: the name used in messages.
        value: a sequence of numbers.
        least: smallest number allowed.
        above: a bound that itself is not allowed.
        most: largest number allowed.
        allowed: the bounds in words, as in "must be ...".
    """
    array = as_float64(field, value, "one number per device")
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{field} must hold one number per device, shape (devices,), got shape {array.shape}; "
            "for equal devices use numpy.full(devices, value)"
        )
    good = np.isfinite(array) & (array >= least) & (array > above) & (array <= most)
    if not good.all():
        device = int(np.argmin(good))
        raise InputError(f"{field}[{device}] must be {allowed}, got {array[device]}")
    array.setflags(write=False)
    return array


def check_same_length(**fields: PerDevice) -> None:
    """Refuse per-device fields of different lengths, naming all of them."""
    if len({len(value) for value in fields.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(value)}" for name, value in fields.items())
        raise InputError(f"every field needs one number per device: {lengths}")


def as_float64(field: str, value: ArrayLike, wanted: str) -> NDArray[np.float64]:
    """A new array of float64, or a sentence saying what was wanted."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{field} must be {wanted}, got {value!r}") from error
