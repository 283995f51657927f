"""The client app that reports its channel."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from tests.flower.loopback import Loopback, app, record

from fedsched.errors import InputError
from fedsched.flower import SimulatedGain
from fedsched.flower import client as client_module
from fedsched.flower.protocol import CHANNEL_QUERY, FEEDBACK_QUERY, RECORD, Assignment, Report
from fedsched.radio import make_channel
from fedsched.randomness import stream


def ask(grid, kind, content, node_id=101):
    message = Message(RecordDict(content), node_id, kind)
    node = grid.nodes[node_id]
    return node.app(message, node.context)


def assigned(t=4):
    return Assignment(round=t, device=1, power_w=1.0, airtime_s=0.1, weight=0.5).entries()


def test_it_answers_with_the_gain_of_the_round_asked_for():
    grid = Loopback(3, app(lambda c, t: 10.0 * t + c.node_config["partition-id"]))
    reply = ask(grid, CHANNEL_QUERY, {RECORD: ConfigRecord({"round": 2})})
    assert Report.read(reply.content) == Report(device="1", round=2, gain=21.0)


def test_a_train_reply_brings_the_gain_of_the_next_round():
    grid = Loopback(3, app(lambda c, t: 10.0 * t + c.node_config["partition-id"]))
    reply = ask(grid, "train", {"arrays": record(), "config": ConfigRecord(assigned(4))})
    assert Report.read(reply.content) == Report(device="1", round=5, gain=51.0)
    assert "arrays" in reply.content and "metrics" in reply.content


def test_a_gain_that_cannot_be_measured_after_training_does_not_lose_the_update():
    def broken(*_):
        raise RuntimeError("no modem")

    content = {"arrays": record(), "config": ConfigRecord(assigned(4))}
    reply = ask(Loopback(3, app(broken)), "train", content)
    assert "arrays" in reply.content and RECORD not in reply.content


def test_an_evaluation_is_left_as_it_is():
    reply = ask(Loopback(), "evaluate", {"arrays": record()})
    assert list(reply.content) == ["metrics"]


def test_the_device_is_named_by_partition_then_by_node_or_as_told():
    grid = Loopback(3)
    wanted = {RECORD: ConfigRecord({"round": 0})}
    grid.nodes[101].context.node_config = {}
    grid.nodes[101].app = app(lambda c, t: 1.0)  # noqa: ARG005
    assert Report.read(ask(grid, CHANNEL_QUERY, wanted).content).device == "101"
    grid.nodes[101].app = app(lambda c, t: 1.0, device=lambda c: f"box-{c.node_id}")  # noqa: ARG005
    assert Report.read(ask(grid, CHANNEL_QUERY, wanted).content).device == "box-101"


def test_feedback_is_answered_by_its_function_or_refused_with_a_sentence():
    content = {"arrays": record(), RECORD: ConfigRecord({"ask": "loss"})}
    with_answer = app(feedback=lambda m, c, kind: {"loss": 2.5}[kind])  # noqa: ARG005
    assert ask(Loopback(3, with_answer), FEEDBACK_QUERY, content).content[RECORD]["value"] == 2.5
    with pytest.raises(InputError, match=r"asks nodes for 'loss'; give ChannelClientApp"):
        ask(Loopback(3), FEEDBACK_QUERY, content)


@pytest.mark.parametrize("kind", ["heterogeneous", "correlated"])
def test_simulated_gains_are_those_of_the_simulator(kind):
    channel, grid = make_channel(kind, 3), Loopback(3)
    state = channel.init(stream(8, "channel"))
    simulated = SimulatedGain(kind, seed=8)
    for t in range(4):
        gain, state = channel.step(state, stream(8, "channel", t))
        told = [simulated(grid.nodes[100 + n].context, t) for n in range(3)]
        assert np.array_equal(told, gain)


@pytest.mark.parametrize("kind", ["heterogeneous", "correlated"])
def test_simulated_gains_do_not_depend_on_what_was_asked_before(kind):
    grid = Loopback(3)
    context, one = grid.nodes[101].context, SimulatedGain(kind, seed=8)
    for t in (4, 2, 2, 0, 7, 3):
        assert one(context, t) == SimulatedGain(kind, seed=8)(context, t)
    grid.nodes[102].context.node_config["num-partitions"] = 5  # a channel of its own
    for t in (3, 8):
        for node in grid.nodes.values():
            assert one(node.context, t) == SimulatedGain(kind, seed=8)(node.context, t)


def test_a_simulated_channel_is_lived_through_once(monkeypatch):
    steps = []

    def counted(*key):
        steps.append(key)
        return stream(*key)

    monkeypatch.setattr(client_module, "stream", counted)
    simulated, context = SimulatedGain("correlated", seed=8), Loopback(3).nodes[101].context
    for t in range(50):
        simulated(context, t)
    assert len(steps) <= 2 * 50  # not 50^2 / 2: to each round, and in it


def test_a_node_without_a_place_is_told_how_to_get_one():
    grid = Loopback()
    grid.nodes[100].context.node_config = {"partition-id": 0}
    assert SimulatedGain(seed=1, devices=4)(grid.nodes[100].context, 0) > 0.0
    with pytest.raises(InputError, match="--node-config"):
        SimulatedGain(seed=1)(grid.nodes[100].context, 0)
