"""Good channels take part often, the others now and then: a policy that plugs into fedsched."""

from dataclasses import dataclass
from typing import final

import numpy as np

from fedsched.policies import AbstractTossedPolicy, Choice, Context, PolicyInfo

__all__ = ["INFO", "ChannelGate"]


@final
@dataclass(frozen=True, kw_only=True)
class ChannelGate(AbstractTossedPolicy):
    """Coins of 9 to 1 for gains above and below the median, for m devices on average."""

    @property
    def name(self) -> str:
        """What tables call it."""
        return "channel-gate"

    def choose(self, context: Context) -> Choice:
        """Toss for every device in reach; weights of share over probability are unbiased."""
        gain = context.gain[context.reach]
        q = np.zeros(len(context.gain))
        above = np.where(gain >= np.median(gain), 9.0, 1.0)
        q[context.reach] = np.minimum(1.0, self.draws * above / above.sum())
        device = np.flatnonzero(context.chance[0] < q)
        return Choice(device=device, weight=context.share[device] / q[device], probability=q)


INFO = PolicyInfo(
    policy=ChannelGate,
    about="coins of 9 to 1 for gains above and below the median",
    unbiased="yes",
    weights="Horvitz-Thompson",
    reference="an example",
    power="queue",
)
