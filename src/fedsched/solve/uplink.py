"""The shared uplink: how long an update takes at a given gain and power.

The airtime prices a decision and moves the clock, so its formula lives here, below both.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsched.errors import InputError
from fedsched.values import PerDevice

__all__ = ["PAPER_UPLINK", "Uplink"]


@dataclass(frozen=True, kw_only=True)
class Uplink:
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

    bits: float
    bandwidth_hz: float
    noise_w: float
    max_power_w: float

    def __post_init__(self) -> None:
        for field in ("bits", "bandwidth_hz", "noise_w", "max_power_w"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{field} must be a positive finite number, got {value}")

    def airtime_s(self, gain: PerDevice, power_w: PerDevice) -> PerDevice:
        """Seconds on air of one update; infinite where the gain or the power is 0."""
        with np.errstate(divide="ignore"):
            nats_per_symbol = np.log1p(gain * (power_w / self.noise_w))
            return (self.bits * math.log(2.0) / self.bandwidth_hz) / nats_per_symbol


# The paper's experiments: 32 bits for each of the CNN's 555,178 parameters, the bandwidth of WiFi,
# noise normalised to 1, a peak of 35 dB over it.
PAPER_UPLINK = Uplink(bits=32 * 555_178, bandwidth_hz=22e6, noise_w=1.0, max_power_w=10**3.5)
