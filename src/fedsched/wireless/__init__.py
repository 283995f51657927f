"""Channel models and recorded traces, and the clock they drive."""

from fedsched.wireless.channel import AbstractChannel, AbstractMemorylessChannel, ChannelState
from fedsched.wireless.fading import GaussMarkov, Nakagami, Rayleigh, Rician
from fedsched.wireless.names import CHANNELS, make_channel
from fedsched.wireless.pathloss import AbstractGeometry, Annulus, Distances, PathLoss
from fedsched.wireless.trace import Trace, read_trace, record, write_trace
from fedsched.wireless.wrappers import Floored, Intermittent

__all__ = [
    "CHANNELS",
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
    "Rayleigh",
    "Rician",
    "Trace",
    "make_channel",
    "read_trace",
    "record",
    "write_trace",
]
