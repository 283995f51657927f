"""Small-scale fading: Rayleigh, Rician and Nakagami, and Rayleigh fading with memory."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import number_within
from fedsched.radio.channel import (
    AbstractChannel,
    AbstractMemorylessChannel,
    ChannelState,
    check_per_device,
    check_same_length,
)
from fedsched.values import PerDevice

__all__ = ["GaussMarkov", "Nakagami", "Rayleigh", "Rician"]


@final
@dataclass(frozen=True, eq=False)
class Rayleigh(AbstractMemorylessChannel):
    r"""Many scattered paths, none of them dominant.

    .. math:: |h_n| \sim \mathrm{Rayleigh}(\sigma_n), \qquad
              |h_n|^2 = 2 \sigma_n^2 E, \quad E \sim \mathrm{Exp}(1),

    with mean :math:`2 \sigma_n^2`.

    Args:
        sigma: the Rayleigh parameter of each device, shape (devices,).

    Example:
        >>> channel = Rayleigh(np.array([0.1, 1.0, 10.0]))
        >>> gain, state = channel.step({}, np.random.default_rng(1))
        >>> gain.shape
        (3,)
    """

    sigma: PerDevice

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _positive("Rayleigh.sigma", self.sigma))

    @property
    def devices(self) -> int:
        """How many devices the channel serves."""
        return len(self.sigma)

    def draw(self, rng: np.random.Generator) -> PerDevice:
        """Gains of one round."""
        return 2.0 * self.sigma**2 * rng.standard_exponential(self.devices)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Rician(AbstractMemorylessChannel):
    r"""A steady line of sight plus scattered paths.

    .. math:: |h_n|^2 = \Omega_n \left| \sqrt{\tfrac{K_n}{K_n + 1}}
              + \sqrt{\tfrac{1}{K_n + 1}} \, w \right|^2, \quad w \sim \mathcal{CN}(0, 1),

    with mean :math:`\Omega_n` and variance :math:`\Omega_n^2 (1 + 2 K_n) / (1 + K_n)^2`. K = 0 is
    Rayleigh with :math:`2 \sigma_n^2 = \Omega_n`; a large K hardly fades.

    Args:
        k_factor: power of the line of sight over that of the scattered paths (linear, not dB).
        mean_gain: Omega, the mean of |h|^2.
    """

    k_factor: PerDevice
    mean_gain: PerDevice

    def __post_init__(self) -> None:
        k_factor = check_per_device(
            "Rician.k_factor",
            self.k_factor,
            least=0.0,
            allowed="finite and at least 0 (0 is Rayleigh fading)",
        )
        object.__setattr__(self, "k_factor", k_factor)
        object.__setattr__(self, "mean_gain", _positive("Rician.mean_gain", self.mean_gain))
        check_same_length(k_factor=self.k_factor, mean_gain=self.mean_gain)

    @property
    def devices(self) -> int:
        """How many devices the channel serves."""
        return len(self.mean_gain)

    def draw(self, rng: np.random.Generator) -> PerDevice:
        """Gains of one round."""
        amplitude = np.sqrt(self.k_factor) + _complex_normal(rng, self.devices)
        return self.mean_gain / (self.k_factor + 1.0) * _power(amplitude)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Nakagami(AbstractMemorylessChannel):
    r"""Nakagami-m fading: one number moves from worse than Rayleigh to hardly any fading.

    .. math:: |h_n|^2 \sim \mathrm{Gamma}(\text{shape } m_n, \text{scale } \Omega_n / m_n),

    with mean :math:`\Omega_n` and variance :math:`\Omega_n^2 / m_n`. m = 1 is Rayleigh, m = 1/2 the
    one-sided Gaussian.

    Args:
        shape: m of each device, at least 1/2.
        mean_gain: Omega, the mean of |h|^2.
    """

    shape: PerDevice
    mean_gain: PerDevice

    def __post_init__(self) -> None:
        shape = check_per_device(
            "Nakagami.shape",
            self.shape,
            least=0.5,
            allowed="finite and at least 0.5 (1 is Rayleigh fading)",
        )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "mean_gain", _positive("Nakagami.mean_gain", self.mean_gain))
        check_same_length(shape=self.shape, mean_gain=self.mean_gain)

    @property
    def devices(self) -> int:
        """How many devices the channel serves."""
        return len(self.mean_gain)

    def draw(self, rng: np.random.Generator) -> PerDevice:
        """Gains of one round."""
        return self.mean_gain / self.shape * rng.standard_gamma(self.shape)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GaussMarkov(AbstractChannel):
    r"""Rayleigh fading that remembers: a complex autoregression of order one.

    .. math:: h_n^{t} = \rho \, h_n^{t-1} + \sqrt{2 (1 - \rho^2)} \, \sigma_n w_n^t,
              \quad w_n^t \sim \mathcal{CN}(0, 1).

    The state starts in the stationary distribution, so :math:`|h_n^t|` is Rayleigh(sigma) in
    every round. The gains of two rounds k apart have correlation :math:`\rho^{2k}`.

    Args:
        sigma: the Rayleigh parameter of each device, shape (devices,).
        memory: rho, in [0, 1).
    """

    sigma: PerDevice
    memory: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _positive("GaussMarkov.sigma", self.sigma))
        about = "0 draws every round afresh, values near 1 change slowly"
        number_within("GaussMarkov.memory", self.memory, "[0, 1)", about)

    @property
    def devices(self) -> int:
        """How many devices the channel serves."""
        return len(self.sigma)

    def init(self, rng: np.random.Generator) -> ChannelState:
        """The complex amplitudes before the first round, from the stationary distribution."""
        return {"amplitude": np.sqrt(2.0) * self.sigma * _complex_normal(rng, self.devices)}

    def step(self, state: ChannelState, rng: np.random.Generator) -> tuple[PerDevice, ChannelState]:
        """Gains of this round, and its complex amplitudes."""
        spread = np.sqrt(2.0 * (1.0 - self.memory**2)) * self.sigma
        amplitude = self.memory * state["amplitude"] + spread * _complex_normal(rng, self.devices)
        return _power(amplitude), {"amplitude": amplitude}


def _positive(field: str, value: PerDevice) -> PerDevice:
    return check_per_device(field, value, above=0.0, allowed="positive and finite")


def _complex_normal(rng: np.random.Generator, devices: int) -> NDArray[np.complex128]:
    """Circular complex normal numbers with E|w|^2 = 1."""
    real, imaginary = rng.standard_normal((2, devices)) * np.sqrt(0.5)
    return np.asarray(real + 1j * imaginary, dtype=np.complex128)


def _power(amplitude: NDArray[np.complex128]) -> PerDevice:
    return np.asarray(amplitude.real**2 + amplitude.imag**2, dtype=np.float64)
