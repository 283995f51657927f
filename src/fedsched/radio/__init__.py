"""Channel models and recorded traces, and the clock they drive."""

from fedsched.radio.channel import AbstractChannel, AbstractMemorylessChannel, ChannelState
from fedsched.radio.fading import GaussMarkov, Nakagami, Rayleigh, Rician
from fedsched.radio.names import CHANNELS, make_channel
from fedsched.radio.pathloss import AbstractGeometry, Annulus, Distances, PathLoss
from fedsched.radio.presets import PRESETS, Preset
from fedsched.radio.trace import Trace, read_trace, record, write_trace
from fedsched.radio.units import Unit, parse_unit
from fedsched.radio.wrappers import Floored, Intermittent

__all__ = [
    "CHANNELS",
    "PRESETS",
    "AbstractChannel",
    "AbstractGeometry",
    "AbstractMemorylessChannel",
    "Annulus",
    "ChannelState",
    "Distances",
    "Floored",
    "GaussMarkov",
    "Intermittent",
    "Nakagami",
    "PathLoss",
    "Preset",
    "Rayleigh",
    "Rician",
    "Trace",
    "Unit",
    "make_channel",
    "parse_unit",
    "read_trace",
    "record",
    "write_trace",
]
