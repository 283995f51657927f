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

from fedsched.flower.pace import Pace, Taken
from fedsched.flower.protocol import Report
from fedsched.values import PerDevice

__all__ = ["NOBODY", "Fleet", "Task"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
_LONGEST_REST = 64  # rounds
NOBODY = 0  # no node has this id
Task: TypeAlias = Literal["answer", "train"]  # what nodes are asked to do


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What a node did not reply to."""

    silences: float  # less half of one for every reply since
    rests_until: int  # the first round in which it is asked again


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """All devices that were ever heard of, by number, and the nodes that speak for them."""

    name: tuple[str, ...] = ()
    node: tuple[int, ...] = ()  # the last node that spoke for the device, or NOBODY
    gain: PerDevice = field(default_factory=lambda: np.empty(0))  # NaN: cannot send
    heard: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    pace: Pace = field(default_factory=Pace)  # what it took, as far as that was measured
    # By node and task: one that answers questions may still not come back from training.
    trouble: Mapping[tuple[int, Task], Trouble] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.name)

    def hear(self, reports: Iterable[tuple[int, Report]], online: Iterable[int]) -> Self:
        """Take reports in, each with its node; devices not heard of before are numbered.

        A name belongs to the node that gave it first, for as long as that node is online: another
        one that claims it is not heard. A node keeps the first name it gave. So nobody speaks for
        others, and nobody is many.

        New devices are numbered in the order of their names, numbers by size, so that the
        numbering does not depend on whose answer came first.

        Args:
            reports: each with the node that sent it, which Flower vouches for.
            online: nodes that are there.
        """
        there = set(online)
        place = {name: n for n, name in enumerate(self.name)}
        node, gain, heard = list(self.node), self.gain.tolist(), self.heard.tolist()
        device_of = {speaker: n for n, speaker in enumerate(node) if speaker != NOBODY}
        for speaker, report in sorted(
            reports, key=lambda each: (_by_number(each[1].device), each[0])
        ):
            n, own = place.get(report.device), device_of.get(speaker)
            holder = NOBODY if n is None else node[n]
            if own is not None and own != n:
                _refuse(speaker, report.device, f"it is device {list(place)[own]}")
                continue
            if holder not in (NOBODY, speaker) and holder in there:
                _refuse(speaker, report.device, f"node {holder} is that device, and is online")
                continue
            if n is None:
                n = place[report.device] = len(place)
                node.append(NOBODY)
                gain.append(np.nan)
                heard.append(-1)
            if node[n] not in (NOBODY, speaker):
                _log.info("node %d now speaks for device %s", speaker, report.device)
            node[n], gain[n], heard[n] = speaker, report.gain, report.round
            device_of[speaker] = n
        return replace(
            self,
            name=tuple(place),
            node=tuple(node),
            gain=np.array(gain, dtype=np.float64),
            heard=np.array(heard, dtype=np.int64),
            pace=self.pace.grown(len(place)),
        )

    def timed(self, taken: Mapping[int, Taken]) -> Self:
        """Take in what an exchange took, by node."""
        device_of = {node: n for n, node in enumerate(self.node) if node in taken}
        found = {n: taken[node] for node, n in device_of.items()}
        return replace(self, pace=self.pace.after(found)) if found else self

    def doubted(self) -> set[int]:
        """Nodes whose word is not taken for now."""
        known = zip(self.node, self.pace.doubted, strict=True)
        return {node for node, doubted in known if doubted}

    def miss(self, nodes: Iterable[int], t: int, task: Task) -> Self:
        r"""Nodes were silent in round t: one that is silent k times more than usual rests.

        It is left out of the next :math:`2^{k-1} - 1` rounds, at most 64: one lost answer costs
        nothing, and a node that is gone is asked less and less often. Whoever replies, and be it
        with an error, is not silent.
        """
        trouble = dict(self.trouble)
        for node in nodes:
            k = trouble[node, task].silences + 1.0 if (node, task) in trouble else 1.0
            rest = min(2 ** min(int(k) - 1, 10) - 1, _LONGEST_REST)
            trouble[node, task] = Trouble(silences=k, rests_until=t + 1 + rest)
        return replace(self, trouble=trouble)

    def met(self, nodes: Iterable[int], task: Task) -> Self:
        """Nodes replied: half of a silence is forgotten, so that every second one still counts."""
        if not self.trouble:
            return self
        trouble = dict(self.trouble)
        for node in nodes:
            before = trouble.pop((node, task), None)
            if before is not None and before.silences > 0.5:
                trouble[node, task] = replace(before, silences=before.silences - 0.5)
        return replace(self, trouble=trouble)

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
            "fleet.work_s": self.pace.work_s,
            "fleet.upload_s": self.pace.upload_s,
            "fleet.doubt": self.pace.doubt,
            "fleet.trouble.node": np.array([node for node, _ in of], dtype=np.uint64),
            "fleet.trouble.task": np.array([task for _, task in of], dtype=np.str_),
            "fleet.trouble.silences": np.array(
                [self.trouble[each].silences for each in of], dtype=np.float64
            ),
            "fleet.trouble.rests_until": np.array(
                [self.trouble[each].rests_until for each in of], dtype=np.int64
            ),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """A fleet that was saved."""
        columns = ("node", "task", "silences", "rests_until")
        rows = zip(*(arrays[f"fleet.trouble.{name}"].tolist() for name in columns), strict=True)
        return cls(
            name=tuple(arrays["fleet.name"].tolist()),
            node=tuple(arrays["fleet.node"].tolist()),
            gain=arrays["fleet.gain"],
            heard=arrays["fleet.heard"],
            pace=Pace(
                work_s=arrays["fleet.work_s"],
                upload_s=arrays["fleet.upload_s"],
                # An earlier version believed everybody.
                doubt=arrays.get("fleet.doubt", np.zeros(len(arrays["fleet.work_s"]))),
            ),
            trouble={
                (node, task): Trouble(silences=k, rests_until=until)
                for node, task, k, until in rows
            },
        )


def _refuse(node: int, device: str, why: str) -> None:
    _log.warning("node %d is not heard as device %s: %s", node, device, why)


def _by_number(name: str) -> tuple[int, int, str]:
    """Names that are numbers first, by size; then the others by letter."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
