r"""Least energy within a deadline, where devices share the band (Yang et al. 2020).

Device k computes for :math:`c_k / f_k` seconds at a share :math:`f_k` of its clock frequency, then
uploads on a share :math:`s_k` of the band for :math:`t_k` seconds. With :math:`u = \ell / B` and
v nats a symbol, :math:`v = u \ln 2 / (s t)`, it sends with
:math:`P = \frac{N_0 s}{|h|^2} (e^v - 1)`. All end by the deadline T, and

.. math:: \min \sum_k \frac{N_0}{|h_k|^2} s_k t_k (e^{v_k} - 1)
          + E_k \Big( \frac{c_k}{T - t_k} \Big)^2, \quad \sum_k s_k \le 1 .

The sum is convex in the times at given shares, and in the shares at given times, but not in both.
So times and shares are found in turn, as they are published; no turn makes the energy larger.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsched.solve.power import Tariff, cheapest_power
from fedsched.values import PerDevice

__all__ = ["Shared", "Split", "least_energy", "least_time_s"]

_HALVINGS = 60  # of an interval: to the last digits
_TURNS = 50  # of times and shares
_SETTLED = 1e-10  # of the energy, from one turn to the next
_MOST_NATS = 500.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Shared:
    """Devices that share a band.

    Attributes:
        gain: of each, all in reach.
        peak_w: the most that each may send with.
        compute_s: c, seconds of computation at full speed.
        compute_j: E, joules of that.
        unit_s: u, seconds of an upload at one bit a symbol on the whole band.
        noise_w: of the whole band.
    """

    gain: PerDevice
    peak_w: PerDevice
    compute_s: PerDevice
    compute_j: PerDevice
    unit_s: float
    noise_w: float

    @property
    def _nats(self) -> float:
        """Of an update, in symbols of the whole band and second."""
        return self.unit_s * math.log(2.0)

    def power_w(self, share: PerDevice, upload_s: PerDevice) -> PerDevice:
        """What each sends with on its share for so long."""
        nats = np.minimum(self._nats / (share * upload_s), _MOST_NATS)
        return np.asarray(self.noise_w * share / self.gain * np.expm1(nats))

    def energy_j(self, share: PerDevice, upload_s: PerDevice, deadline_s: float) -> float:
        """Of all devices: sending, and computing in what is left until the deadline."""
        left_s = deadline_s - upload_s
        speed = np.divide(self.compute_s, left_s, out=np.ones(len(left_s)), where=left_s > 0.0)
        computing_j = self.compute_j * np.where(self.compute_s > 0.0, speed, 1.0) ** 2
        return float((self.power_w(share, upload_s) * upload_s + computing_j).sum())

    def least_share(self, upload_s: PerDevice) -> PerDevice:
        r"""The share on which an upload takes so long at the peak; infinite if none is enough.

        With v nats a symbol it is :math:`u \ln 2 / (v t)`, and v solves
        :math:`(e^v - 1)/v = |h|^2 P t / (N_0 u \ln 2)`. The left side grows from 1.
        """
        wanted = self.gain * self.peak_w * upload_s / (self.noise_w * self._nats)
        low, high = np.full(len(wanted), 1e-12), np.full(len(wanted), _MOST_NATS)
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            below = np.expm1(middle) < wanted * middle
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        with np.errstate(divide="ignore"):
            return np.where(wanted > 1.0, self._nats / (low * upload_s), np.inf)

    def least_upload_s(self, share: PerDevice) -> PerDevice:
        """How long an upload takes on a share at the peak."""
        snr = self.gain * self.peak_w / (self.noise_w * share)
        return np.asarray(self._nats / (share * np.log1p(snr)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Who has how much of the band, for how long, at which power and clock frequency."""

    share: PerDevice
    upload_s: PerDevice  # on its share
    power_w: PerDevice
    cpu: PerDevice  # share of the highest clock frequency
    deadline_s: float


def least_time_s(fleet: Shared) -> float:
    """The earliest moment by which all can have uploaded: at full speed and peak power."""
    alone_s = fleet.compute_s + fleet.least_upload_s(np.ones(len(fleet.gain)))
    even_s = fleet.compute_s + fleet.least_upload_s(np.full(len(fleet.gain), 1.0 / len(fleet.gain)))
    low, high = float(alone_s.max()), float(even_s.max())
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = fleet.least_share(middle - fleet.compute_s).sum() <= 1.0
        low, high = (low, middle) if fits else (middle, high)
    return high


def least_energy(fleet: Shared, deadline_s: float) -> Split:
    """The split of least energy by a deadline that is not too short; see :func:`least_time_s`.

    Example:
        >>> two = np.ones(2)
        >>> fleet = Shared(gain=two, peak_w=9.0 * two, compute_s=0.0 * two, compute_j=0.0 * two,
        ...                unit_s=1.0, noise_w=1.0)
        >>> split = least_energy(fleet, 2.0)  # half of the band each: one bit a symbol
        >>> split.share.round(6).tolist(), split.power_w.round(6).tolist()
        ([0.5, 0.5], [0.5, 0.5])
    """
    upload_s = deadline_s - fleet.compute_s
    share = fleet.least_share(upload_s)
    share = share / share.sum()  # what is left over makes every power lower
    energy_j = fleet.energy_j(share, upload_s, deadline_s)
    for _ in range(_TURNS):
        share = _best_shares(fleet, upload_s)
        upload_s = _best_times(fleet, share, deadline_s)
        before_j, energy_j = energy_j, fleet.energy_j(share, upload_s, deadline_s)
        if energy_j >= before_j * (1.0 - _SETTLED):
            break
    left_s = deadline_s - upload_s
    speed = np.divide(fleet.compute_s, left_s, out=np.ones(len(left_s)), where=left_s > 0.0)
    return Split(
        share=share,
        upload_s=upload_s,
        power_w=np.minimum(fleet.power_w(share, upload_s), fleet.peak_w),
        cpu=np.where(fleet.compute_s > 0.0, np.minimum(speed, 1.0), 1.0),
        deadline_s=deadline_s,
    )


def _best_shares(fleet: Shared, upload_s: PerDevice) -> PerDevice:
    r"""The shares of least energy at given times, at most the peak.

    The energy falls by :math:`\frac{N_0 t}{|h|^2} (x \ln x - x + 1)` for a little more of the band,
    :math:`x = e^v`, and at the best shares by as much for one device as for another. The x at such
    a price is that of a device which pays by the joule: the kernel has it.
    """
    least = fleet.least_share(upload_s)
    most = float(np.log(fleet.gain * upload_s / fleet.noise_w).max())

    def shares(log_price: float) -> PerDevice:
        worth = np.exp(log_price) * fleet.gain / (fleet.noise_w * upload_s)
        ones, tariff = np.ones(len(worth)), Tariff(second=worth, joule=1.0)
        snr = cheapest_power(ones, tariff, length=1.0, noise=1.0, max_power=1e150)
        return np.maximum(least, fleet._nats / (np.log1p(snr) * upload_s))

    low, high = -most - 60.0, -most + 600.0  # the price that is too low, and too high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shares(middle).sum() > 1.0 else (low, middle)
    found = shares(high)
    return np.asarray(found / max(1.0, float(found.sum())))


def _best_times(fleet: Shared, share: PerDevice, deadline_s: float) -> PerDevice:
    """The times of least energy at given shares: each device by itself, by halving."""
    low = np.minimum(fleet.least_upload_s(share), deadline_s - fleet.compute_s)
    high = deadline_s - fleet.compute_s
    computing = fleet.compute_j * fleet.compute_s**2
    if not computing.any():
        return high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        nats = np.minimum(fleet._nats / (share * middle), _MOST_NATS)
        # By a little more time sending saves this, and computing takes that.
        saved = fleet.noise_w / fleet.gain * share * ((nats - 1.0) * np.exp(nats) + 1.0)
        taken = 2.0 * computing / (deadline_s - middle) ** 3
        longer = saved > taken
        low, high = np.where(longer, middle, low), np.where(longer, high, middle)
    return np.asarray(low)
