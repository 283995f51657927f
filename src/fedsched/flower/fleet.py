"""The devices behind the nodes: who is who, what was heard of them, and who is given a rest.

Flower's nodes come and go under ids of their own; a device is what owns a queue. A device keeps
its number for the whole run, whatever node speaks for it.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.flower.protocol import Report
from fedsched.values import PerDevice

__all__ = ["NOBODY", "Fleet", "Task"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
_LONGEST_REST = 64  # rounds
NOBODY = 0  # no node has this id
Task: TypeAlias = Literal["answer", "train"]  # what nodes are asked to do


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What a node did not do."""

    failures: int  # in a row
    rests_until: int  # the first round in which it is asked again


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """All devices that were ever heard of, by number, and the nodes that speak for them."""

    name: tuple[str, ...] = ()
    node: tuple[int, ...] = ()  # the last node that spoke for the device, or NOBODY
    gain: PerDevice = field(default_factory=lambda: np.empty(0))  # NaN: cannot send
    heard: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # By node and task: one that answers questions may still be unable to train.
    trouble: Mapping[tuple[int, Task], Trouble] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.name)

    def hear(self, reports: Iterable[tuple[int, Report]]) -> Self:
        """Take reports in, each with its node; devices not heard of before are numbered.

        New ones are numbered in the order of their names, numbers by size, so that the numbering
        does not depend on whose answer came first. A node speaks for one device, the one it named
        last; of two nodes that name the same one, that of the larger id is heard.
        """
        told = sorted(reports, key=lambda each: (_by_number(each[1].device), each[0]))
        place = {name: n for n, name in enumerate(self.name)}
        for _, report in told:
            place.setdefault(report.device, len(place))
        node = [*self.node, *[NOBODY] * (len(place) - len(self))]
        gain = np.concatenate([self.gain, np.full(len(place) - len(self), np.nan)])
        heard = np.concatenate([self.heard, np.full(len(place) - len(self), -1)])
        spoke_for = {speaker: n for n, speaker in enumerate(self.node)}
        for speaker, report in told:
            n = place[report.device]
            if n < len(self) and node[n] != speaker:
                _log.info("node %d now speaks for device %s", speaker, report.device)
            before = spoke_for.get(speaker, n)
            if before != n and node[before] == speaker:
                node[before] = NOBODY
            node[n], gain[n], heard[n] = speaker, report.gain, report.round
        return replace(
            self, name=tuple(place), node=tuple(node), gain=gain, heard=heard.astype(np.int64)
        )

    def miss(self, nodes: Iterable[int], t: int, task: Task) -> Self:
        r"""Nodes did not do a task in round t: after k times in a row a node rests.

        It is left out of the next :math:`2^{k-1} - 1` rounds, at most 64: one lost answer costs
        nothing, and a node that is gone is asked less and less often.
        """
        trouble = dict(self.trouble)
        for node in nodes:
            k = trouble[node, task].failures + 1 if (node, task) in trouble else 1
            rest = min(2 ** min(k - 1, 10) - 1, _LONGEST_REST)
            trouble[node, task] = Trouble(failures=k, rests_until=t + 1 + rest)
        return replace(self, trouble=trouble)

    def met(self, nodes: Iterable[int], task: Task) -> Self:
        """Nodes did a task: what they failed at before is forgotten."""
        done = {(node, task) for node in nodes}
        return replace(self, trouble={k: v for k, v in self.trouble.items() if k not in done})

    def awake(self, online: Iterable[int], t: int) -> list[int]:
        """Nodes that do not rest in round t, by id; all, if there is nobody else to turn to."""
        nodes = sorted(online)
        resting = {node for (node, _), each in self.trouble.items() if t < each.rests_until}
        return [node for node in nodes if node not in resting] or nodes

    def silent(self, nodes: Iterable[int], t: int, max_age_rounds: int) -> list[int]:
        """Nodes to ask for their gain in round t, because none that is new enough is known."""
        fresh = self._fresh(t, max_age_rounds)
        known = {node for node, new in zip(self.node, fresh, strict=True) if new}
        return [node for node in nodes if node not in known]

    def present(self, nodes: Iterable[int], t: int, max_age_rounds: int) -> NDArray[np.int64]:
        """Devices of these nodes that can be chosen in round t, as their gain is known."""
        there = set(nodes)
        fresh = self._fresh(t, max_age_rounds)
        chosen = [n for n, node in enumerate(self.node) if node in there and fresh[n]]
        return np.array(chosen, dtype=np.int64)

    def _fresh(self, t: int, max_age_rounds: int) -> NDArray[np.bool_]:
        """Whose gain is new enough in round t; one of a round to come would be so for ever."""
        age = t - self.heard
        return (age >= 0) & (age <= max_age_rounds)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fleet as arrays, to be saved."""
        of = list(self.trouble)
        return {
            "fleet.name": np.array(self.name, dtype=np.str_),
            "fleet.node": np.array(self.node, dtype=np.uint64),
            "fleet.gain": self.gain,
            "fleet.heard": self.heard,
            "fleet.trouble.node": np.array([node for node, _ in of], dtype=np.uint64),
            "fleet.trouble.task": np.array([task for _, task in of], dtype=np.str_),
            "fleet.trouble.failures": np.array(
                [self.trouble[each].failures for each in of], dtype=np.int64
            ),
            "fleet.trouble.rests_until": np.array(
                [self.trouble[each].rests_until for each in of], dtype=np.int64
            ),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """A fleet that was saved."""
        columns = ("node", "task", "failures", "rests_until")
        rows = zip(*(arrays[f"fleet.trouble.{name}"].tolist() for name in columns), strict=True)
        return cls(
            name=tuple(arrays["fleet.name"].tolist()),
            node=tuple(arrays["fleet.node"].tolist()),
            gain=arrays["fleet.gain"],
            heard=arrays["fleet.heard"],
            trouble={
                (node, task): Trouble(failures=k, rests_until=until)
                for node, task, k, until in rows
            },
        )


def _by_number(name: str) -> tuple[int, int, str]:
    """Names that are numbers first, by size; then the others by letter."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
