"""fedsched in a real federation: a strategy for Flower that chooses nodes by their channel.

    client app   app = ChannelClientApp(gain)          reports the gain of its node
    server app   ChannelStrategy("lyapunov", ...)      decides, sends, weighs, adds up

The package needs the extra ``flower``; the rest of fedsched does not know it.
"""

from fedsched.errors import require

require("flwr", extra="flower", purpose="fedsched.flower")

from fedsched.flower.client import ChannelClientApp, SimulatedGain  # noqa: E402
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
    "assignment_of",
]
