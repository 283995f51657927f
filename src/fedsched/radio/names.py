"""Channels by name: the paper's two settings, and one sensible setting of every other model."""

import reprlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from fedsched.checks import whole_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.imports import made_by
from fedsched.radio.channel import AbstractChannel
from fedsched.radio.fading import GaussMarkov, Nakagami, Rayleigh, Rician
from fedsched.radio.pathloss import Annulus, PathLoss
from fedsched.radio.presets import PRESETS
from fedsched.radio.trace import Trace
from fedsched.radio.wrappers import Floored

__all__ = ["CHANNELS", "DEFAULT_DEVICES", "GAIN_FLOOR", "make_channel"]

DEFAULT_DEVICES = 100
_MOST_DEVICES = 10**9  # far beyond what a machine schedules: a slip of the finger
GAIN_FLOOR = 0.001  # the paper's lower bound on |h|^2; every named channel has it

ChannelFactory: TypeAlias = Callable[[int], AbstractChannel]


def _heterogeneous(devices: int) -> AbstractChannel:
    return Rayleigh(np.linspace(0.1, 10.0, devices))


def _homogeneous(devices: int) -> AbstractChannel:
    return Rayleigh(np.ones(devices))


# The three below have the mean gain of the homogeneous setting, 2 sigma^2 = 2, so that what
# differs from it is the kind of fading alone.
def _rician(devices: int) -> AbstractChannel:
    return Rician(k_factor=np.full(devices, 4.0), mean_gain=np.full(devices, 2.0))


def _nakagami(devices: int) -> AbstractChannel:
    return Nakagami(shape=np.full(devices, 2.0), mean_gain=np.full(devices, 2.0))


def _correlated(devices: int) -> AbstractChannel:
    return GaussMarkov(sigma=np.ones(devices), memory=0.9)


def _pathloss(devices: int) -> AbstractChannel:
    # With noise 1, a gain of 0 dB at the rim means: one watt arrives there as strong as the noise.
    return PathLoss(
        geometry=Annulus(device_count=devices, inner_radius_m=35.0, outer_radius_m=500.0),
        reference_gain_db=0.0,
        reference_distance_m=500.0,
        exponent=3.5,
        shadowing_db=8.0,
    )


def _floored(factory: ChannelFactory) -> ChannelFactory:
    return lambda devices: Floored(factory(devices), GAIN_FLOOR)


CHANNELS: Mapping[str, ChannelFactory] = MappingProxyType(
    {
        "heterogeneous": _floored(_heterogeneous),
        "homogeneous": _floored(_homogeneous),
        "rician": _floored(_rician),
        "nakagami": _floored(_nakagami),
        "pathloss": _floored(_pathloss),
        "correlated": _floored(_correlated),
    }
)


def make_channel(
    name_or_path: str,
    devices: int | None = None,
    *,
    unit: str | None = None,
    noise_w: float | None = None,
    bandwidth_hz: float | None = None,
) -> AbstractChannel:
    """A channel by its name or its import path, or the replay of a recorded trace.

    Args:
        name_or_path: a key of :data:`CHANNELS` or of :data:`.PRESETS`, a trace file (.csv,
            .parquet or .npz), or the import path of a class or function that takes the number of
            devices.
        devices: how many; 100 if not given, or as many as the trace has.
        unit: what the numbers of a trace are, if it does not say so itself (:mod:`.units`).
        noise_w: of the link, for a trace of SNRs or of rates at a stated power.
        bandwidth_hz: of the link, for a trace of rates at a stated power.

    Raises:
        UnknownNameError: it is neither a known name nor a file nor an import path.
        InputError: the channel is bad or has another number of devices.

    Example:
        >>> make_channel("heterogeneous", 20).devices
        20
    """
    if devices is not None:
        whole_number("devices", devices, most=_MOST_DEVICES)
    path = Path(name_or_path)
    # A name with an ending is that of a file; no channel's name has one, an import path may.
    recorded = path.is_file() or (path.suffix[1:].isalnum() and ":" not in name_or_path)
    models = {**CHANNELS, **{name: preset.channel for name, preset in PRESETS.items()}}
    if ":" in name_or_path and not recorded:
        models[name_or_path] = partial(_imported, name_or_path)
    if name_or_path in models and unit is not None:
        raise InputError(
            f"unit is {unit!r}, but the channel {name_or_path!r} is a model, which yields gains; "
            "name a trace file, or leave unit out"
        )
    if name_or_path in models:
        return models[name_or_path](DEFAULT_DEVICES if devices is None else devices)
    if not recorded:
        raise UnknownNameError("channel", name_or_path, models)
    trace = Trace.read(path, unit=unit, noise_w=noise_w, bandwidth_hz=bandwidth_hz)
    if devices is not None and devices != trace.devices:
        raise InputError(
            f"devices is {devices}, but the trace {path} has {trace.devices} devices; "
            "leave devices out to use all of the trace"
        )
    return trace


def _imported(path: str, devices: int) -> AbstractChannel:
    """What an import path makes of a number of devices, refused unless it is such a channel."""
    made = made_by("channel", path, devices)
    if isinstance(made, AbstractChannel) and made.devices == devices:
        return made
    right = isinstance(made, AbstractChannel)
    what = f"channel of {made.devices} devices" if right else reprlib.repr(made)
    raise InputError(
        f"channel: {path!r} makes of {devices} devices a {what}; it must take the number of "
        "devices and make a fedsched.radio.AbstractChannel with so many"
    )
