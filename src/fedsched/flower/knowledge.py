"""Where the strategy knows its nodes' links from: their own reports, or what exchanges took.

Reported    nodes tell their gain, with replies or when they are asked
Measured    nobody is asked anything: rates follow from the seconds of earlier exchanges
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedsched.flower.exchange import Came, Lost, exchange, read_reply
from fedsched.flower.fleet import Fleet
from fedsched.flower.pace import Taken, taken
from fedsched.flower.protocol import CHANNEL_QUERY, RECORD, Report
from fedsched.radio.access import TDMA, AbstractAccess, Parallel
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice, ScheduledRound

__all__ = ["AbstractKnowledge", "Measured", "Reported"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines


@dataclass(frozen=True, kw_only=True)
class AbstractKnowledge(ABC):
    """How links become known.

    Attributes:
        registered: the devices of nodes by the nodes' ids, whatever they say.
    """

    registered: Mapping[int, str] | None = None

    access: ClassVar[AbstractAccess]  # how the nodes share what they are connected by

    @abstractmethod
    def learn(self, fleet: Fleet, grid: Grid, t: int, nodes: list[int], online: list[int]) -> Fleet:
        """What can be known before round t; nodes that are not known yet become devices."""

    @abstractmethod
    def present(self, fleet: Fleet, nodes: Iterable[int], t: int) -> NDArray[np.int64]:
        """Devices of these nodes that can be chosen in round t."""

    @abstractmethod
    def channel(self, fleet: Fleet) -> PerDevice:
        """What the policy sees of each device: a gain, or a rate in bit/s."""

    @abstractmethod
    def hear(
        self,
        fleet: Fleet,
        came: Mapping[int, Came],
        told: Iterable[Message],
        promised_s: Mapping[int, float],
    ) -> Fleet:
        """What the train replies of the nodes that were asked teach.

        Args:
            fleet: before.
            came: the replies with their times, by node, where these were measured.
            told: the replies that are no errors.
            promised_s: by node that was asked, what its upload takes if what it told is true.
        """

    def promised_s(self, fleet: Fleet, done: ScheduledRound) -> Mapping[int, float]:
        """What the uploads of a cohort take if what their nodes told is true; NaN: they did not."""
        return {fleet.node[n]: np.nan for n in done.cohort.device.tolist()}

    def round_s(self, fleet: Fleet, done: ScheduledRound) -> float:
        """What the exchange with a cohort is planned to take."""
        del fleet
        return done.uploads_s

    @abstractmethod
    def nobody(self, nodes: int) -> tuple[str, str]:
        """Why nobody can be chosen among so many nodes, and what to do about it."""

    def _admitted(self, nodes: Iterable[int]) -> list[int]:
        known = self.registered
        return [node for node in nodes if known is None or node in known]


@final
@dataclass(frozen=True, kw_only=True)
class Reported(AbstractKnowledge):
    """Nodes tell the gain of their channel: a ChannelClientApp does.

    Attributes:
        link: by which a gain is a promise of how long an upload takes.
        max_age_rounds: of a gain that is not asked for anew.
        query_timeout_s: how long to wait for answers.
    """

    link: Uplink
    max_age_rounds: int = 0
    query_timeout_s: float = 30.0

    access: ClassVar[AbstractAccess] = TDMA()

    def learn(self, fleet: Fleet, grid: Grid, t: int, nodes: list[int], online: list[int]) -> Fleet:
        """Ask those of the nodes whose gain is too old."""
        ask = fleet.silent(self._admitted(nodes), t, self.max_age_rounds)
        question = RecordDict({RECORD: ConfigRecord({"round": t})})
        messages = [
            Message(question, node, CHANNEL_QUERY, ttl=self.query_timeout_s) for node in ask
        ]
        replies = [each.reply for each in exchange(grid, messages, self.query_timeout_s)]
        spoke = {reply.metadata.src_node_id for reply in replies} & set(ask)
        fleet = fleet.hear(self._reports_in(replies, ask), online)
        return fleet.met(spoke, "answer").miss(set(ask) - spoke, t, "answer")

    def present(self, fleet: Fleet, nodes: Iterable[int], t: int) -> NDArray[np.int64]:
        """Those whose gain is known and new enough."""
        return fleet.present(nodes, t, self.max_age_rounds)

    def channel(self, fleet: Fleet) -> PerDevice:
        """The gains; of a device that is doubted, no better than what its exchanges take."""
        doubted, pace, link = fleet.pace.doubted, fleet.pace, self.link
        if not doubted.any():
            return fleet.gain
        rate = link.bits / (pace.work_s + pace.upload_s)[doubted]
        gain = fleet.gain.copy()
        achieved = np.expm1(np.log(2.0) * rate / link.bandwidth_hz) * link.noise_w
        gain[doubted] = np.minimum(gain[doubted], achieved / link.max_power_w)
        return gain

    def promised_s(self, fleet: Fleet, done: ScheduledRound) -> Mapping[int, float]:
        """By the gain that each has told, at the power that it was given."""
        device = done.cohort.device
        seconds = self.link.airtime_s(fleet.gain[device], done.decision.power_w[device])
        return {fleet.node[n]: s for n, s in zip(device.tolist(), seconds.tolist(), strict=True)}

    def hear(
        self,
        fleet: Fleet,
        came: Mapping[int, Came],
        told: Iterable[Message],
        promised_s: Mapping[int, float],
    ) -> Fleet:
        """Gains for the next round; what exchanges took is noted too."""
        fleet = fleet.hear(self._reports_in(told, promised_s), promised_s)
        return fleet.timed({
            node: replace(taken(each), promised_s=promised_s.get(node, np.nan))
            for node, each in came.items()
        })  # fmt: skip

    def nobody(self, nodes: int) -> tuple[str, str]:
        """No gain came."""
        return (
            f"none of {nodes} nodes has told a gain that it can send with, within "
            f"{self.query_timeout_s:g} s",
            "see that the client app is a ChannelClientApp and that its gain function answers, or "
            "raise query_timeout_s or max_idle_rounds",
        )

    def _reports_in(
        self, replies: Iterable[Message], asked: Iterable[int]
    ) -> list[tuple[int, Report]]:
        """The reports in the replies of nodes that were asked, each with its node."""
        found, expected = [], set(asked)
        for reply in replies:
            node = reply.metadata.src_node_id
            report = read_reply(reply, Report.read)
            if isinstance(report, Lost):
                _log.warning("node %d did not tell its gain: %s", node, report.reason)
            elif node in expected:
                known = self.registered or {}
                found.append((node, replace(report, device=known.get(node, report.device))))
        return found


@final
@dataclass(frozen=True, kw_only=True)
class Measured(AbstractKnowledge):
    """Rates follow from what exchanges took: the client app is any, and is asked nothing.

    A device is a node, by its id or its registered name. A node that reports its rate is believed,
    unless its exchanges take far longer.

    Attributes:
        bits: of an update.
    """

    bits: float

    access: ClassVar[AbstractAccess] = Parallel()

    def learn(self, fleet: Fleet, grid: Grid, t: int, nodes: list[int], online: list[int]) -> Fleet:
        """Nobody is asked; nodes that are new get a place."""
        del grid
        there = set(fleet.node)
        names = self.registered or {}
        new = [
            (node, Report(device=names.get(node, str(node)), round=t, gain=np.nan))
            for node in self._admitted(nodes)
            if node not in there
        ]
        return fleet.hear(new, online) if new else fleet

    def present(self, fleet: Fleet, nodes: Iterable[int], t: int) -> NDArray[np.int64]:
        """All of them."""
        del t
        there = set(self._admitted(nodes))
        return np.array([n for n, node in enumerate(fleet.node) if node in there], dtype=np.int64)

    def channel(self, fleet: Fleet) -> PerDevice:
        """The rates of uploads, in bit/s."""
        return self.bits / fleet.pace.known().upload_s

    def hear(
        self,
        fleet: Fleet,
        came: Mapping[int, Came],
        told: Iterable[Message],
        promised_s: Mapping[int, float],
    ) -> Fleet:
        """What each exchange took."""
        doubted = fleet.doubted()
        times = {
            node: self._taken(came[node], node not in doubted)
            for node in (reply.metadata.src_node_id for reply in told)
            if node in promised_s and node in came
        }
        return fleet.timed(times)

    def round_s(self, fleet: Fleet, done: ScheduledRound) -> float:
        """What the slowest member is planned to take, its work and its upload."""
        work_s = fleet.pace.known().work_s[done.cohort.device]
        return float((work_s + done.upload_s).max(initial=0.0))

    def _taken(self, came: Came, believed: bool) -> Taken:
        found, told = taken(came), read_reply(came.reply, Report.read)
        if isinstance(told, Lost) or not told.rate > 0.0:
            return found
        return replace(found, promised_s=self.bits / told.rate, believed=believed)

    def nobody(self, nodes: int) -> tuple[str, str]:
        """Nobody is registered."""
        return (
            f"none of {nodes} nodes is one of those that are registered",
            "see that registered has the ids of the nodes that connect",
        )
