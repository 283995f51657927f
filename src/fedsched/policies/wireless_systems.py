"""Published systems in which uploads fail, or take part in ways that nobody knows beforehand."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of, positive_number, whole_number
from fedsched.errors import InputError, require
from fedsched.policies.base import PolicyState
from fedsched.policies.choice import (
    AbstractChoicePolicy,
    AbstractTossedPolicy,
    Choice,
    Context,
    average,
    smallest,
)
from fedsched.policies.wireless_rules import ProportionalFair, RoundRobin
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice

__all__ = ["FedAU", "ResourceBlocks", "SinrThreshold", "assigned_blocks", "packet_error"]

_WATERFALL = 1.08  # m of the packet error rate
RULES = ("random", "round-robin", "proportional-fair")


def packet_error(snr: PerDevice, interference: PerDevice) -> NDArray[np.float64]:
    r"""The chance that an update is lost, by device and block.

    .. math:: e_{ij} = 1 - e^{-m (1 + I_j) / \gamma_i}, \quad m = 1.08

    Noise counts as 1, and the interference on a block in multiples of it.

    Example:
        >>> packet_error(np.array([1.08]), np.array([0.0, 1.0])).round(4)
        array([[0.6321, 0.8647]])
    """
    return -np.expm1(-_WATERFALL * (1.0 + interference) / snr[:, None])


def assigned_blocks(value: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows have which columns, each at most one, so that their values add up to the most.

    Rows whose value would be 0 have none.

    Example:
        >>> assigned_blocks(np.array([[4.0, 3.0], [3.0, 1.0], [0.0, 0.0]]))
        (array([0, 1]), array([1, 0]))
    """
    optimize = require("scipy.optimize", extra="torch", purpose="the assignment of blocks")
    row, column = optimize.linear_sum_assignment(value, maximize=True)
    used = value[row, column] > 0.0
    return row[used].astype(np.int64), column[used].astype(np.int64)


@final
@dataclass(frozen=True, kw_only=True)
class ResourceBlocks(AbstractChoicePolicy):
    r"""One of m blocks for each member, by assignment (Chen et al.).

    Device i on block j is worth :math:`p_i (1 - e_{ij})`, e being its packet error, if it uploads
    there before a deadline and within an energy, and nothing otherwise. Blocks are assigned so that
    the worth is largest. An update is then lost with its packet error; those that arrive are
    averaged, so that devices with bad channels count less than their data.

    Attributes:
        interference: of each of the m blocks, in multiples of the noise; None: none.
        deadline_s: of an upload on one block; None: none.
        energy_j: of an upload on one block; None: none.
    """

    interference: tuple[float, ...] | None = None
    deadline_s: float | None = None
    energy_j: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("deadline_s", "energy_j"):
            if getattr(self, name) is not None:
                positive_number(name, getattr(self, name))
        blocks = self.draws if self.interference is None else len(self.interference)
        if blocks != self.draws:
            raise InputError(
                f"interference has {blocks} numbers and there are {self.draws} blocks; give one "
                "for each"
            )
        for each in self.interference or ():
            positive_number("interference", each, allow_zero=True)

    name = "resource-blocks"

    def choose(self, context: Context) -> Choice:
        """The assignment of most worth; who is lost sends all the same, and counts for nothing."""
        reach, link = context.reach, self.system.link_with_gains(self.name)
        # The whole power on one of m blocks, whose noise is an m-th.
        snr = self.draws * _snr(link, context)[reach]
        noise = np.zeros(self.draws) if self.interference is None else np.array(self.interference)
        error = packet_error(snr, noise)
        unit_s = link.bits * np.log(2.0) / (link.bandwidth_hz / self.draws)
        block_s = unit_s / np.log1p(snr[:, None] / (1.0 + noise))
        allowed = block_s <= (np.inf if self.deadline_s is None else self.deadline_s)
        if self.energy_j is not None:
            allowed &= context.plan.power_w[reach, None] * block_s <= self.energy_j
        row, block = assigned_blocks(context.share[reach, None] * (1.0 - error) * allowed)
        device = reach[row]
        arrived = context.chance[0, device] >= error[row, block]
        return Choice(device=device, weight=_average_of(device, arrived, context.share))


@final
@dataclass(frozen=True, kw_only=True)
class SinrThreshold(AbstractChoicePolicy):
    r"""m devices by a rule; who is heard below a threshold is lost (Yang et al., in full).

    An update arrives if :math:`|h|^2 P / N_0 \ge \theta`. Those that arrive are averaged; the
    others have sent for nothing.

    Attributes:
        rule: "random", "round-robin" or "proportional-fair".
        sinr_db: theta.
    """

    rule: str = "random"
    sinr_db: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("rule", self.rule, RULES)
        if not np.isfinite(self.sinr_db):
            raise InputError(f"sinr_db must be a finite number of decibels, got {self.sinr_db}")

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return f"sinr-{self.rule}"

    @property
    def _inner(self) -> AbstractChoicePolicy | None:
        kinds = {"round-robin": RoundRobin, "proportional-fair": ProportionalFair}
        kind = kinds.get(self.rule)
        return None if kind is None else kind(draws=self.draws, power=self.power)

    @property
    def own_shared_state(self) -> frozenset[str]:
        """That of the rule."""
        return self._inner.own_shared_state if self._inner else frozenset()

    def start(self, devices: int) -> PolicyState:
        """That of the rule."""
        return self._inner.start(devices) if self._inner else {}

    def choose(self, context: Context) -> Choice:
        """Whom the rule takes; of these the average of who is heard."""
        if self._inner is None:
            device = context.reach[smallest(context.chance[0, context.reach], self.draws)]
            state: PolicyState = {}
        else:
            inner = self._inner.choose(context)
            device, state = inner.device, inner.state
        snr = _snr(self.system.link_with_gains(self.name), context)[device]
        arrived = snr >= 10.0 ** (self.sinr_db / 10.0)
        return Choice(
            device=device, weight=_average_of(device, arrived, context.share), state=state
        )


@final
@dataclass(frozen=True, kw_only=True)
class FedAU(AbstractTossedPolicy):
    r"""m random devices, weighted by the mean interval between their participations (Wang, Ji).

    Nobody needs to know the probability q with which a device takes part, or whether it can be
    reached: the mean interval :math:`\omega` estimates 1/q, and an update counts for
    :math:`p \omega`. An interval is cut at ``cutoff`` rounds, which bounds the weights.

    Attributes:
        cutoff: K.
    """

    cutoff: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("cutoff", self.cutoff)

    name = "fedau"

    def start(self, devices: int) -> PolicyState:
        """No interval has ended: every weight is the share of the data."""
        zeros = np.zeros(devices)
        return {"waited": zeros, "intervals": zeros.copy(), "mean_interval": np.ones(devices)}

    def choose(self, context: Context) -> Choice:
        """Random members; intervals end with them, or at the cutoff."""
        state = context.state
        device = context.reach[smallest(context.chance[0, context.reach], self.draws)]
        weight = context.share[device] * state["mean_interval"][device]
        waited = state["waited"] + 1.0
        ends = waited >= self.cutoff
        ends[device] = True
        count = state["intervals"] + ends
        mean = state["mean_interval"]
        moved = mean + (waited - mean) / np.maximum(count, 1.0)
        q = min(1.0, self.draws / len(context.reach))
        return Choice(
            device=device,
            weight=weight,
            probability=np.where(np.isnan(context.gain), 0.0, q),
            state={
                "waited": np.where(ends, 0.0, waited),
                "intervals": count,
                "mean_interval": np.where(ends, moved, mean),
            },
        )


def _snr(link: Uplink, context: Context) -> PerDevice:
    return context.gain * context.plan.power_w / link.noise_w


def _average_of(
    device: NDArray[np.int64], arrived: NDArray[np.bool_], share: PerDevice
) -> PerDevice:
    """Weights of the average over those that arrived; 0 for the others."""
    weight = np.zeros(len(device))
    weight[arrived] = average(device[arrived], share)
    return weight
