"""Good channels take part often, the others now and then: a policy that plugs into fedsched."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from fedsched.policies import (
    AbstractChoicePolicy,
    Choice,
    Need,
    PolicyInfo,
    PolicyOptions,
    Seen,
    make_power,
)

__all__ = ["INFO", "ChannelGate"]


@final
@dataclass(frozen=True, kw_only=True)
class ChannelGate(AbstractChoicePolicy):
    """Coins of 9 to 1 for gains above and below the median, for m devices on average."""

    informed: ClassVar[bool] = True  # it needs the chance of the round, as
    tosses: ClassVar[bool] = True  # it tosses coins

    @property
    def name(self) -> str:
        """What tables call it."""
        return "channel-gate"

    def choose(self, seen: Seen) -> Choice:
        """Toss for every device in reach; weights of share over probability are unbiased."""
        gain = seen.gain[seen.reach]
        q = np.zeros(len(seen.gain))
        above = np.where(gain >= np.median(gain), 9.0, 1.0)
        q[seen.reach] = np.minimum(1.0, self.draws * above / above.sum())
        device = np.flatnonzero(seen.feedback.chance[0] < q)
        return Choice(device=device, weight=seen.share[device] / q[device], probability=q)


def _make(options: PolicyOptions) -> ChannelGate:
    power = make_power(
        options.power or "queue",
        uplink=options.uplink,
        budget_w=options.budget_w,
        v=options.v,
        lam=options.lam,
        draws=options.draws,
    )
    return ChannelGate(draws=options.draws, power=power, data_weight=options.data_weight)


INFO = PolicyInfo(
    make=_make,
    about="coins of 9 to 1 for gains above and below the median",
    needs=frozenset({Need.GAIN}),
    unbiased="yes",
    weights="Horvitz-Thompson",
    reference="an example",
    power="queue",
)
