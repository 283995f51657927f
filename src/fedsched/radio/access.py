"""Access: how the uploads of a cohort share the link, and when the last of them has arrived.

A policy prices a device by its access and the clock counts by the same one, so both agree.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of, positive_number, whole_number
from fedsched.radio.expected import Expected, expected_equal_split, expected_last, expected_turns
from fedsched.values import PerDevice

__all__ = [
    "ACCESSES",
    "BLOCKS",
    "OFDMA",
    "TDMA",
    "AbstractAccess",
    "AbstractOFDMA",
    "EqualOFDMA",
    "Parallel",
    "make_access",
]

_LEAST_PRICE = 1e-3  # of a device, against its own upload
_LEAST_WAIT = 1e-2  # of a second of its upload
BLOCKS = 100  # of 180 kHz: LTE's 20 MHz

Times = NDArray[np.float64]


class AbstractAccess(ABC):
    """How a cohort's uploads share the link."""

    name: ClassVar[str]

    @abstractmethod
    def uploads_s(self, upload_s: Times, ready_s: Times | None = None) -> float:
        """Seconds from the start of a round until its last upload has ended; 0 without any.

        Args:
            upload_s: of each member, with the link to itself.
            ready_s: when each is ready to upload; None: all are at once.
        """

    def expected(
        self, upload_s: PerDevice, late_s: PerDevice | None, probability: PerDevice
    ) -> Expected:
        """The expected length of a round, and what each device does to it.

        Args:
            upload_s: of each device, with the link to itself; infinite where it cannot be reached.
            late_s: how much later than others each is ready; None: all are at once.
            probability: that it takes part.
        """
        near = np.isfinite(upload_s)
        late_s = np.zeros(len(upload_s)) if late_s is None else late_s
        found = self._expected(upload_s[near], late_s[near], probability[near])
        added_s, per_second = np.full(len(upload_s), np.inf), np.ones(len(upload_s))
        # Who adds nothing because others always take longer is cheap, but not free.
        added_s[near] = np.maximum(found.added_s, _LEAST_PRICE * upload_s[near])
        per_second[near] = np.maximum(found.per_second, _LEAST_WAIT)
        return Expected(found.mean_s, added_s, per_second)

    @abstractmethod
    def _expected(self, upload_s: PerDevice, late_s: PerDevice, probability: PerDevice) -> Expected:
        """The same for devices that can all be reached."""


@final
@dataclass(frozen=True)
class TDMA(AbstractAccess):
    r"""Devices take turns, in the order in which they are ready; the others go on computing.

    .. math:: T = \max_k \Big( r_k + \sum_{j \ge k} \tau_j \Big)

    over the members in the order of their readiness r. No order is faster: whatever the order, the
    devices that are ready at :math:`r_k` or later upload after that, one by one.

    Example:
        >>> TDMA().uploads_s(np.array([0.5, 0.25]))
        0.75
        >>> TDMA().uploads_s(np.array([0.5, 0.25]), np.array([2.0, 1.0]))
        2.5
    """

    name: ClassVar[str] = "tdma"

    def uploads_s(self, upload_s: Times, ready_s: Times | None = None) -> float:
        """Their sum, and the gaps in which nobody is ready."""
        if ready_s is None or not len(upload_s):
            return float(upload_s.sum())
        order = np.argsort(ready_s, kind="stable")
        left_s = np.cumsum(upload_s[order][::-1])[::-1]
        return float((ready_s[order] + left_s).max())

    def expected(
        self, upload_s: PerDevice, late_s: PerDevice | None, probability: PerDevice
    ) -> Expected:
        """Where all are ready at once each adds its own upload, whoever else takes part."""
        if late_s is None:
            used_s = probability * np.where(probability > 0.0, upload_s, 0.0)
            return Expected(float(used_s.sum()), upload_s, np.ones(len(upload_s)))
        return super().expected(upload_s, late_s, probability)

    def _expected(self, upload_s: PerDevice, late_s: PerDevice, probability: PerDevice) -> Expected:
        return expected_turns(upload_s, late_s, probability)


@final
@dataclass(frozen=True)
class Parallel(AbstractAccess):
    """Each device has a link of its own: the last to finish decides.

    Example:
        >>> Parallel().uploads_s(np.array([0.5, 0.25]))
        0.5
        >>> Parallel().uploads_s(np.array([0.5, 0.25]), np.array([2.0, 3.0]))
        3.25
    """

    name: ClassVar[str] = "parallel"

    def uploads_s(self, upload_s: Times, ready_s: Times | None = None) -> float:
        """The last end of an upload."""
        end_s = upload_s if ready_s is None else ready_s + upload_s
        return float(end_s.max(initial=0.0))

    def _expected(self, upload_s: PerDevice, late_s: PerDevice, probability: PerDevice) -> Expected:
        return expected_last(late_s + upload_s, probability)


@dataclass(frozen=True, kw_only=True)
class AbstractOFDMA(AbstractAccess):
    r"""The band is cut into blocks, and every member has some of them for the whole round.

    On a share s of the band an upload of :math:`\tau` seconds takes :math:`\tau / s` if what it
    sends on a block stays the same. A device that puts its whole power into its share has more of
    it on each block. With :math:`u = \ell / B`, its rate on the whole band is
    :math:`\log_2(1 + \gamma) = u / \tau`, and on the share

    .. math:: \tau(s) = \frac{u}{s \log_2(1 + \gamma / s)} \le \tau / s .

    Of more members than blocks the first to be ready begin, as many as there are blocks, and the
    others follow in the same way.

    Attributes:
        blocks: how many.
        unit_s: u, the seconds of an upload at 1 bit/s/Hz on the whole band; None: a device's rate
            grows with its blocks, no less and no more.
    """

    blocks: int = BLOCKS
    unit_s: float | None = None

    def __post_init__(self) -> None:
        whole_number("blocks", self.blocks)
        if self.unit_s is not None:
            positive_number("unit_s", self.unit_s)

    @abstractmethod
    def split(self, upload_s: Times, ready_s: Times) -> NDArray[np.int64]:
        """The blocks of each of at most as many members as there are blocks; at least one each."""

    def on_share_s(self, upload_s: PerDevice, share: PerDevice | float) -> PerDevice:
        """Seconds of uploads on shares of the band.

        Example:
            >>> OFDMA().on_share_s(np.array([1.0]), 0.25)
            array([4.])
            >>> OFDMA(unit_s=1.0).on_share_s(np.array([1.0]), 0.5).round(4)  # 2 / log2(1 + 2)
            array([1.2619])
        """
        if self.unit_s is None:
            return np.asarray(upload_s / share)
        _, on_share = self._nats(upload_s, share, self.unit_s)
        return np.asarray(math.log(2.0) * self.unit_s / (share * on_share))

    def slope_on_share(self, upload_s: PerDevice, share: PerDevice | float) -> PerDevice:
        r"""Seconds on a share for each second more with the whole band: :math:`\tau(s)' `.

        Example:
            >>> OFDMA().slope_on_share(np.array([1.0]), 0.25)
            array([4.])
        """
        if self.unit_s is None:
            return np.asarray(np.ones_like(upload_s) / share)
        nats, on_share = self._nats(upload_s, share, self.unit_s)
        less = 1.0 - (1.0 - share) * np.exp(-nats)
        return np.asarray((nats / on_share) ** 2 / (share * less))

    @staticmethod
    def _nats(
        upload_s: PerDevice, share: PerDevice | float, unit_s: float
    ) -> tuple[PerDevice, PerDevice]:
        """ln(1 + snr) on the whole band, and on a share of it with the same power."""
        nats = math.log(2.0) * unit_s / upload_s
        # ln(1 + (e^n - 1) / s) without overflow: n + ln(e^-n + (1 - e^-n) / s)
        return nats, nats + np.log1p(-np.expm1(-nats) * (1.0 / share - 1.0))

    def uploads_s(self, upload_s: Times, ready_s: Times | None = None) -> float:
        """The last end, by the blocks that each has."""
        ready_s = np.zeros(len(upload_s)) if ready_s is None else ready_s
        order, end_s = np.argsort(ready_s, kind="stable"), 0.0
        for begin in range(0, len(order), self.blocks):
            turn = order[begin : begin + self.blocks]
            own_s, begun_s = upload_s[turn], np.maximum(ready_s[turn], end_s)
            share = self.split(own_s, begun_s) / self.blocks
            end_s = float((begun_s + self.on_share_s(own_s, share)).max())
        return end_s


@final
@dataclass(frozen=True, kw_only=True)
class EqualOFDMA(AbstractOFDMA):
    """As many blocks for one as for another; those left over go to the longest uploads.

    Example:
        >>> EqualOFDMA(blocks=4).uploads_s(np.array([1.0, 2.0]))
        4.0
    """

    name: ClassVar[str] = "ofdma-equal"

    def split(self, upload_s: Times, ready_s: Times) -> NDArray[np.int64]:
        """The same number, and one more for the longest."""
        del ready_s
        each, over = divmod(self.blocks, len(upload_s))
        count = np.full(len(upload_s), each, dtype=np.int64)
        count[np.argsort(-upload_s, kind="stable")[:over]] += 1
        return count

    def _expected(self, upload_s: PerDevice, late_s: PerDevice, probability: PerDevice) -> Expected:
        return expected_equal_split(
            self.on_share_s, self.slope_on_share, upload_s, late_s, probability
        )


@final
@dataclass(frozen=True, kw_only=True)
class OFDMA(AbstractOFDMA):
    """Blocks so that all finish at about the same time: no split ends sooner.

    A round can end by T if every member ends by T on as few blocks as that takes, and these are
    not more than there are. The least such T is found among the ends on 1, 2, ... blocks.

    Example:
        >>> OFDMA(blocks=3).uploads_s(np.array([1.0, 2.0]))
        3.0
    """

    name: ClassVar[str] = "ofdma"

    def split(self, upload_s: Times, ready_s: Times) -> NDArray[np.int64]:
        """The split that ends first."""
        count = np.arange(1, self.blocks + 1)
        # Ends fall along a row, by the blocks of one member.
        end_s = ready_s[:, None] + self.on_share_s(upload_s[:, None], count / self.blocks)
        candidates = np.unique(end_s)
        low, high = 0, len(candidates) - 1  # the last fits: one block each
        while low < high:
            middle = (low + high) // 2
            least = 1 + (end_s > candidates[middle]).sum(axis=1)
            fits = least.max() <= self.blocks and least.sum() <= self.blocks
            low, high = (low, middle) if fits else (middle + 1, high)
        least = 1 + (end_s > candidates[low]).sum(axis=1)
        return np.asarray(least, dtype=np.int64)

    def _expected(self, upload_s: PerDevice, late_s: PerDevice, probability: PerDevice) -> Expected:
        # Shares that end together are turns, if an upload is as much shorter as its share is small.
        share = 1.0 / max(1.0, float(probability.sum()))
        turns = expected_turns(share * self.on_share_s(upload_s, share), late_s, probability)
        slope = share * self.slope_on_share(upload_s, share)
        return turns._replace(per_second=turns.per_second * slope)


ACCESSES: Mapping[str, type[AbstractAccess]] = MappingProxyType(
    {access.name: access for access in (TDMA, Parallel, OFDMA, EqualOFDMA)}
)


def make_access(name: str, *, blocks: int = BLOCKS, unit_s: float | None = None) -> AbstractAccess:
    """The access of that name; those that have blocks take the other arguments.

    Example:
        >>> make_access("parallel")
        Parallel()
        >>> make_access("ofdma", blocks=25)
        OFDMA(blocks=25, unit_s=None)
    """
    one_of("access", name, ACCESSES)
    kind = ACCESSES[name]
    return kind(blocks=blocks, unit_s=unit_s) if issubclass(kind, AbstractOFDMA) else kind()
