"""The server's side: a Flower strategy whose cohorts and weights come from a fedsched policy.

configure_train -> messages -> replies -> aggregate_train -> run log and checkpoint
"""

import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from flwr.serverapp.strategy.strategy_utils import log_strategy_start_info

from fedsched.flower import exchange as exchanges
from fedsched.flower.exchange import Lost, exchange, read_reply
from fedsched.flower.folder import saved_seed
from fedsched.flower.metrics import Aggregation, aggregated, number_in
from fedsched.flower.opening import go_on, open_folder
from fedsched.flower.optimiser import ServerOptimiser
from fedsched.flower.protocol import Records
from fedsched.flower.session import Outcome, Session
from fedsched.flower.settings import Settings
from fedsched.policies import AbstractPolicy
from fedsched.randomness import stream
from fedsched.solve.uplink import Uplink

__all__ = ["ChannelStrategy"]

_console = logging.getLogger("flwr")  # Flower's own lines
_log = logging.getLogger("flwr.fedsched")  # shown beside them
_POLL_S = 1.0
Evaluation: TypeAlias = Callable[[int, ArrayRecord], MetricRecord | None]


class ChannelStrategy(Strategy):
    r"""Chooses nodes by what they take, or by their channel and power budget, without bias.

    Each round the policy decides probabilities, a cohort is drawn, and the model moves by

    .. math:: x \leftarrow x + \sum_{n \in \text{cohort}} w_n (y_n - x)

    in the order of the devices' numbers, never renormalised. With nothing set the weights of a
    round add up to one and are 1/N on average; else each is 1/(N q), N counting who is present.
    A lost reply brings no update; later weights of its device correct for that on average.

    With a ``folder``, queues, gains, round, model and optimiser are saved, and a strategy that is
    started again on it goes on there; ``fedsched report`` shows it. Without one nothing is kept, as
    in Flower's own strategies, nor where another strategy (differential privacy) drives this one.

    Args:
        policy: a name that ``fedsched policies`` lists, or a policy of your own.
        folder: the run folder. Give the whole path where the server app runs in another place.
        seed: of cohorts. By default one from the system, which nobody can foretell; the run folder
            keeps it.
        fraction_train: share of the present nodes that train in a round, of a policy by name. By
            default ``auto`` sets it, and 0.8 with other policies.
        draws: m, so many devices a round in place of a share, of a policy by name.
        uplink: the radio, if it is known: nodes then report gains (``ChannelClientApp``). "paper"
            is the paper's. By default what exchanges take is measured, and nodes are any.
        budget_w: average transmit power of each device, of a policy by name.
        options: other settings of a policy by name, such as ``{"lam": 10.0, "v": 100.0}``.
        optimiser: a FedAdam, FedYogi, FedAdagrad, FedAvgM or FedProx of Flower's.
        fraction_evaluate: share of the present nodes that evaluate the model after a round.
        min_train_nodes, min_evaluate_nodes, min_available_nodes: as of ``FedAvg``.
        weighted_by_key: the metric by which the metrics of replies are averaged.
        arrayrecord_key, configrecord_key: names of the records in messages.
        train_metrics_aggr_fn, evaluate_metrics_aggr_fn: as of ``FedAvg``.
        max_age_rounds: a gain older than this is asked for anew, where an ``uplink`` is given.
        query_timeout_s: how long to wait for answers to questions about gains.
        max_idle_rounds: so many tries in a row in which nobody could be asked end the run.
        checkpoint_every: rounds from checkpoint to checkpoint.
        registered: the device of each node by its id; other nodes are not asked.
        tell_weights: whether a node is told the weight of its update.
        bounds: of what one node can do to the model: "clip", "robust" or "off".
        run_config: the run config of the server app, for the run folder to compare.
        accuracy, loss: metrics of an evaluation that the run log takes for test accuracy and loss.
    """

    def __init__(
        self,
        policy: str | AbstractPolicy = "auto",
        *,
        folder: str | Path | None = None,
        seed: int | None = None,
        fraction_train: float | None = None,
        draws: int | None = None,
        uplink: Uplink | str | None = None,
        budget_w: float = 1.0,
        options: Mapping[str, Any] | None = None,
        optimiser: FedAvg | None = None,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Aggregation | None = None,
        evaluate_metrics_aggr_fn: Aggregation | None = None,
        max_age_rounds: int = 0,
        query_timeout_s: float = 30.0,
        max_idle_rounds: int = 5,
        checkpoint_every: int = 1,
        registered: Mapping[int, str] | None = None,
        tell_weights: bool = False,
        bounds: str = "clip",
        run_config: Mapping[str, Any] | None = None,
        accuracy: str | None = None,
        loss: str | None = None,
    ) -> None:
        self._settings = Settings(
            policy=policy, folder=None if folder is None else Path(folder), seed=seed,
            fraction_train=fraction_train, draws=draws, uplink=uplink, budget_w=budget_w,
            options=dict(options or {}), optimiser=optimiser, fraction_evaluate=fraction_evaluate,
            min_train_nodes=min_train_nodes, min_evaluate_nodes=min_evaluate_nodes,
            min_available_nodes=min_available_nodes, weighted_by_key=weighted_by_key,
            arrayrecord_key=arrayrecord_key, configrecord_key=configrecord_key,
            train_metrics_aggr_fn=train_metrics_aggr_fn,
            evaluate_metrics_aggr_fn=evaluate_metrics_aggr_fn, max_age_rounds=max_age_rounds,
            query_timeout_s=query_timeout_s, max_idle_rounds=max_idle_rounds,
            checkpoint_every=checkpoint_every,
            registered=None if registered is None else dict(registered),
            tell_weights=tell_weights, bounds=bounds, run_config=dict(run_config or {}),
            accuracy=accuracy, loss=loss,
        )  # fmt: skip
        if optimiser is not None:
            ServerOptimiser(optimiser)  # refuse one that would do nothing now
        self._timeout_s = 3600.0
        self._session: Session | None = None

    def summary(self) -> None:
        """Log what it was set to."""
        given = self._settings
        _console.info("\t├──> Scheduling by the channel: policy %s", given.policy_name)
        _console.info("\t└──> Run folder: %s", given.folder or "(none: nothing is kept)")

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluation | None = None,
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
        _console.info("Starting %s strategy:", type(self).__name__)
        log_strategy_start_info(num_rounds, initial_arrays, train_config, evaluate_config)
        self.summary()
        session = self._begin(initial_arrays)
        configs = {"train": train_config, "evaluate": evaluate_config}
        began, result = time.monotonic(), Result()
        with open_folder(self._settings, session, grid, num_rounds, configs) as folder:
            go_on(session, folder)
            if session.state.round == 0 and evaluate_fn is not None:
                first = evaluate_fn(0, session.record())
                _console.info("Initial global evaluation results: %s", first)
                if first is not None:
                    result.evaluate_metrics_serverapp[0] = first
            least = self._settings.min_available_nodes
            while session.state.round < num_rounds:
                self._wait_for_nodes(grid, max(least, 1))
                least = 1
                _console.info("[ROUND %d/%d]", session.state.round + 1, num_rounds)
                began_s = exchanges.clock.now_s()
                now = self._train(session, grid, result, train_config or ConfigRecord())
                if now is None:  # nobody could be asked: this was no round
                    time.sleep(_POLL_S)
                    continue
                metrics = self._evaluate(
                    session, grid, result, evaluate_config or ConfigRecord(), evaluate_fn
                )
                accuracy = number_in(metrics, self._settings.accuracy_names)
                loss = number_in(metrics, self._settings.loss_names)
                done = session.trained_round(accuracy, loss, exchanges.clock.now_s() - began_s)
                folder.add(done, session.saved, last=session.state.round >= num_rounds)
            folder.finish(session.model)
        result.arrays = session.record()
        _console.info("Strategy execution finished in %.2fs", time.monotonic() - began)
        _console.info("Final results:")
        for line in str(result).splitlines():
            _console.info("\t%s", line)
        return result

    def _begin(self, arrays: ArrayRecord) -> Session:
        seed = self._settings.seed
        if seed is None:
            seed = saved_seed(self._settings.folder)
        if seed is None:
            seed = secrets.randbits(63)  # that nobody can foretell
        self._session = Session(self._settings, arrays, seed)
        return self._session

    def _running(self, arrays: ArrayRecord) -> Session:
        """The session; made now where another strategy drives this one."""
        if self._session is not None:
            return self._session
        if self._settings.folder is not None:
            _log.warning(
                "folder: another strategy drives this one, and nothing is kept in %s",
                self._settings.folder,
            )
        return self._begin(arrays)

    def _wait_for_nodes(self, grid: Grid, least: int) -> None:
        while (there := len(list(grid.get_node_ids()))) < least:
            _console.info("Waiting for nodes: %d of %d are connected", there, least)
            time.sleep(_POLL_S)

    def _train(
        self, session: Session, grid: Grid, result: Result, config: ConfigRecord
    ) -> Outcome | None:
        server_round, timeout_s = session.state.round + 1, self._timeout_s  # Flower counts from 1
        came = exchange(
            grid, self.configure_train(server_round, session.record(), config, grid), timeout_s
        )
        if session.now is None:
            return None
        session.came = {each.reply.metadata.src_node_id: each for each in came}
        arrays, metrics = self.aggregate_train(server_round, [each.reply for each in came])
        session.let_go()
        if arrays is not None and arrays is not session.record():
            session.set(arrays)  # a subclass has changed what was added up
        if metrics is not None:
            _console.info("\t└──> Aggregated MetricRecord: %s", metrics)
            result.train_metrics_clientapp[server_round] = metrics
        return session.now

    def _evaluate(
        self, session: Session, grid: Grid, result: Result, config: ConfigRecord,
        central: Evaluation | None,
    ) -> RecordDict:  # fmt: skip
        """The metrics of the model after a round: the server's own, or else those of the nodes."""
        server_round, record = session.state.round, session.record()
        measured = None
        asked = list(self.configure_evaluate(server_round, record, config, grid))
        if asked:
            came = exchange(grid, asked, self._timeout_s)
            measured = self.aggregate_evaluate(server_round, [each.reply for each in came])
            if measured is not None:
                _console.info("\t└──> Aggregated MetricRecord: %s", measured)
                result.evaluate_metrics_clientapp[server_round] = measured
        if central is not None:
            found = central(server_round, record)
            _console.info("Global evaluation\n\t└──> MetricRecord: %s", found)
            if found is not None:
                result.evaluate_metrics_serverapp[server_round] = measured = found
        return RecordDict({} if measured is None else {"metrics": measured})

    # --- what Flower calls ----------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Learn of links, decide, draw, and write to the nodes that take part."""
        given, session = self._settings, self._running(arrays)
        chosen = session.choose(server_round - 1, arrays, grid)
        if session.optimiser is not None:
            config = session.optimiser.configured(server_round, config)
        messages = []
        for node, assignment in chosen:
            own = {**config, "server-round": server_round, **assignment.entries()}
            content: Records = {
                given.arrayrecord_key: arrays,
                given.configrecord_key: ConfigRecord(own),
            }
            messages.append(
                Message(RecordDict(content), node, MessageType.TRAIN, ttl=self._timeout_s)
            )
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add up what arrived, in the order of the devices; the model stays if nothing did."""
        session = self._running(ArrayRecord())
        done = session.take(server_round, replies)
        if done is None:
            return None, None
        given, used = self._settings, len(done.contents)
        _console.info("aggregate_train: Received %d results and %d failures", used, done.lost)
        metrics: dict[str, Any] = {
            "fedsched-devices": len(done.nodes),
            "fedsched-lost": done.lost,
            "fedsched-airtime-s": done.scheduled.airtime_s,
        }
        if math.isfinite(done.train_loss):
            metrics["fedsched-train-loss"] = done.train_loss
        theirs = aggregated(done.contents, given.weighted_by_key, given.train_metrics_aggr_fn)
        metrics |= {} if theirs is None else dict(theirs)
        return (session.record() if used else None), MetricRecord(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask a share of the present nodes, drawn from the seed."""
        given, session = self._settings, self._running(arrays)
        if given.fraction_evaluate == 0.0:
            return []
        t, fleet = server_round - 1, session.state.fleet
        there = set(fleet.awake(grid.get_node_ids(), t))
        nodes = [node for node in fleet.node if node in there]
        count = max(math.ceil(given.fraction_evaluate * len(nodes)), given.min_evaluate_nodes)
        chosen = stream(session.scheduler.seed, "evaluation", t).permutation(len(nodes))[:count]
        _console.info("configure_evaluate: Sampled %d nodes (out of %d)", len(chosen), len(nodes))
        content: Records = {
            given.arrayrecord_key: arrays,
            given.configrecord_key: ConfigRecord({**config, "server-round": server_round}),
        }
        return [
            Message(RecordDict(content), nodes[n], MessageType.EVALUATE, ttl=self._timeout_s)
            for n in sorted(chosen.tolist())
        ]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """The metrics of the nodes, by the function that was given, or as a weighted mean."""
        given, contents, failures = self._settings, [], 0
        for reply in replies:
            content = read_reply(reply, lambda content: content)
            if isinstance(content, Lost):
                failures += 1
                _log.warning(
                    "round %d: the evaluation of node %d is lost: %s",
                    server_round - 1, reply.metadata.src_node_id, content.reason,
                )  # fmt: skip
            else:
                contents.append(content)
        _console.info(
            "aggregate_evaluate: Received %d results and %d failures", len(contents), failures
        )
        return aggregated(contents, given.weighted_by_key, given.evaluate_metrics_aggr_fn)
