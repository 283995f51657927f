"""The server's side: a Flower strategy whose cohorts and weights come from a fedsched policy.

gains -> decision -> cohort -> messages -> replies -> weighted sum -> run log and checkpoint
"""

import copy
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.flower.defaults import WEIGHTS
from fedsched.flower.exchange import Lost, exchange, read_reply
from fedsched.flower.federation import FederationState, Scheduler
from fedsched.flower.folder import RunFolder
from fedsched.flower.metrics import mean_metrics, metrics_in, number_in
from fedsched.flower.model import (
    Arrays,
    Update,
    all_finite,
    arrays_of,
    largest_finite,
    moved,
    record_of,
    update_in,
)
from fedsched.flower.optimiser import ServerOptimiser
from fedsched.flower.protocol import RECORD, Assignment, Records, Report
from fedsched.flower.settings import Settings
from fedsched.policies import AbstractPolicy
from fedsched.randomness import stream
from fedsched.solve.uplink import Uplink
from fedsched.values import ScheduledRound, TrainedRound

__all__ = ["ChannelStrategy"]

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
_POLL_S = 1.0
_TRAIN_LOSS = ("train_loss", "train-loss", "loss")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Outcome:
    """A round as far as it has come: the schedule, then what the replies made of it."""

    scheduled: ScheduledRound
    present: NDArray[np.int64]
    nodes: tuple[int, ...]  # of the cohort, in its order
    train_loss: float = math.nan
    lost: int = 0  # replies that did not come or could not be used


@final
class ChannelStrategy(Strategy):
    r"""Chooses nodes by their channel, within each device's power budget, without bias.

    Each round the nodes' gains g are learnt, the policy decides probabilities and powers, a cohort
    is drawn, and the model moves by

    .. math:: x \leftarrow x + \sum_{n \in \text{cohort}} w_n (y_n - x), \quad w_n = 1 / (N q_n),

    in the order of the devices' numbers, never renormalised. N counts the devices present in the
    round, so the model follows the average over those. A reply that is lost keeps its price in the
    power queue and brings no update: with loss probability :math:`l_n` device n counts for
    :math:`1 - l_n` of its share. This is not corrected; the log counts the lost replies.

    Queues, gains, round, model and optimiser are saved in ``folder`` after every round, and a
    strategy that is started again on it goes on there. The folder is a run folder of fedsched: show
    it with ``fedsched report``.

    Args:
        policy: a name that ``fedsched policies`` lists, or a policy of your own.
        folder: the run folder. Give the whole path where the server app runs in another place.
        seed: of cohorts; the same seed and the same gains give the same cohorts.
        fraction_train: share of the present nodes that train in a round, of a policy by name; 0.8
            unless ``draws`` says how many.
        draws: m, so many devices a round in place of a share, of a policy by name.
        uplink: the shared link; by default the paper's, with 32 bits for each number of the model.
        budget_w: average transmit power of each device, of a policy by name.
        options: other settings of a policy by name, such as ``{"lam": 10.0, "v": 100.0}``.
        optimiser: a FedAdam, FedYogi, FedAdagrad or FedAvgM of Flower's that takes the step.
        min_nodes: how many nodes to wait for at a start; later a round waits while nobody is there.
        max_age_rounds: a gain older than this is asked for anew. 0 asks everybody who did not train
            in the round before; a larger number saves waiting where channels change slowly.
        query_timeout_s: how long to wait for answers to questions about gains.
        fraction_evaluate: share of the present nodes that evaluate the model after a round.
        accuracy, loss: metrics of an evaluation that the run log takes for test accuracy and loss.
    """

    def __init__(
        self,
        policy: str | AbstractPolicy = "lyapunov",
        *,
        folder: str | Path,
        seed: int = 1,
        draws: int | None = None,
        fraction_train: float | None = None,
        uplink: Uplink | None = None,
        budget_w: float = 1.0,
        options: Mapping[str, Any] | None = None,
        optimiser: FedAvg | None = None,
        min_nodes: int = 2,
        max_age_rounds: int = 0,
        query_timeout_s: float = 30.0,
        fraction_evaluate: float = 0.0,
        accuracy: str | None = None,
        loss: str | None = None,
    ) -> None:
        self._settings = Settings(
            policy=policy, folder=Path(folder), seed=seed, draws=draws,
            fraction_train=fraction_train, uplink=uplink,
            budget_w=budget_w, options=dict(options or {}), optimiser=optimiser,
            min_nodes=min_nodes, max_age_rounds=max_age_rounds, query_timeout_s=query_timeout_s,
            fraction_evaluate=fraction_evaluate, accuracy=accuracy, loss=loss,
        )  # fmt: skip
        self._optimiser = None if optimiser is None else ServerOptimiser(optimiser)
        self._timeout_s = 3600.0
        self._state = FederationState()
        self._model: Arrays = {}
        self._now: _Outcome | None = None
        self._warned = False

    # --- the run -------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run until ``num_rounds`` rounds are done, those of an earlier start included.

        Args:
            grid: of the server app.
            initial_arrays: the model to begin with; one that was saved takes its place.
            num_rounds: rounds in all.
            timeout: seconds to wait for the replies of a cohort.
            train_config: for the train messages, beside the assignment of each node.
            evaluate_config: for the evaluate messages.
            evaluate_fn: evaluates the model at the server; also called with round 0 at the start.
        """
        self._timeout_s = timeout
        self._state, self._now, self._warned = FederationState(), None, False
        given = self._settings
        if given.optimiser is not None:  # a copy, so that every start begins without moments
            self._optimiser = ServerOptimiser(copy.deepcopy(given.optimiser))
        self._model = arrays_of(initial_arrays)
        uplink = given.uplink_for(self._model)
        self._scheduler = Scheduler(
            policy_of=lru_cache(maxsize=16)(partial(given.make_policy, uplink)),
            uplink=uplink,
            seed=given.seed,
            max_age_rounds=given.max_age_rounds,
            query_timeout_s=given.query_timeout_s,
        )
        about = {
            "update_bits": uplink.bits,
            "model": [[name, *each.shape] for name, each in self._model.items()],
        }
        self.summary()
        result = Result()
        with RunFolder(given.folder, given.scenario(uplink, num_rounds), about) as folder:
            self._restore(folder)
            if self._state.round == 0 and evaluate_fn is not None:
                first = evaluate_fn(0, record_of(self._model))
                if first is not None:
                    result.evaluate_metrics_serverapp[0] = first
            least = given.min_nodes
            while self._state.round < num_rounds:
                self._wait_for_nodes(grid, least)
                least = 1
                self._round(
                    grid, folder, result, train_config or ConfigRecord(),
                    evaluate_config or ConfigRecord(), evaluate_fn,
                )  # fmt: skip
            folder.finish(self._model)
        result.arrays = record_of(self._model)
        return result

    def _round(
        self,
        grid: Grid,
        folder: RunFolder,
        result: Result,
        train_config: ConfigRecord,
        evaluate_config: ConfigRecord,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None,
    ) -> None:
        server_round = self._state.round + 1  # Flower counts from 1
        before = record_of(self._model)
        messages = self.configure_train(server_round, before, train_config, grid)
        replies = exchange(grid, messages, self._timeout_s)
        _, trained = self.aggregate_train(server_round, replies)
        record = record_of(self._model)
        if trained is not None:
            result.train_metrics_clientapp[server_round] = trained
        measured = None
        asked = self.configure_evaluate(server_round, record, evaluate_config, grid)
        if asked:
            measured = self.aggregate_evaluate(server_round, exchange(grid, asked, self._timeout_s))
            if measured is not None:
                result.evaluate_metrics_clientapp[server_round] = measured
        if evaluate_fn is not None:
            central = evaluate_fn(server_round, record)
            if central is not None:
                result.evaluate_metrics_serverapp[server_round] = measured = central
        self._write(folder, measured)

    def _wait_for_nodes(self, grid: Grid, least: int) -> None:
        while (there := len(list(grid.get_node_ids()))) < least:
            _log.info("waiting for nodes: %d of %d are there", there, least)
            time.sleep(_POLL_S)

    def _write(self, folder: RunFolder, measured: MetricRecord | None) -> None:
        """The log row of the round and the state after it."""
        now = self._now
        assert now is not None
        metrics = RecordDict({} if measured is None else {"metrics": measured})
        state = self._state
        folder.add(
            TrainedRound(
                scheduled=now.scheduled,
                parameters=np.empty(0, dtype=np.float32),
                rejected=now.lost,
                train_loss=now.train_loss,
                accuracy=number_in(metrics, self._settings.accuracy_names),
                test_loss=number_in(metrics, self._settings.loss_names),
                worst_power_w=state.worst_power_w,
            ),
            {
                **state.arrays(),
                **({} if self._optimiser is None else self._optimiser.arrays()),
            },
            state.policy,
            self._model,
        )
        self._now = None

    def _restore(self, folder: RunFolder) -> None:
        saved = folder.restored(self._model)
        if saved is None:
            return
        self._model = saved.model
        self._state = FederationState.from_arrays(
            saved.memory, round=saved.round, policy=saved.policy
        )
        if self._optimiser is not None:
            self._optimiser.restore(saved.memory, list(self._model))
        _log.info("going on after round %d of %s", saved.round, self._settings.folder)

    # --- training ------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Learn the gains, decide, draw, and write to the nodes that take part."""
        self._model = arrays_of(arrays)
        t = server_round - 1
        online = list(grid.get_node_ids())
        state = replace(self._state, round=t)
        awake = state.fleet.awake(online, t)
        state = self._scheduler.learn_gains(state, grid, awake)
        present = state.fleet.present(awake, t, self._settings.max_age_rounds)
        scheduled, self._state = self._scheduler.schedule(state, grid, present, arrays)
        device = scheduled.cohort.device
        nodes = tuple(state.fleet.node[n] for n in device)
        self._now = _Outcome(scheduled=scheduled, present=present, nodes=nodes)
        _log.info("round %d: %d of %d nodes take part", t, len(nodes), len(online))
        self._judge_weights(t, float(scheduled.cohort.weight.sum()), len(nodes))
        messages = []
        for place, (n, node) in enumerate(zip(device.tolist(), nodes, strict=True)):
            assignment = Assignment(
                round=t,
                device=n,
                power_w=float(scheduled.decision.power_w[n]),
                airtime_s=float(scheduled.upload_s[place]),
                weight=float(scheduled.cohort.weight[place]),
            )
            content = RecordDict(
                {
                    "arrays": arrays,
                    "config": ConfigRecord({**config, "server-round": server_round}),
                    RECORD: assignment.record(),
                }
            )
            messages.append(Message(content, node, MessageType.TRAIN, ttl=self._timeout_s))
        return messages

    def _judge_weights(self, t: int, total: float, size: int) -> None:
        """Say once a run that the step of a round has another length than usual."""
        least, most = WEIGHTS
        if not size or least <= total <= most or self._warned:
            return
        self._warned = True
        _log.warning(
            "round %d: the weights of its %d updates add up to %.2f, which is not within %g to %g; "
            "so long a step may not suit your learning rate. Raise fraction_train or draws, or "
            "leave design and floor to the defaults.", t, size, total, least, most,
        )  # fmt: skip

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up what arrived, in the order of the devices; the model stays if nothing did."""
        now, t = self._now, server_round - 1
        if now is None:
            raise InputError("aggregate_train was called before configure_train")
        by_node = {reply.metadata.src_node_id: reply for reply in replies}
        weighted: list[tuple[float, Update]] = []
        kept: list[int] = []
        losses: list[float] = []
        reports: list[tuple[int, Report]] = []
        for place, node in enumerate(now.nodes):
            report = read_reply(by_node.get(node), Report.read)
            # One that calls itself otherwise by now is asked again, and then has its place.
            if not isinstance(report, Lost) and report.device == self._name_of(place):
                reports.append((node, report))
            trained = read_reply(by_node.get(node), self._trained_in)
            if isinstance(trained, Lost):
                self._tell_lost(t, place, trained.reason)
                continue
            weighted.append((float(now.scheduled.cohort.weight[place]), trained[0]))
            kept.append(place)
            losses.append(trained[1])
        after, left_out = largest_finite(weighted, partial(self._after, server_round))
        for place in sorted(left_out, reverse=True):
            self._tell_lost(t, kept.pop(place), "with it the model would not be finite")
            del weighted[place], losses[place]
        done = {now.nodes[place] for place in kept}
        missing = set(now.nodes) - done
        fleet = self._state.fleet.hear(reports).met(done, "train").miss(missing, t, "train")
        self._state = replace(self._state, round=t + 1, fleet=fleet)
        if after is not None:
            self._model, self._optimiser = after
        self._state = self._scheduler.observe(
            self._state,
            now.present,
            now.scheduled.cohort.device[kept],
            losses,
            [update for _, update in weighted],
        )
        terms = [w * loss for (w, _), loss in zip(weighted, losses, strict=True)]
        train_loss = sum(terms) if terms else math.nan  # one that is infinite stops nothing
        self._now = replace(now, train_loss=train_loss, lost=len(missing))
        metrics: dict[str, int | float | list[int] | list[float]] = {
            "devices": len(now.nodes),
            "lost": len(missing),
            "airtime-s": now.scheduled.airtime_s,
        }
        if math.isfinite(train_loss):
            metrics["train-loss"] = train_loss
        return (record_of(self._model) if weighted else None), MetricRecord(metrics)

    def _trained_in(self, content: RecordDict) -> tuple[Update, float]:
        return update_in(content, self._model), number_in(content, _TRAIN_LOSS)

    def _after(
        self, server_round: int, weighted: Sequence[tuple[float, Update]]
    ) -> tuple[Arrays, ServerOptimiser | None] | None:
        """Model and optimiser after a round; None if any of their numbers is not finite."""
        target = moved(self._model, weighted)
        if not all_finite(target):
            return None
        if self._optimiser is None:
            return target, None
        model, optimiser = self._optimiser.step(server_round, self._model, target)
        sound = all_finite(model) and all_finite(optimiser.arrays())
        return (model, optimiser) if sound else None

    def _name_of(self, place: int) -> str:
        assert self._now is not None
        return self._state.fleet.name[int(self._now.scheduled.cohort.device[place])]

    def _tell_lost(self, t: int, place: int, reason: str) -> None:
        _log.warning(
            "round %d: the update of device %s is lost: %s", t, self._name_of(place), reason
        )

    # --- evaluation ----------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask a share of the present nodes, drawn from the seed; none by default."""
        if self._settings.fraction_evaluate == 0.0:
            return []
        t = server_round - 1
        fleet = self._state.fleet
        there = set(fleet.awake(grid.get_node_ids(), t))
        nodes = [node for node in fleet.node if node in there]
        count = math.ceil(self._settings.fraction_evaluate * len(nodes))
        chosen = stream(self._settings.seed, "evaluation", t).permutation(len(nodes))[:count]
        content: Records = {
            "arrays": arrays,
            "config": ConfigRecord({**config, "server-round": server_round}),
        }
        return [
            Message(RecordDict(content), nodes[n], MessageType.EVALUATE, ttl=self._timeout_s)
            for n in sorted(chosen.tolist())
        ]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """The mean of the metrics, weighted by the number of examples."""
        told = []
        for reply in replies:
            found = read_reply(reply, metrics_in)
            if isinstance(found, Lost):
                node = reply.metadata.src_node_id
                _log.warning(
                    "round %d: the evaluation of node %d is lost: %s",
                    server_round - 1, node, found.reason,
                )  # fmt: skip
            else:
                told.append(found)
        return mean_metrics(told)

    # --- what it is ----------------------------------------------------------------------------

    def summary(self) -> None:
        """Log what it was set to."""
        given = self._settings
        _log.info("policy %s, seed %d, run folder %s", given.policy_name, given.seed, given.folder)
