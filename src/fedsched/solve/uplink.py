"""The shared uplink: how long an update takes at a given gain and power, and the best power.

The airtime prices a decision and moves the clock, so its formula lives here, below both.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from fedsched.checks import positive_number
from fedsched.solve.power import Tariff, cheapest_power
from fedsched.values import PerDevice

__all__ = ["PAPER_UPLINK", "AbstractLink", "RateLink", "Uplink"]


@dataclass(frozen=True, kw_only=True)
class AbstractLink(ABC):
    """A link that devices share.

    Attributes:
        bits: size of one model update, l.
        max_power_w: peak transmit power of a device, Pmax.
    """

    bits: float
    max_power_w: float

    def __post_init__(self) -> None:
        for field in self.__dataclass_fields__:
            if field != "max_power_w" or self.has_watts:
                positive_number(field, getattr(self, field))

    @property
    def has_watts(self) -> bool:
        """Whether anybody knows the power that devices send with."""
        return True

    @property
    @abstractmethod
    def nominal_s(self) -> float:
        """Seconds of an update over a usual channel, where nobody says otherwise."""

    @abstractmethod
    def airtime_s(self, gain: PerDevice, power_w: PerDevice) -> PerDevice:
        """Seconds on air of one update; infinite where the gain or the power is 0."""

    @abstractmethod
    def cheapest_power_w(
        self, gain: PerDevice, tariff: Tariff, peak_w: float | PerDevice
    ) -> PerDevice:
        """The power at which an upload costs least, at most the peak; 0 where the gain is NaN."""


@final
@dataclass(frozen=True, kw_only=True)
class RateLink(AbstractLink):
    r"""A link whose rates are measured, and whose power nobody sets.

    What a channel gives for a device is its rate r in bit/s, in place of a gain. An update takes
    :math:`\tau = \ell / r` seconds, at the power that the modem has.

    Attributes:
        bits: size of one model update.
        max_power_w: the power that a modem sends with; budgets in watts and joules count it. NaN,
            and then so is every power over this link, if nobody knows it.

    Example:
        >>> link = RateLink(bits=8e6, max_power_w=0.2)
        >>> link.airtime_s(np.array([1e6, 4e6]), np.array([0.2, 0.2])).tolist()
        [8.0, 2.0]
    """

    max_power_w: float = math.nan

    @property
    def has_watts(self) -> bool:
        """Whether the power of the modems was given."""
        return not math.isnan(self.max_power_w)

    @property
    def nominal_s(self) -> float:
        """At 1 Mbit/s."""
        return self.bits / 1e6

    def airtime_s(self, gain: PerDevice, power_w: PerDevice) -> PerDevice:
        """Bits over the rate; infinite where the rate or the power is 0."""
        with np.errstate(divide="ignore"):
            return np.where(power_w == 0.0, np.inf, self.bits / gain)

    def cheapest_power_w(
        self, gain: PerDevice, tariff: Tariff, peak_w: float | PerDevice
    ) -> PerDevice:
        """The modem's own."""
        del tariff
        return np.where(np.isnan(gain), 0.0, peak_w)


@final
@dataclass(frozen=True, kw_only=True)
class Uplink(AbstractLink):
    r"""A link that devices use in turn, each at the capacity of its channel.

    A device with gain :math:`|h|^2` that sends :math:`\ell` bits at power :math:`P` occupies the
    link for

    .. math:: \tau = \frac{\ell}{B \log_2(1 + |h|^2 P / N_0)} \quad\text{seconds.}

    Attributes:
        bits: size of one model update, l.
        bandwidth_hz: bandwidth, B.
        noise_w: noise power, N0.
        max_power_w: peak transmit power of a device, Pmax.

    Example:
        >>> import numpy as np
        >>> link = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=10.0)
        >>> link.airtime_s(np.array([1.0, 3.0]), np.array([1.0, 1.0])).tolist()
        [1.0, 0.5]
    """

    bandwidth_hz: float
    noise_w: float

    @property
    def nominal_s(self) -> float:
        """At four bits per second and hertz."""
        return self.bits / (4.0 * self.bandwidth_hz)

    def airtime_s(self, gain: PerDevice, power_w: PerDevice) -> PerDevice:
        """Seconds on air of one update; infinite where the gain or the power is 0."""
        with np.errstate(divide="ignore"):
            nats_per_symbol = np.log1p(gain * (power_w / self.noise_w))
            return (self.bits * math.log(2.0) / self.bandwidth_hz) / nats_per_symbol

    def cheapest_power_w(
        self, gain: PerDevice, tariff: Tariff, peak_w: float | PerDevice
    ) -> PerDevice:
        """Theorem 2 where only seconds and watts have a price; see :func:`cheapest_power`."""
        return cheapest_power(
            gain, tariff, length=self.bits / self.bandwidth_hz, noise=self.noise_w, max_power=peak_w
        )


# The paper's experiments: 32 bits for each of the CNN's 555,178 parameters, the bandwidth of WiFi,
# noise normalised to 1, a peak of 35 dB over it.
PAPER_UPLINK = Uplink(bits=32 * 555_178, bandwidth_hz=22e6, noise_w=1.0, max_power_w=10**3.5)
