"""What FedAvg gives, this strategy gives too."""

import logging
import math

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
)
from tests.flower.loopback import (
    MODEL,
    Loopback,
    app,
    arrays,
    changed,
    nan,
    raises,
    record,
    run,
    strategy,
)

from fedsched.flower import ChannelClientApp, ChannelStrategy, assignment_of
from fedsched.runs.runlog import read_run


def everybody(**options):
    return strategy(None, "full", **options)


def begun(made, rounds=2, devices=3, client=None, **options):
    return made.start(
        Loopback(devices, client), record(), num_rounds=rounds, timeout=60.0, **options
    )


def test_client_metrics_are_those_of_fedavg():
    ours = begun(everybody(fraction_evaluate=1.0))
    theirs = begun(FedAvg())
    for t in (1, 2):
        mean = ours.train_metrics_clientapp[t]
        for name, value in theirs.evaluate_metrics_clientapp[t].items():
            assert math.isclose(ours.evaluate_metrics_clientapp[t][name], value)
        assert math.isclose(mean["train_loss"], np.mean([1.0, 1.1, 1.2]) + 0.01 * (t - 1))
        assert mean["fedsched-devices"] == 3 and mean["fedsched-lost"] == 0


def test_both_aggregation_functions_get_the_replies_and_the_key(tmp_path):
    seen = []

    def own(contents, key):
        seen.append((len(contents), key, {type(c).__name__ for c in contents}))
        return MetricRecord({"worst": max(c["metrics"][key] for c in contents)})

    grid = Loopback(3)
    grid.fail(nan, "train", node_id=101)
    grid.fail(raises, "evaluate", node_id=102)
    _, done = run(
        grid, tmp_path, 1, "full", fraction_evaluate=1.0, train_metrics_aggr_fn=own,
        evaluate_metrics_aggr_fn=own,
    )  # fmt: skip
    assert seen == [(2, "num-examples", {"RecordDict"})] * 2
    assert done.train_metrics_clientapp[1]["worst"] == 10
    assert done.evaluate_metrics_clientapp[1]["worst"] == 2


def test_an_aggregation_function_that_raises_costs_the_metrics_alone(tmp_path, caplog):
    def broken(*given):
        raise KeyError(given[1])

    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        _, done = run(Loopback(), tmp_path, 2, fraction_evaluate=1.0,
                      evaluate_metrics_aggr_fn=broken)  # fmt: skip
    assert done.evaluate_metrics_clientapp == {} and read_run(tmp_path).finished
    assert "the metrics of a round are lost: KeyError" in caplog.text


def test_metrics_are_weighted_by_the_key_that_is_asked_for():
    def weigh(content):
        content["metrics"].update({"steps": 1 if content["metrics"]["train_loss"] < 1.05 else 3})

    client = app()
    grid = Loopback(2, client)
    for node_id in grid.nodes:
        grid.fail(changed(weigh), "train", node_id=node_id)
    done = everybody(weighted_by_key="steps").start(grid, record(), num_rounds=1, timeout=60.0)
    assert math.isclose(done.train_metrics_clientapp[1]["train_loss"], (1.0 + 3 * 1.1) / 4)


def test_records_have_the_names_that_are_asked_for():
    client = ChannelClientApp(lambda *_: 1.0)

    @client.train()
    def train(message, _):
        assert set(message.content) == {"weights", "settings"}
        assert message.content["settings"]["lr"] == 0.5
        assert message.content["settings"]["server-round"] == 1
        metrics = MetricRecord({"num-examples": 1})
        content = RecordDict({"weights": message.content["weights"], "m": metrics})
        return Message(content, reply_to=message)

    done = begun(
        everybody(arrayrecord_key="weights", configrecord_key="settings"), 1, client=client,
        train_config=ConfigRecord({"lr": 0.5}),
    )  # fmt: skip
    assert done.train_metrics_clientapp[1]["fedsched-lost"] == 0


def test_least_numbers_of_nodes_are_kept():
    grid = Loopback(6)
    made = ChannelStrategy(
        "uniform", fraction_train=0.1, min_train_nodes=4, fraction_evaluate=0.1,
        min_evaluate_nodes=3, seed=1,
    )  # fmt: skip
    made.start(grid, record(), num_rounds=3, timeout=60.0)
    assert [len(each) for each in grid.asked("train")] == [4, 4, 4]
    assert [len(each) for each in grid.asked("evaluate")] == [3, 3, 3]


def test_everybody_evaluates_unless_told_otherwise():
    grid = Loopback(3)
    ChannelStrategy("full").start(grid, record(), num_rounds=1, timeout=60.0)
    assert [len(each) for each in grid.asked("evaluate")] == [3]


def test_the_console_is_flowers(caplog):
    def evaluate(server_round, model):
        del model
        return MetricRecord({"accuracy": 0.1 * server_round})

    with caplog.at_level(logging.INFO, "flwr"):
        begun(everybody(fraction_evaluate=1.0), evaluate_fn=evaluate)
    for words in (
        "Starting ChannelStrategy strategy:", "Number of rounds: 2", "[ROUND 1/2]", "[ROUND 2/2]",
        "configure_train: Sampled 3 nodes (out of 3)",
        "aggregate_train: Received 3 results and 0 failures",
        "aggregate_evaluate: Received 3 results and 0 failures",
        "Aggregated MetricRecord", "Initial global evaluation results", "Final results:",
        "ServerApp-side Evaluate Metrics",
    ):  # fmt: skip
        assert words in caplog.text


# --- wrappers and subclasses ----------------------------------------------------------------------

WRAPPERS = {
    "server, fixed": (DifferentialPrivacyServerSideFixedClipping, None),
    "server, adaptive": (DifferentialPrivacyServerSideAdaptiveClipping, None),
    "client, fixed": (DifferentialPrivacyClientSideFixedClipping, fixedclipping_mod),
    "client, adaptive": (DifferentialPrivacyClientSideAdaptiveClipping, adaptiveclipping_mod),
}
FLOATS = {name: x for name, x in MODEL.items() if x.dtype == np.float32}


def small(message, context):
    """Training in a model of floats alone, as the wrappers clip every array."""
    assert context.node_config and assignment_of(message).round >= 0
    moved = {name: each.numpy() + 1 for name, each in message.content["arrays"].items()}
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": record(moved), "metrics": metrics}), reply_to=message)


@pytest.mark.parametrize("kind", WRAPPERS)
def test_wrappers_for_differential_privacy_work(kind, caplog):
    wrapper, mod = WRAPPERS[kind]
    norm = {"clipping_norm": 0.5} if "fixed" in kind else {"initial_clipping_norm": 0.5}
    made = wrapper(everybody(), noise_multiplier=0.0, num_sampled_clients=3, **norm)
    client = ChannelClientApp(lambda *_: 1.0, mods=[mod] if mod else None)
    client.train()(small)
    grid = Loopback(3, client)
    done = made.start(grid, record(FLOATS), num_rounds=2, timeout=60.0)
    way = [arrays(done.arrays)[name] - x for name, x in FLOATS.items()]
    length = math.sqrt(sum(float((each**2).sum()) for each in way))
    assert 0.0 < length <= (1.0 if "fixed" in kind else 1.6) + 1e-5  # two clipped steps
    assert [len(each) for each in grid.asked("train")] == [3, 3]
    assert "is lost" not in caplog.text


def test_a_wrapped_strategy_says_that_it_keeps_nothing(tmp_path, caplog):
    made = DifferentialPrivacyServerSideFixedClipping(
        strategy(tmp_path / "run", "full"), 0.0, 1.0, 3
    )
    made.start(Loopback(3), record(FLOATS), num_rounds=1, timeout=60.0)
    assert "another strategy drives this one, and nothing is kept in" in caplog.text
    assert not (tmp_path / "run").exists()


def test_a_subclass_can_change_messages_and_sums(tmp_path):
    class Halved(ChannelStrategy):
        def configure_train(self, server_round, arrays, config, grid):
            config["lr"] = 1.0 / server_round
            return super().configure_train(server_round, arrays, config, grid)

        def aggregate_train(self, server_round, replies):
            found, metrics = super().aggregate_train(server_round, replies)
            half = {n: Array(np.asarray(x.numpy() * 0 if x.dtype == "float32" else x.numpy()))
                    for n, x in found.items()}  # fmt: skip
            return ArrayRecord(half), metrics

    grid = Loopback(3)
    done = Halved("full", folder=tmp_path, fraction_evaluate=0.0).start(
        grid, record(), num_rounds=2, timeout=60.0
    )
    assert [m.content["config"]["lr"] for m in grid.sent[-1]] == [0.5] * 3
    assert not arrays(done.arrays)["net.0.bias"].any()
    with np.load(tmp_path / "model.npz") as saved:
        assert not saved["net.0.bias"].any()


def test_fedprox_sends_its_term():
    grid = Loopback(3)
    everybody(optimiser=FedProx(proximal_mu=0.25)).start(grid, record(), num_rounds=1, timeout=60.0)
    assert [m.content["config"]["proximal-mu"] for m in grid.sent[-1]] == [0.25] * 3


# --- batch normalisation --------------------------------------------------------------------------

NORMED = {
    "bn.weight": np.ones(2, np.float32),
    "bn.running_mean": np.zeros(2, np.float32),
    "bn.running_var": np.full(2, 0.1, np.float32),
}


def normed(message, context):
    place = int(context.node_config["partition-id"])
    moved = {
        "bn.weight": np.full(2, 1.0 + place, np.float32),
        "bn.running_mean": np.full(2, 1.0 + place, np.float32),
        "bn.running_var": np.full(2, 0.01 * place, np.float32),
    }
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": record(moved), "metrics": metrics}), reply_to=message)


@pytest.mark.parametrize("optimiser", [None, FedAdam, FedAvgM])
def test_statistics_of_batch_normalisation_are_averaged(optimiser):
    client = ChannelClientApp(lambda *_: 1.0)
    client.train()(normed)
    seen = []
    strategy(
        None, "uniform", draws=1, options={"design": "independent"},
        optimiser=None if optimiser is None else optimiser(), bounds="off",
    ).start(
        Loopback(4, client), record(NORMED), num_rounds=12, timeout=60.0,
        evaluate_fn=lambda t, m: seen.append(arrays(m)),  # noqa: ARG005
    )  # fmt: skip
    for model in seen[2:]:  # weights that add up to two or more: a sum would leave the range
        assert 0.0 <= model["bn.running_mean"][0] <= 4.0
        assert 0.0 <= model["bn.running_var"][0] <= 0.1
    if optimiser is None:
        assert max(abs(model["bn.weight"][0]) for model in seen) > 4.0  # that is still a sum


def test_an_update_with_a_variance_below_0_is_lost(caplog):
    def negative(content):
        bad = dict(content["arrays"])
        bad["bn.running_var"] = Array(np.array([-1.0, 1.0], np.float32))
        content["arrays"] = ArrayRecord(bad)

    client = ChannelClientApp(lambda *_: 1.0)
    client.train()(normed)
    grid = Loopback(2, client)
    grid.fail(changed(negative), "train", node_id=101)
    everybody().start(grid, record(NORMED), num_rounds=1, timeout=60.0)
    assert "device 1 is lost: array 'bn.running_var' holds a variance below 0" in caplog.text


# --- who is told what -----------------------------------------------------------------------------


@pytest.mark.parametrize("told", [False, True])
def test_weights_are_told_on_request(told):
    grid = Loopback(3)
    everybody(tell_weights=told).start(grid, record(), num_rounds=1, timeout=60.0)
    for message in grid.sent[-1]:
        assert list(message.content.config_records) == ["config"]
        assert assignment_of(message).weight == (1.0 / 3.0 if told else None)


def cohorts(folder, **options):
    run(Loopback(8), folder, 12, "uniform", draws=3, **options)
    return read_run(folder).lists("device")


@pytest.mark.slow
def test_cohorts_cannot_be_foretold_unless_a_seed_is_asked_for(tmp_path):
    assert cohorts(tmp_path / "a", seed=5) == cohorts(tmp_path / "b", seed=5)
    one, other = cohorts(tmp_path / "c", seed=None), cohorts(tmp_path / "d", seed=None)
    assert one != other
    seed = read_run(tmp_path / "c").manifest["scenario"]["run"]["seed"]
    assert seed > 2**32
    assert cohorts(tmp_path / "e", seed=seed) == one  # kept, to be replayed


def test_a_run_that_goes_on_keeps_its_own_entropy(tmp_path):
    run(Loopback(8), tmp_path, 3, "uniform", draws=3, seed=None)
    run(Loopback(8), tmp_path, 6, "uniform", draws=3, seed=None)
    seed = read_run(tmp_path).manifest["scenario"]["run"]["seed"]
    run(Loopback(8), tmp_path / "again", 6, "uniform", draws=3, seed=seed)
    assert read_run(tmp_path).lists("device") == read_run(tmp_path / "again").lists("device")


def test_a_node_that_claims_the_device_of_another_is_not_heard(tmp_path, caplog):
    grid = Loopback(3)
    grid.nodes[999] = type(grid.nodes[101])(grid.nodes[101].context, grid.client)
    run(grid, tmp_path, 4, "full")
    assert read_run(tmp_path).lists("device") == [[0, 1, 2]] * 4
    assert not any(999 in each for each in grid.asked("train"))
    assert "node 999 is not heard as device 1: node 101 is that device" in caplog.text


def test_registered_nodes_are_who_the_server_says(tmp_path):
    grid = Loopback(3)

    def lie(content):
        content["fedsched"]["device"] = "0"

    grid.fail(changed(lie), "query", "train", node_id=101)
    run(grid, tmp_path, 3, "full", registered={100: "truck", 101: "van"})
    assert read_run(tmp_path).lists("device") == [[0, 1]] * 3
    assert {m.metadata.dst_node_id for batch in grid.sent for m in batch} == {100, 101}


@pytest.mark.slow
def test_training_that_fails_gives_no_rest_and_silence_does(tmp_path):
    for how, counts in ((raises, 8), (nan, 8), (lambda *_: None, 4)):
        grid = Loopback(3)
        grid.fail(how, "train", node_id=101)
        run(grid, tmp_path / str(counts) / str(how), 8, "full")
        assert sum(101 in each for each in grid.asked("train")) == counts
