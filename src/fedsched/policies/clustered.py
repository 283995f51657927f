"""Clustered sampling (Fraboni et al.): one draw from each of m distributions over the devices."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.policies.base import Need, PolicyState
from fedsched.policies.choice import (
    AbstractTossedPolicy,
    Choice,
    Context,
    generator,
)
from fedsched.policies.ward import ward_groups
from fedsched.values import Experience, PerDevice

__all__ = ["Clustered", "pour", "similarity_bins", "size_bins"]

Units = NDArray[np.int64]

_FINE = 2**32  # units of all data where shares are not equal
_STEPS = 2.0**26  # of a unit vector's entries


def units_of(share: PerDevice) -> Units:
    """Whole numbers in proportion to the shares: 1 each if all are equal."""
    if np.all(share == share[0]):
        return np.ones(len(share), dtype=np.int64)
    fine: Units = np.maximum(np.rint(share / share.sum() * _FINE), 1.0).astype(np.int64)
    return fine


def pour(bins: Units, amounts: list[tuple[int, int]]) -> Units:
    """Pour (device, units) in turn into bins of equal capacity, from the first with room.

    ``bins`` has shape (m, devices) and holds what is already there. Whole numbers throughout, so
    that the last unit finds its place.
    """
    bins = bins.copy()
    total = int(bins.sum()) + sum(units for _, units in amounts)
    capacity, rest = divmod(total, len(bins))
    if rest:
        raise ValueError(f"{total} units do not fill {len(bins)} bins evenly")
    room = [capacity - int(held) for held in bins.sum(axis=1)]
    k = 0
    for device, given in amounts:
        left = given
        while left > 0:
            while room[k] == 0:
                k += 1
            part = min(left, room[k])
            bins[k, device] += part
            room[k] -= part
            left -= part
    return bins


def size_bins(units: Units, draws: int) -> Units:
    """Algorithm 1: m times each device's units, largest first, into m bins of all units.

    Row k over its sum is the distribution of draw k; each device's entries add up to m times its
    units, so that the mean over draws is unbiased.

    Example:
        >>> size_bins(np.array([2, 1, 1]), 2).tolist()
        [[4, 0, 0], [0, 2, 2]]
    """
    order = np.argsort(-units, kind="stable")
    amounts = [(int(device), draws * int(units[device])) for device in order]
    return pour(np.zeros((draws, len(units)), dtype=np.int64), amounts)


def similarity_bins(
    update: NDArray[np.float32], units: Units, draws: int, order: NDArray[np.int64]
) -> Units:
    """Algorithm 2: each of the m largest groups of similar devices has a bin; the rest fill up.

    Args:
        update: the last update of each device, zero if there is none, shape (devices, d).
        units: whole numbers in proportion to the data.
        draws: m.
        order: the devices in random order, in which the rest is poured.
    """
    total = int(units.sum())
    groups = ward_groups(_angles(update), draws * units, total)
    groups.sort(key=lambda group: (-int(units[group].sum()), group[0]))
    bins = np.zeros((draws, len(units)), dtype=np.int64)
    rest = draws * units
    for k, group in enumerate(groups[:draws]):
        for device in group:
            part = min(int(rest[device]), total - int(bins[k].sum()))
            bins[k, device] += part
            rest[device] -= part
    return pour(bins, [(int(n), int(rest[n])) for n in order if rest[n] > 0])


def _angles(update: NDArray[np.float32]) -> NDArray[np.float64]:
    """Angles between updates; one without an update is at right angles to all others."""
    rows = update.astype(np.float64)
    length = np.linalg.norm(rows, axis=1)
    unknown = length == 0.0
    # In whole units of 2^-26, finer than what float32 resolves of a length of 1. No sum of
    # products then exceeds 2^53, so all are exact: how many threads add them up, and in which
    # order, does not change a bit, nor with that a cohort.
    rows /= np.where(unknown, 1.0, length)[:, None]
    rows *= _STEPS
    np.rint(rows, out=rows)
    inner = rows @ rows.T
    own = np.where(unknown, 1.0, np.diagonal(inner))
    angle = np.arccos(np.clip(inner / np.sqrt(np.outer(own, own)), -1.0, 1.0))
    angle[np.ix_(unknown, unknown)] = 0.0
    return np.asarray(angle)


@final
@dataclass(frozen=True, kw_only=True)
class Clustered(AbstractTossedPolicy):
    """One draw from each of m clusters, by data sizes (1) or by similarity of updates (2).

    Every draw counts 1 / m. Unbiased, with less variance than m draws from all devices.

    Attributes:
        similar: Algorithm 2, which keeps the last update of every device.
    """

    similar: bool = False

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """Updates seen before, for Algorithm 2."""
        return frozenset({Need.STALE, Need.UPDATE}) if self.similar else frozenset()

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "clustered-similarity" if self.similar else "clustered-sizes"

    def start(self, devices: int) -> PolicyState:
        """No update is known; their length is that of the first."""
        return {"update": np.zeros((devices, 0))} if self.similar else {}

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """Keep the updates of the cohort."""
        if not self.similar or experience.update is None:
            return state
        old = state["update"]
        new = np.zeros((len(old), experience.update.shape[1]), np.float32)
        if old.shape[1]:
            new[:] = old
        new[experience.device] = experience.update
        return {**state, "update": new}  # type: ignore[dict-item]

    def choose(self, context: Context) -> Choice:
        """A draw a bin, among those in reach."""
        reach = context.reach
        units, draws = units_of(context.share[reach]), self.draws
        rng = generator(context.chance)
        if self.similar and context.state["update"].shape[1]:
            update = context.state["update"][reach].astype(np.float32)
            bins = similarity_bins(update, units, draws, rng.permutation(len(reach)))
        else:
            bins = size_bins(units, draws)
        row = bins / bins.sum(axis=1, keepdims=True)
        edges = np.cumsum(row, axis=1)
        luck = rng.random(draws)
        drawn = [
            int(np.searchsorted(edge, u * edge[-1], side="right"))
            for edge, u in zip(edges, luck, strict=True)
        ]
        place, counts = np.unique(drawn, return_counts=True)
        q = np.zeros(len(context.gain))
        q[reach] = 1.0 - np.prod(1.0 - row, axis=0)
        whole = float(context.share[reach].sum())
        return Choice(
            device=reach[place].astype(np.int64), weight=whole * counts / draws, probability=q
        )
