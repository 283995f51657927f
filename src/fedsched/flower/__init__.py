"""fedsched in a real federation: a strategy for Flower that chooses nodes by their channel.

    server app   ChannelStrategy()                decides, sends, measures, weighs, adds up
    client app   stays as it is, or, where the radio is known:
                 app = ChannelClientApp(gain)     reports the gain of its node

The package needs the extra ``flower``; the rest of fedsched does not know it.
"""

from fedsched.errors import require

require("flwr", extra="flower", purpose="fedsched.flower")

from fedsched.flower.client import (  # noqa: E402
    ChannelClientApp,
    SimulatedGain,
    Throughput,
    gain_of_snr,
)
from fedsched.flower.compression import CompressMod, DecompressGrid  # noqa: E402
from fedsched.flower.protocol import Assignment, assignment_of  # noqa: E402
from fedsched.flower.strategy import ChannelStrategy  # noqa: E402

__all__ = [
    "Assignment",
    "ChannelClientApp",
    "ChannelStrategy",
    "CompressMod",
    "DecompressGrid",
    "SimulatedGain",
    "Throughput",
    "assignment_of",
    "gain_of_snr",
]
