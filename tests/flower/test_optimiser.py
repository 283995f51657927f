"""Flower's server optimisers, fed with the unbiased sum."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
)
from tests.flower.loopback import MODEL, Loopback, arrays, record, same

from fedsched.errors import InputError
from fedsched.flower import ChannelStrategy
from fedsched.flower.optimiser import ServerOptimiser

MAKE = {
    "FedAdam": lambda: FedAdam(eta=0.2),
    "FedYogi": lambda: FedYogi(eta=0.3, beta_1=0.5),
    "FedAdagrad": FedAdagrad,
    "FedAvgM": lambda: FedAvgM(server_momentum=0.8, server_learning_rate=0.5),
    "FedAvg": FedAvg,
    "FedProx": lambda: FedProx(proximal_mu=0.1),
}


def target(model, t):
    """Where the updates of a round point."""
    rng = np.random.default_rng(t)
    return {
        n: x + rng.normal(size=x.shape).astype(x.dtype) if x.dtype == np.float32 else x
        for n, x in model.items()
    }


def own_step(strategy, t, model):
    """Flower's own strategy with one reply."""
    strategy.configure_train(t, record(model), ConfigRecord(), Loopback(2))
    metrics = MetricRecord({"num-examples": 1})
    content = RecordDict({"arrays": record(target(model, t)), "metrics": metrics})
    after, _ = strategy.aggregate_train(t, [Message(content, 1, "train")])
    return {n: a.astype(model[n].dtype) for n, a in arrays(after).items()}


@pytest.mark.parametrize("kind", MAKE)
def test_every_round_is_that_of_flowers_own_strategy(kind):
    ours, theirs = ServerOptimiser(MAKE[kind]()), MAKE[kind]()
    a = b = MODEL
    for t in range(1, 6):
        before = a
        (a, ours), b = ours.step(t, a, target(a, t)), own_step(theirs, t, b)
        assert same(a, b)
        assert not same(a, before)


@pytest.mark.parametrize("kind", MAKE)
def test_its_memory_can_be_saved_and_taken_back(kind):
    through = ServerOptimiser(MAKE[kind]())
    model = MODEL
    for t in (1, 2, 3):
        model, through = through.step(t, model, target(model, t))
    resumed = ServerOptimiser(MAKE[kind]())
    resumed.restore({"spent_w": np.zeros(2), **through.arrays()}, list(model))
    for t in (4, 5):
        goal = target(model, t)
        after, through = through.step(t, model, goal)
        again, resumed = resumed.step(t, model, goal)
        assert same(again, after)
        model = after
    if kind in ("FedAdam", "FedYogi", "FedAvgM"):  # without its memory it would step elsewhere
        fresh = ServerOptimiser(MAKE[kind]())
        goal = target(model, 6)
        assert not same(fresh.step(6, model, goal)[0], through.step(6, model, goal)[0])


def test_a_step_leaves_the_optimiser_that_took_it_as_it_was():
    for kind, make in MAKE.items():
        _, one = ServerOptimiser(make()).step(1, MODEL, target(MODEL, 1))
        before = {name: value.copy() for name, value in one.arrays().items()}
        first, _ = one.step(2, MODEL, target(MODEL, 2))
        second, _ = one.step(2, MODEL, target(MODEL, 2))
        assert same(first, second), kind
        assert same(before, one.arrays()), kind


def test_what_is_no_strategy_of_flowers_is_refused():
    with pytest.raises(InputError, match="must be a FedAvg of Flower's or built on it"):
        ServerOptimiser("FedAdam")


@pytest.mark.parametrize("kind", [Bulyan, FedMedian, FedTrimmedAvg, Krum, MultiKrum, QFedAvg])
def test_one_that_would_be_ignored_is_refused(kind):
    needs = {"num_malicious_nodes": 1} if kind in (Bulyan, Krum, MultiKrum) else {}
    needs |= {"client_learning_rate": 0.1} if kind is QFedAvg else {}
    with pytest.raises(InputError, match=f"optimiser: {kind.__name__} chooses among the replies"):
        ChannelStrategy("full", optimiser=kind(**needs))


def test_what_it_adds_to_the_configuration_is_sent():
    config = ConfigRecord({"lr": 0.5})
    own = ServerOptimiser(FedProx(proximal_mu=0.25)).configured(3, config)
    assert own["proximal-mu"] == 0.25 and own["lr"] == 0.5
    assert dict(config) == {"lr": 0.5}
