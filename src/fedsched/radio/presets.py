r"""Presets: links that exist, each with its radio and a cell, so that one word describes both.

A receiver hears the noise :math:`N_0 = k T B F` in the band B of its channel, at 290 K and with
noise figure F. Its modem gets a share :math:`\eta` of the capacity, so that a device with gain
:math:`|h|^2` sends :math:`\eta B \log_2(1 + |h|^2 P / N_0)` bits a second: ``bandwidth_hz`` is
:math:`\eta B` and ``noise_w`` is that of the whole band. Gains follow from the path loss, the
antennas and walls, log-normal shadowing, and Rayleigh fading in every round.

Radio and path loss come from the documents named with each preset. The cell, the walls and the
budget, a tenth of the peak, are choices: set what you know better.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fedsched.checks import one_of
from fedsched.quantities import dbm_to_w
from fedsched.radio.channel import AbstractChannel
from fedsched.radio.pathloss import Annulus, PathLoss
from fedsched.radio.wrappers import Floored

__all__ = ["PRESETS", "Preset", "find_preset"]

_BOLTZMANN_J_PER_K = 1.380649e-23
_ROOM_K = 290.0
_WORST_SNR = 0.01  # -20 dB at the peak power: no gain is taken to be below


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A radio and a cell.

    Attributes:
        name: what scenarios call it.
        about: in a few words.
        sources: the documents that its numbers come from.
        band_hz: B, what one upload occupies.
        efficiency: eta, the share of the capacity that a modem gets.
        noise_figure_db: F of the receiver.
        max_power_dbm: peak power of a device.
        loss_db: path loss at the reference distance.
        reference_m: that distance.
        exponent: of the path loss.
        shadowing_db: its standard deviation.
        fixed_gain_db: antennas less walls and cables.
        inner_m: how near devices are at most.
        outer_m: radius of the cell.
        duty_cycle: the share of the time that a device may be on air, where a rule says so.
    """

    name: str
    about: str
    sources: str
    band_hz: float
    efficiency: float
    noise_figure_db: float
    max_power_dbm: float
    loss_db: float
    reference_m: float
    exponent: float
    shadowing_db: float
    fixed_gain_db: float
    inner_m: float
    outer_m: float
    duty_cycle: float | None = None

    @property
    def bandwidth_hz(self) -> float:
        """The band times eta: bits a second for each bit of capacity."""
        return self.efficiency * self.band_hz

    @property
    def noise_w(self) -> float:
        """Thermal noise in the band, times the noise figure."""
        thermal_w = _BOLTZMANN_J_PER_K * _ROOM_K * self.band_hz
        return float(thermal_w * 10.0 ** (self.noise_figure_db / 10.0))

    @property
    def max_power_w(self) -> float:
        """The peak power in watts."""
        return dbm_to_w(self.max_power_dbm)

    @property
    def budget_w(self) -> float:
        """A tenth of the peak."""
        return self.max_power_w / 10.0

    def uplink(self) -> dict[str, float]:
        """The fields of a link, by the names that scenarios have for them."""
        return {
            "bandwidth_hz": self.bandwidth_hz,
            "noise_w": self.noise_w,
            "max_power_w": self.max_power_w,
            "budget_w": self.budget_w,
        }

    def channel(self, devices: int) -> AbstractChannel:
        """So many devices in the cell."""
        cell = PathLoss(
            geometry=Annulus(
                device_count=devices, inner_radius_m=self.inner_m, outer_radius_m=self.outer_m
            ),
            reference_gain_db=self.fixed_gain_db - self.loss_db,
            reference_distance_m=self.reference_m,
            exponent=self.exponent,
            shadowing_db=self.shadowing_db,
        )
        return Floored(cell, _WORST_SNR * self.noise_w / self.max_power_w)


_WIFI = Preset(
    name="wifi",
    about="WiFi in an office: 20 MHz at 2.4 GHz, 20 dBm",
    # 54 Mbit/s at -65 dBm, 26 dB over the noise: 0.31 of the capacity. The path loss is that of
    # free space at 10 m, 60.2 dB, and steeper beyond.
    sources="IEEE 802.11-2020, 17.3.10 (noise figure, sensitivity); IEEE 802.11-03/940r4, model D"
    " (path loss); ETSI EN 300 328 (20 dBm)",
    band_hz=20e6, efficiency=0.31, noise_figure_db=10.0, max_power_dbm=20.0,
    loss_db=60.2, reference_m=10.0, exponent=3.5, shadowing_db=5.0, fixed_gain_db=0.0,
    inner_m=10.0, outer_m=50.0,
)  # fmt: skip
_LTE = Preset(
    name="lte",
    about="LTE in a town: 50 resource blocks (10 MHz) at 2 GHz, 23 dBm",
    # Sites 500 m apart, 14 dBi, 20 dB into buildings.
    sources="3GPP TS 36.101 (power class 3); TR 36.942 (noise figure, share of the capacity);"
    " TR 36.814, case 1 (path loss, cell, antenna, walls)",
    band_hz=50 * 180e3, efficiency=0.4, noise_figure_db=5.0, max_power_dbm=23.0,
    loss_db=128.1, reference_m=1000.0, exponent=3.76, shadowing_db=8.0, fixed_gain_db=14.0 - 20.0,
    inner_m=35.0, outer_m=289.0,
)  # fmt: skip
_NB_IOT = Preset(
    name="nb-iot",
    about="NB-IoT: one resource block (180 kHz) at 900 MHz, 23 dBm",
    # Sites 1,732 m apart; 18 dBi and -4 dBi, 3 dB of cable, 20 dB into buildings.
    sources="3GPP TS 36.101 (power class 3); TR 45.820 (noise figure, path loss, cell, antennas);"
    " TR 36.942 (share of the capacity)",
    band_hz=180e3, efficiency=0.4, noise_figure_db=3.0, max_power_dbm=23.0,
    loss_db=120.9, reference_m=1000.0, exponent=3.76, shadowing_db=8.0,
    fixed_gain_db=18.0 - 4.0 - 3.0 - 20.0,
    inner_m=35.0, outer_m=1000.0,
)  # fmt: skip
_LORAWAN = Preset(
    name="lorawan",
    about="LoRaWAN in Europe: 125 kHz at 868 MHz, 14 dBm",
    # 250 bit/s at -20 dB and 5,470 at -7.5 dB: 0.14 and 0.19 of the capacity.
    sources="LoRa Alliance RP002 (125 kHz, data rates); ETSI EN 300 220 (14 dBm, 1 % of the time);"
    " Semtech SX1276 (noise figure, SNR limits); Petajajarvi et al., ITST 2015 (path loss)",
    band_hz=125e3, efficiency=0.15, noise_figure_db=6.0, max_power_dbm=14.0,
    loss_db=128.95, reference_m=1000.0, exponent=2.32, shadowing_db=7.8, fixed_gain_db=0.0,
    inner_m=50.0, outer_m=2000.0, duty_cycle=0.01,
)  # fmt: skip
_5G = Preset(
    name="5g",
    about="5G in a street: 273 resource blocks (100 MHz) at 3.5 GHz, 23 dBm",
    # 22.4 + 21.3 log10(3.5) at 1 m; sites 200 m apart, 8 dBi.
    sources="3GPP TS 38.101-1 (power class 3, 273 blocks of 360 kHz); TR 38.901, UMi street canyon"
    " without line of sight (path loss, cell); TR 38.803 (share of the capacity, noise figure)",
    band_hz=273 * 360e3, efficiency=0.4, noise_figure_db=5.0, max_power_dbm=23.0,
    loss_db=33.99, reference_m=1.0, exponent=3.53, shadowing_db=7.82, fixed_gain_db=8.0,
    inner_m=10.0, outer_m=115.0,
)  # fmt: skip

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {preset.name: preset for preset in (_WIFI, _LTE, _5G, _NB_IOT, _LORAWAN)}
)


def find_preset(name: str, field: str = "preset") -> Preset:
    """The preset of that name.

    Example:
        >>> round(find_preset("lte").max_power_w, 3)
        0.2
    """
    one_of(field, name, PRESETS)
    return PRESETS[name]
