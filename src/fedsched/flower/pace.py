"""What exchanges with nodes take: measured, with no word from the nodes.

The server's clock says when a message went out and when its reply was there. In between the reply
was written, which it says itself: until then the node received the model and worked, and after it
uploaded. The whole is the server's own measurement; a node's clock, if it is wrong or lies, can
move time from one part to the other and no more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedsched.flower.exchange import Came
from fedsched.values import PerDevice

__all__ = ["Pace", "Taken", "taken"]

_LEAST_S = 1e-3  # of a part: shorter ones are below what the clock can tell
_NEWEST = 0.3  # what the newest measurement counts for
_SLACK = 4.0  # times longer than promised is not kept
_PATIENCE = 3.0  # promises in a row that are not kept before a node is believed no more
_JUDGES = 3  # so many promises in a round tell what is usual in it


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What one exchange with a node took, in seconds."""

    work_s: float  # until the reply was written: the download and the computation
    upload_s: float  # from then until it was there
    promised_s: float = math.nan  # of the upload, by the rate or the gain that the node told
    believed: bool = False  # whether that is what counts for the rounds to come

    @property
    def counted_s(self) -> float:
        """What the upload counts for in the rounds to come."""
        return self.promised_s if self.believed else self.upload_s

    @property
    def whole_s(self) -> float:
        """From message to reply."""
        return self.work_s + self.upload_s


def taken(came: Came) -> Taken:
    """What an exchange took. Where a node's clock is off by more than that, all is its upload."""
    whole_s = max(came.came_s - came.sent_s, 2.0 * _LEAST_S)
    work_s = came.reply.metadata.created_at - came.sent_s
    if not 0.0 <= work_s <= whole_s:  # also if it is no number
        work_s = 0.0
    work_s = min(max(work_s, _LEAST_S), whole_s - _LEAST_S)
    return Taken(work_s=work_s, upload_s=whole_s - work_s)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pace:
    """What each device takes: means of logarithms that forget; NaN where nothing was measured.

    ``doubt`` counts promises of a device that were not kept, less those that were.
    """

    work_s: PerDevice = field(default_factory=lambda: np.empty(0))
    upload_s: PerDevice = field(default_factory=lambda: np.empty(0))
    doubt: PerDevice = field(default_factory=lambda: np.empty(0))

    @property
    def doubted(self) -> NDArray[np.bool_]:
        """Which devices are not believed for now."""
        return self.doubt >= _PATIENCE

    def grown(self, devices: int) -> Self:
        """With new devices at the end, of which nothing is known."""
        new = np.full(devices - len(self.work_s), np.nan)
        if not len(new):
            return self
        return type(self)(
            work_s=np.concatenate([self.work_s, new]),
            upload_s=np.concatenate([self.upload_s, new]),
            doubt=np.concatenate([self.doubt, np.zeros(len(new))]),
        )

    def after(self, found: Mapping[int, Taken]) -> Self:
        """With what these devices took now."""
        device = np.fromiter(found, dtype=np.int64)
        return type(self)(
            work_s=_averaged(self.work_s, device, [each.work_s for each in found.values()]),
            upload_s=_averaged(self.upload_s, device, [each.counted_s for each in found.values()]),
            doubt=_doubted(self.doubt, device, list(found.values())),
        )

    def known(self) -> Self:
        """With a guess for those that were never measured: the median of the others, or a second.

        So a new node is tried like a usual one, and what it took is known from then on.
        """
        return replace(self, work_s=_guessed(self.work_s), upload_s=_guessed(self.upload_s))


def _averaged(before: PerDevice, device: np.ndarray[tuple[int], np.dtype[np.int64]],
              now: list[float]) -> PerDevice:  # fmt: skip
    after, old, new = before.copy(), before[device], np.array(now)
    after[device] = np.where(np.isnan(old), new, old ** (1.0 - _NEWEST) * new**_NEWEST)
    return after


def _doubted(doubt: PerDevice, device: NDArray[np.int64], found: list[Taken]) -> PerDevice:
    """Promises are judged beside those of the same round, whatever slowed all of them down.

    The whole exchange counts, as a node's clock can move time from its upload to its work.
    """
    whole_s = np.array([each.whole_s for each in found])
    promised_s = np.array([each.promised_s for each in found])
    judged = np.isfinite(promised_s)
    if judged.sum() < _JUDGES:
        return doubt
    usual_s = max(float(np.median((whole_s - promised_s)[judged])), 0.0)
    broken = whole_s[judged] > _SLACK * (promised_s[judged] + usual_s)
    after, who = doubt.copy(), device[judged]
    after[who] = np.clip(doubt[who] + np.where(broken, 1.0, -1.0), 0.0, 2.0 * _PATIENCE)
    return after


def _guessed(seconds: PerDevice) -> PerDevice:
    unknown = np.isnan(seconds)
    if not unknown.any():
        return seconds
    usual = 1.0 if unknown.all() else float(np.median(seconds[~unknown]))
    return np.where(unknown, usual, seconds)
