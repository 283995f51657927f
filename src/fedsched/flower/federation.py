"""What a federation does on air: its nodes' links, its queues and its cohorts.

Everything the next round depends on is one frozen value; a round takes it and gives the next.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedsched.flower.exchange import Lost, UnusableError, exchange, read_reply
from fedsched.flower.fleet import Fleet
from fedsched.flower.knowledge import AbstractKnowledge
from fedsched.flower.model import Update
from fedsched.flower.paced import Paced
from fedsched.flower.present import grown, merged, part_of, schedule_present
from fedsched.flower.protocol import FEEDBACK_QUERY, RECORD, Records
from fedsched.learning.losses import first_attempts
from fedsched.policies import AbstractPolicy, Need, PolicyState
from fedsched.solve.uplink import AbstractLink
from fedsched.values import Experience, PerDevice, ScheduledRound

__all__ = ["FederationState", "Scheduler"]

_LARGEST_ANSWER = 1e100  # to a policy's question: its square is still a number


@dataclass(frozen=True, kw_only=True, eq=False)
class FederationState:
    """Everything the next round depends on besides the seed and the model."""

    round: int = 0  # the next one, from 0
    fleet: Fleet = field(default_factory=Fleet)
    policy: PolicyState = field(default_factory=dict)
    spent_w: PerDevice = field(default_factory=lambda: np.empty(0))  # sum of P q of each device
    joined: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    overhead_s: float = 0.0  # of a round, beside the exchange with its cohort
    # What became of the attempts of each device, by which the weights of those that lose replies
    # are corrected.
    attempts: Mapping[str, PerDevice] = field(default_factory=lambda: first_attempts(0))

    @property
    def worst_power_w(self) -> float:
        """The largest average power of any device, over the rounds since it joined."""
        rounds = np.maximum(self.round - self.joined, 1)
        return float((self.spent_w / rounds).max(initial=0.0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All but the round and the policy's state, to be saved."""
        return {
            **self.fleet.arrays(),
            "spent_w": self.spent_w,
            "joined": self.joined,
            "overhead_s": np.array(self.overhead_s),
            **self.attempts,
        }

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        *,
        round: int,  # noqa: A002 - the project's word for t
        policy: PolicyState,
    ) -> Self:
        """What was saved; an earlier version did not count attempts."""
        none = first_attempts(len(arrays["joined"]))
        return cls(
            round=round,
            fleet=Fleet.from_arrays(arrays),
            policy=policy,
            spent_w=arrays["spent_w"],
            joined=arrays["joined"],
            overhead_s=float(arrays["overhead_s"]),
            attempts={name: arrays.get(name, zeros) for name, zeros in none.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """Learns of the nodes' links and chooses among them, as a policy decides."""

    policy_of: Callable[[int], AbstractPolicy]  # by how many devices are present
    uplink: AbstractLink
    knowledge: AbstractKnowledge
    seed: int
    query_timeout_s: float  # of a policy's questions
    arrays_key: str = "arrays"  # of the model in a message

    def learn(
        self, state: FederationState, grid: Grid, nodes: list[int], online: list[int]
    ) -> FederationState:
        """What can be known of these nodes before the round; new devices get their place."""
        t, before = state.round, len(state.fleet)
        fleet = self.knowledge.learn(state.fleet, grid, t, nodes, online)
        new = len(fleet) - before
        if not new:
            return replace(state, fleet=fleet)
        return replace(
            state,
            fleet=fleet,
            policy=grown(self.policy_of(len(fleet)), state.policy, before, len(fleet)),
            spent_w=np.concatenate([state.spent_w, np.zeros(new)]),
            joined=np.concatenate([state.joined, np.full(new, t)]).astype(np.int64),
            attempts={
                name: np.concatenate([counts, np.zeros(new)])
                for name, counts in state.attempts.items()
            },
        )

    def _policy(
        self, state: FederationState, present: NDArray[np.int64], share: float
    ) -> AbstractPolicy:
        """The policy for the devices that are present, with what they take if it asks for it."""
        policy = self.policy_of(len(present))
        if not isinstance(policy, Paced):
            return policy
        work_s = state.fleet.pace.known().work_s[present]
        return replace(policy, work_s=work_s, overhead_s=state.overhead_s, share=share)

    def schedule(
        self,
        state: FederationState,
        grid: Grid,
        present: NDArray[np.int64],
        model: ArrayRecord,
        share: float,
    ) -> tuple[ScheduledRound, FederationState]:
        """One round on air among these devices; what each device spends is counted.

        Args:
            state: before the round.
            grid: to ask devices what the policy wants to know.
            present: the devices that can be chosen, ascending.
            model: that they would train.
            share: of those that are there, from whom they were drawn.
        """

        def measure(kind: str, devices: NDArray[np.int64]) -> NDArray[np.float64]:
            return self._feedback(state.fleet, grid, kind, devices, model)

        done, policy = schedule_present(
            policy=self._policy(state, present, share),
            uplink=self.uplink,
            seed=self.seed,
            round=state.round,
            gain=self.knowledge.channel(state.fleet),
            present=present,
            state=state.policy,
            measure=measure,
        )
        done = replace(done, uploads_s=self.knowledge.round_s(state.fleet, done))
        spent_w = state.spent_w + done.decision.expected_power_w
        return done, replace(state, policy=policy, spent_w=spent_w)

    def _feedback(
        self,
        fleet: Fleet,
        grid: Grid,
        kind: str,
        devices: NDArray[np.int64],
        model: ArrayRecord,
    ) -> NDArray[np.float64]:
        """What the policy asked of these devices; NaN for those that did not answer."""
        node_of = {fleet.node[n]: place for place, n in enumerate(devices.tolist())}
        content: Records = {self.arrays_key: model, RECORD: ConfigRecord({"ask": kind})}
        messages = [
            Message(RecordDict(content), node, FEEDBACK_QUERY, ttl=self.query_timeout_s)
            for node in node_of
        ]
        answer = np.full(len(devices), np.nan)
        for reply in (each.reply for each in exchange(grid, messages, self.query_timeout_s)):
            place = node_of.get(reply.metadata.src_node_id)
            value = read_reply(reply, _answer_in)
            if place is not None and not isinstance(value, Lost):
                answer[place] = value
        return answer

    def observe(
        self,
        state: FederationState,
        present: NDArray[np.int64],
        device: NDArray[np.int64],
        losses: Sequence[float],
        updates: Sequence[Update],
        weights: Sequence[float],
        step: float,
    ) -> FederationState:
        """Let a policy that learns from its cohorts learn.

        Args:
            state: after the round.
            present: the devices that could be chosen, ascending.
            device: those whose updates arrived, each with its loss and its update.
            losses: may be NaN; such a device teaches nothing to a policy that learns losses.
            updates: in the same order.
            weights: of the updates in the sum.
            step: the length of the sum.
        """
        policy = self.policy_of(len(present))
        if not len(present):
            return state
        experience = Experience(
            device=np.searchsorted(present, device).astype(np.int64),
            loss=np.array(losses),
            # Nodes report means, so the spread of losses within a node is not known.
            square_loss=np.array(losses) ** 2,
            norm=np.array([each.norm for each in updates]),
            weight=np.array(weights),
            step=step,
            update=np.stack([each.flat() for each in updates])
            if Need.UPDATE in policy.needs and updates
            else None,
        )
        learnt = policy.observe(part_of(policy, state.policy, present), experience)
        return replace(state, policy=merged(policy, state.policy, learnt, present))


def _answer_in(content: RecordDict) -> float:
    """The answer to a policy's question."""
    record = content.get(RECORD)
    value = record.get("value") if isinstance(record, ConfigRecord) else None
    if not (isinstance(value, float) and 0.0 <= value <= _LARGEST_ANSWER):
        raise UnusableError("it holds no number that is an answer")
    return value
