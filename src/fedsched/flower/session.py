"""A run in progress: its model, its devices and the round it is in.

gains -> decision -> cohort -> replies -> weighted sum
"""

import copy
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedsched.errors import FedschedError, InputError
from fedsched.flower.defaults import WEIGHTS
from fedsched.flower.exchange import Came, Lost, read_reply
from fedsched.flower.federation import FederationState
from fedsched.flower.folder import Saved
from fedsched.flower.influence import Influence
from fedsched.flower.metrics import number_in
from fedsched.flower.model import (
    Arrays,
    Update,
    all_finite,
    arrays_of,
    largest_finite,
    record_of,
    update_in,
)
from fedsched.flower.optimiser import ServerOptimiser
from fedsched.flower.pace import taken
from fedsched.flower.protocol import Assignment
from fedsched.flower.settings import Settings
from fedsched.learning.losses import attempts, correction
from fedsched.randomness import stream
from fedsched.values import ScheduledRound, TrainedRound

__all__ = ["Session"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
_TRAIN_LOSS = ("train_loss", "train-loss", "loss")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A round as far as it has come: the schedule, then what the replies made of it."""

    scheduled: ScheduledRound
    present: NDArray[np.int64]
    nodes: tuple[int, ...]  # of the cohort, in its order
    train_loss: float = math.nan
    lost: int = 0  # replies that did not come or could not be used
    contents: tuple[RecordDict, ...] = ()  # of the replies that were used


@dataclass(frozen=True, kw_only=True, eq=False)
class _Brought:
    """What one node of the cohort brought."""

    place: int  # in the cohort
    weight: float
    update: Update
    loss: float
    content: RecordDict


class Session:
    """What a strategy remembers between the calls that Flower makes.

    Args:
        given: the settings.
        initial: the model to begin with.
        seed: of cohorts.
    """

    def __init__(self, given: Settings, initial: ArrayRecord, seed: int) -> None:
        self._given = given
        self._sent: tuple[Arrays, ArrayRecord] | None = None  # a model and its record
        self.set(initial)
        self.uplink = given.uplink_for(self.model)
        self.scheduler = given.scheduler(self.uplink, seed)
        self.state = FederationState()
        # A copy, so that every start begins without moments.
        self.optimiser = (
            None if given.optimiser is None else ServerOptimiser(copy.deepcopy(given.optimiser))
        )
        self.influence = Influence(bounds=given.bounds)
        self.now: Outcome | None = None
        self.came: dict[int, Came] = {}  # replies with their times, by node, if they were timed
        self.took_s: dict[int, float] = {}  # what they took, when they are gone
        self.idle = 0  # tries in a row in which nobody could be asked
        self._warned = False

    def set(self, arrays: ArrayRecord) -> None:
        """Take a model over; one that came from here is not read again."""
        if self._sent is None or self._sent[1] is not arrays:
            self.model = arrays_of(arrays)
            self._sent = (self.model, arrays)

    def record(self) -> ArrayRecord:
        """The model as Flower carries it, made once; from then on it lies there alone."""
        if self._sent is None or self._sent[0] is not self.model:
            self._sent = None  # an old model is not held beside the new one
            record = record_of(self.model)
            self.model = arrays_of(record)
            self._sent = (self.model, record)
        return self._sent[1]

    def restore(self, saved: Saved) -> None:
        """Go on where a run stood."""
        self.model = saved.model
        self.state = FederationState.from_arrays(
            saved.memory, round=saved.round, policy=saved.policy
        )
        self.influence = self.influence.restored(saved.memory)
        if self.optimiser is not None:
            self.optimiser.restore(saved.memory, list(self.model))

    def saved(self) -> Saved:
        """Everything that the next round depends on."""
        moments = {} if self.optimiser is None else self.optimiser.arrays()
        return Saved(
            round=self.state.round,
            model=self.model,
            policy=self.state.policy,
            memory={**self.state.arrays(), **moments, **self.influence.arrays()},
        )

    def trained_round(self, accuracy: float, test_loss: float, wall_s: float) -> TrainedRound:
        """The round as the run log has it, and what it took besides the exchange is noted."""
        assert self.now is not None
        now = self.now
        took_s = [self.took_s.get(node, math.nan) for node in now.nodes]
        longest_s = max((each for each in took_s if each == each), default=0.0)
        _log.info(
            "round %d: took %.1f s, %.1f s of it the exchange, for which %.1f s was planned",
            now.scheduled.round, wall_s, longest_s, now.scheduled.airtime_s,
        )  # fmt: skip
        rest_s = max(wall_s - longest_s, 0.0)
        self.state = replace(self.state, overhead_s=_mixed(self.state, rest_s))
        return TrainedRound(
            scheduled=self.now.scheduled,
            parameters=np.empty(0, dtype=np.float32),
            rejected=self.now.lost,
            train_loss=self.now.train_loss,
            accuracy=accuracy,
            test_loss=test_loss,
            worst_power_w=self.state.worst_power_w,
            wall_s=wall_s,
            took_s=np.array(took_s),
        )

    def let_go(self) -> None:
        """Keep nothing of the replies but what they took: each is as large as the model."""
        self.took_s = {node: taken(each).whole_s for node, each in self.came.items()}
        self.came = {}
        if self.now is not None:
            self.now = replace(self.now, contents=())

    # --- a round --------------------------------------------------------------------------------

    def choose(self, t: int, arrays: ArrayRecord, grid: Grid) -> list[tuple[int, Assignment]]:
        """Learn of links, decide and draw: nodes with their assignments; none if nobody is there.

        A try in which no node can be asked is no round: after too many an error ends the run.
        """
        self.set(arrays)
        self.now, self.came, self.took_s = None, {}, {}
        online = sorted(grid.get_node_ids())
        state = replace(self.state, round=t)
        # Nobody rests while there is nobody else.
        awake = online if self.idle else state.fleet.awake(online, t)
        knowledge = self.scheduler.knowledge
        state = self.scheduler.learn(state, grid, awake, online)
        there = knowledge.present(state.fleet, awake, t)
        present = self._some(t, there)
        if not (knowledge.channel(state.fleet)[present] > 0.0).any():
            self.state = state
            self._nobody(t, len(online))
            return []
        self.idle = 0
        share = len(present) / len(there)
        scheduled, self.state = self.scheduler.schedule(state, grid, present, arrays, share)
        device = scheduled.cohort.device.tolist()
        nodes = tuple(state.fleet.node[n] for n in device)
        self.now = Outcome(scheduled=scheduled, present=present, nodes=nodes)
        _log.info("configure_train: Sampled %d nodes (out of %d)", len(nodes), len(online))
        self._judge_weights(t, float(scheduled.cohort.weight.sum()), len(nodes))
        return [
            (node, self._assignment(scheduled, place, n))
            for place, (n, node) in enumerate(zip(device, nodes, strict=True))
        ]

    def _some(self, t: int, present: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the present devices that are looked at: a share of equal chances, if asked for.

        A policy that sets its cohorts by itself then chooses among these. It is as without bias as
        before: each device has the same chance to be among them.
        """
        size = self._given.subset_of(len(present))
        if size >= len(present):
            return present
        rng = stream(self.scheduler.seed, "subset", t)
        return np.sort(rng.choice(present, size, replace=False))

    def _assignment(self, scheduled: ScheduledRound, place: int, device: int) -> Assignment:
        weight = float(scheduled.cohort.weight[place])
        return Assignment(
            round=scheduled.round,
            device=device,
            power_w=float(scheduled.decision.power_w[device]) if self._given.radio else None,
            airtime_s=float(scheduled.upload_s[place]),
            weight=weight if self._given.tell_weights else None,
        )

    def _nobody(self, t: int, online: int) -> None:
        self.idle += 1
        most = self._given.max_idle_rounds
        why, remedy = self.scheduler.knowledge.nobody(online)
        words = f"round {t}: {why}"
        if self.idle >= most:
            raise FedschedError(f"{words}, {most} times in a row; {remedy}")
        _log.warning("%s; this is no round, and is tried again (%d of %d)", words, self.idle, most)

    def _judge_weights(self, t: int, total: float, size: int) -> None:
        """Say once a run that the step of a round has another length than usual."""
        least, most = WEIGHTS
        if not size or least <= total <= most or self._warned:
            return
        self._warned = True
        _log.warning(
            "round %d: the weights of its %d updates add up to %.2f, which is not within %g to %g; "
            "so long a step may not suit your learning rate. Raise fraction_train or draws, or "
            "leave design and qmin to the defaults.", t, size, total, least, most,
        )  # fmt: skip

    def take(self, server_round: int, replies: Iterable[Message]) -> Outcome | None:
        """Add up what arrived, in the order of the devices; the model stays if nothing did."""
        if self.now is None:
            if self.idle:
                return None
            raise InputError("aggregate_train was called before configure_train")
        now, t = self.now, server_round - 1
        by_node = {reply.metadata.src_node_id: reply for reply in replies}
        brought = self._read(t, now, by_node)
        step = partial(self._after, server_round)
        after, left_out = largest_finite([(b.weight, b.update) for b in brought], step)
        for n in left_out:
            self._tell_lost(t, brought[n].place, "with it the model would not be finite")
        brought = [each for n, each in enumerate(brought) if n not in left_out]
        silent = {node for node in now.nodes if node not in by_node}
        spoke = [node for node in now.nodes if node in by_node]
        told = [by_node[node] for node in spoke if not by_node[node].has_error()]
        knowledge = self.scheduler.knowledge
        promised_s = knowledge.promised_s(self.state.fleet, now.scheduled)
        fleet = knowledge.hear(self.state.fleet, self.came, told, promised_s)
        fleet = fleet.met(spoke, "train").miss(silent, t, "train")
        self.state = replace(self.state, round=t + 1, fleet=fleet)
        tried, arrived = now.scheduled.cohort.device, np.zeros(len(now.nodes), dtype=np.bool_)
        arrived[[each.place for each in brought]] = True
        counts = attempts(self.state.attempts, tried, arrived)
        self.state = replace(self.state, attempts=counts)
        if after is not None:
            self.model, self.optimiser, self.influence = after
        self.state = self.scheduler.observe(
            self.state,
            now.present,
            now.scheduled.cohort.device[[each.place for each in brought]],
            [each.loss for each in brought],
            [each.update for each in brought],
            [each.weight for each in brought],
            math.nan if after is None else self.influence.length,
        )
        terms = [each.weight * each.loss for each in brought]
        self.now = replace(
            now,
            train_loss=sum(terms) if terms else math.nan,
            lost=len(now.nodes) - len(brought),
            contents=tuple(each.content for each in brought),
        )
        return self.now

    def _read(self, t: int, now: Outcome, by_node: dict[int, Message]) -> list[_Brought]:
        """What the nodes of the cohort brought, each with the weight of its update.

        A weight is the design's, times how many attempts of the device it takes until one arrives.
        """
        brought = []
        waits = correction(self.state.attempts, now.scheduled.cohort.device)
        for place, node in enumerate(now.nodes):
            trained = read_reply(by_node.get(node), self._trained_in)
            if isinstance(trained, Lost):
                self._tell_lost(t, place, trained.reason)
                continue
            weight = float(now.scheduled.cohort.weight[place] * waits[place])
            update, loss, content = trained
            brought.append(
                _Brought(place=place, weight=weight, update=update, loss=loss, content=content)
            )
        return brought

    def _trained_in(self, content: RecordDict) -> tuple[Update, float, RecordDict]:
        return update_in(content, self.model), number_in(content, _TRAIN_LOSS), content

    def _after(
        self, server_round: int, weighted: Sequence[tuple[float, Update]]
    ) -> tuple[Arrays, ServerOptimiser | None, Influence] | None:
        """Model, optimiser and bounds after a round; None if a number of theirs is not finite."""
        stepped = self.influence.step(self.model, weighted)
        if stepped is None:
            return None
        target, influence = stepped
        if self.optimiser is None:
            return target, None, influence
        model, optimiser = self.optimiser.step(server_round, self.model, target)
        sound = all_finite(model) and all_finite(optimiser.arrays())
        return (model, optimiser, influence) if sound else None

    def _tell_lost(self, t: int, place: int, reason: str) -> None:
        assert self.now is not None
        device = self.state.fleet.name[int(self.now.scheduled.cohort.device[place])]
        _log.warning("round %d: the update of device %s is lost: %s", t, device, reason)


def _mixed(state: FederationState, rest_s: float) -> float:
    """What a round takes besides its exchange, on average; the first one begins it."""
    return rest_s if state.overhead_s == 0.0 else 0.8 * state.overhead_s + 0.2 * rest_s
