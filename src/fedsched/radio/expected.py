r"""The expected length of a round, and what each device does to it, before a cohort is drawn.

Where devices take turns and are ready at once, a device adds its own upload. Elsewhere that depends
on who else takes part: a fast device adds nothing to a round that waits for a slow one. The price
of a device is then the slope of the expected length,

.. math:: \frac{\partial}{\partial q_n} E[T] = E[T(S \cup n) - T(S \setminus n)] ,

for members that take part independently of each other: the expectation is linear in each q. What a
second of its upload is worth is the slope by that upload, divided by q: the probability that a
round with the device waits for it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsched.randomness import stream
from fedsched.values import PerDevice

__all__ = ["Expected", "expected_equal_split", "expected_last", "expected_turns", "likely_cohorts"]

# Cohorts that an expectation looks at: so many, and fewer where a round has many devices.
_MOST_COHORTS, _LEAST_COHORTS, _NUMBERS = 256, 32, 1 << 15

Cohorts = NDArray[np.bool_]  # one a row, one device a column
OnShare = Callable[[PerDevice, PerDevice], PerDevice]  # of an upload and a share of the band


class Expected(NamedTuple):
    """What is expected of a round."""

    mean_s: float  # its length
    added_s: PerDevice  # how much longer it is if the device takes part
    per_second: PerDevice  # how much longer with it, for each second more of its upload


@lru_cache(maxsize=8)
def _luck(devices: int) -> NDArray[np.float64]:
    """Always the same numbers: an expectation is a function of what it is taken of."""
    cohorts = int(np.clip(_NUMBERS // devices, _LEAST_COHORTS, _MOST_COHORTS))
    return stream(0, "cohorts", devices).random((cohorts, devices))


def likely_cohorts(probability: PerDevice) -> Cohorts:
    """Cohorts in which device n takes part with probability q_n, independently of the others."""
    return np.asarray(_luck(len(probability)) < probability)


def expected_last(end_s: PerDevice, probability: PerDevice) -> Expected:
    r"""The last end of an upload: exact.

    With devices in the order of their ends :math:`f_1 \ge f_2 \ge \dots`, the last end is
    :math:`f_n` if n takes part and nobody before it does. So :math:`E = \sum_n f_n q_n
    \prod_{j < n} (1 - q_j)`, and device n adds :math:`\prod_{j < n} (1 - q_j) (f_n - E_n)`, where
    :math:`E_n` is the mean of the last end of those after it. A round waits for it if nobody before
    it takes part.

    Example:
        >>> found = expected_last(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
        >>> found.mean_s, found.added_s.tolist()  # 3 / 2 + 1 / 4; (1 - 1/2) 1, and 3 - 1/2
        (1.75, [0.5, 2.5])
        >>> found.per_second.tolist()
        [0.5, 1.0]
    """
    order = np.argsort(-end_s, kind="stable")
    ends, q = end_s[order], probability[order]
    nobody_before = np.concatenate([[1.0], np.cumprod(1.0 - q)[:-1]])
    after, mean = [0.0] * len(q), 0.0
    for place in range(len(q) - 1, -1, -1):
        after[place] = mean
        mean = float(q[place] * ends[place] + (1.0 - q[place]) * mean)
    added, waits = np.empty(len(q)), np.empty(len(q))
    added[order], waits[order] = nobody_before * (ends - np.array(after)), nobody_before
    return Expected(mean, added, waits)


def expected_turns(upload_s: PerDevice, ready_s: PerDevice, probability: PerDevice) -> Expected:
    """The length of uploads in turn by readiness.

    Over the likely cohorts. With a device each cohort ends at the latest of three: those before it
    in line, delayed by its upload; its own readiness and what is uploaded from then on; those after
    it. If all are ready at once each adds its own upload, and the mean is exact.
    """
    if not ready_s.any():
        return Expected(float((probability * upload_s).sum()), upload_s, np.ones(len(upload_s)))
    order = np.argsort(ready_s, kind="stable")
    own, ready = upload_s[order], ready_s[order]
    member = likely_cohorts(probability)[:, order]
    upload = np.where(member, own, 0.0)
    left = np.cumsum(upload[:, ::-1], axis=1)[:, ::-1]  # to upload from each on
    end = np.where(member, ready + left, -np.inf)
    before = np.full(end.shape, -np.inf)
    before[:, 1:] = np.maximum.accumulate(end, axis=1)[:, :-1]
    after = np.full(end.shape, -np.inf)
    after[:, :-1] = np.maximum.accumulate(end[:, ::-1], axis=1)[:, ::-1][:, 1:]
    others = before - upload
    without = np.maximum(np.maximum(others, after), 0.0)
    alone = ready + (left - upload) + own
    through_it = np.maximum(others + own, alone)
    added, waits = np.empty(len(own)), np.empty(len(own))
    added[order] = (np.maximum(through_it, after) - without).mean(axis=0)
    waits[order] = (through_it >= after).mean(axis=0)
    return Expected(float(end.max(axis=1, initial=0.0).mean()), added, waits)


def expected_equal_split(
    on_share_s: OnShare,
    slope_on_share: OnShare,
    upload_s: PerDevice,
    ready_s: PerDevice,
    probability: PerDevice,
) -> Expected:
    """The last end where k members have 1/k of the band each.

    Over the likely cohorts; blocks count as if they could be cut. One member more makes all the
    others slower.
    """
    member = likely_cohorts(probability)
    size = member.sum(axis=1)
    counts, place = np.unique([size - 1, size, size + 1], return_inverse=True)
    share = 1.0 / np.maximum(counts, 1)[:, None]  # few of them serve all cohorts
    one_less, now, one_more = (ready_s + on_share_s(upload_s, share))[place.reshape(3, -1)]
    last = np.max(now, axis=1, keepdims=True, initial=0.0, where=member)
    last_if_more = np.max(one_more, axis=1, keepdims=True, initial=0.0, where=member)
    joins = np.maximum(last_if_more, one_more) - last
    leaves = last - _last_of_others(np.where(member, one_less, 0.0))
    added = np.where(member, leaves, joins).mean(axis=0)
    others = np.where(member, _last_of_others(np.where(member, now, 0.0)), last_if_more)
    _, with_it, joined = slope_on_share(upload_s, share)[place.reshape(3, -1)]
    slope = np.where(member, with_it, joined)
    waits = np.where(member, now, one_more) >= others
    return Expected(float(last.mean()), added, (waits * slope).mean(axis=0))


def _last_of_others(end: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each place of a row the largest of the others."""
    if end.shape[1] == 1:
        return np.zeros(end.shape)
    second, first = np.partition(end, -2, axis=1)[:, -2:].T
    largest = end.argmax(axis=1)
    others = np.repeat(first[:, None], end.shape[1], axis=1)
    others[np.arange(len(end)), largest] = second
    return others
