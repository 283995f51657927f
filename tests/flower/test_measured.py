"""Links from measured time alone: the client app is any, and nobody is asked anything."""

import logging

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import (
    MODEL,
    Loopback,
    StoppedError,
    arrays,
    record,
    same,
    silent,
    trained,
)

from fedsched.errors import FedschedError
from fedsched.flower import ChannelClientApp, ChannelStrategy, Throughput, assignment_of
from fedsched.flower.exchange import Came
from fedsched.flower.pace import Pace, Taken, taken
from fedsched.runs.runlog import read_run

RATES = np.geomspace(1.0, 50.0, 10)  # Mbit/s
SECONDS = 20.0 / RATES  # of an upload of 20 Mbit


def plain():
    """A client app that has never heard of us."""
    app = ClientApp()
    app.train()(trained)
    return app


def federation(client=None, work_s=1.0, upload_s=SECONDS):
    grid = Loopback(len(upload_s), client or plain())
    for node, seconds in zip(grid.nodes.values(), upload_s, strict=True):
        node.takes = (work_s, float(seconds))
    return grid


def started(grid, folder, rounds, **options):
    made = ChannelStrategy(folder=folder, seed=5, fraction_evaluate=0.0, **options)
    return made.start(grid, record(), num_rounds=rounds, timeout=600.0)


@pytest.mark.slow
def test_nothing_set_over_an_unchanged_client_app_learns_who_is_slow(tmp_path):
    grid = federation()
    started(grid, tmp_path, 60)
    assert grid.asked("query.fedsched_channel") == []
    log = read_run(tmp_path)
    assert log.lists("device")[0] == list(range(10))  # nothing is known yet: as in FedAvg
    part = np.bincount(np.concatenate(log.lists("device")).astype(int), minlength=10) / 60
    assert 0.1 < part[0] < 0.6
    assert part[0] < 0.7 * part[5:].min()
    sums = [sum(each) for each in log.lists("weight")]
    assert sums == pytest.approx([1.0] * 60)
    assert log.column("wall_s").mean() < 0.8 * (1.0 + SECONDS.max())


@pytest.mark.slow
def test_what_is_planned_is_what_is_measured(tmp_path):
    started(federation(), tmp_path, 20)
    log = read_run(tmp_path)
    took = log.lists("took_s")
    for t, members in enumerate(log.lists("device")):
        seconds = [1.0 + SECONDS[int(n)] for n in members]
        assert took[t] == pytest.approx(seconds, rel=0.06)  # as fine as the clock is looked at
        assert log.column("wall_s")[t] == pytest.approx(max(seconds), rel=0.06)
        if t > 1:
            assert log.lists("upload_s")[t] == pytest.approx([s - 1.0 for s in seconds], rel=0.3)
            assert log.column("airtime_s")[t] == pytest.approx(max(seconds), rel=0.1)


@pytest.mark.slow
def test_a_node_that_becomes_slow_is_asked_less(tmp_path):
    grid = federation(upload_s=np.full(8, 1.0))

    def before(grid, batch):
        if len(grid.sent) == 5:
            grid.nodes[102].takes = (1.0, 50.0)
        del batch

    grid.before = before
    started(grid, tmp_path, 40)
    part = [2 in each for each in read_run(tmp_path).lists("device")]
    assert all(part[:5])
    assert np.mean(part[10:]) < 0.8


@pytest.mark.slow
def test_a_reported_rate_is_believed(tmp_path):
    """All take the same, and half of them say that they are fast."""
    client = ChannelClientApp(Throughput(lambda context: 10.0 * RATES[_part(context)]))
    client.train()(trained)
    grid = federation(client, upload_s=np.full(10, 1.0))
    started(grid, tmp_path, 40)
    part = np.bincount(np.concatenate(read_run(tmp_path).lists("device")).astype(int)) / 40
    assert part[3:].tolist() == [1.0] * 7
    assert part[0] < 0.8


def _part(context):
    return int(context.node_config["partition-id"])


def test_no_power_is_assigned_where_the_radio_is_not_known(tmp_path):
    told = []

    def train(message, context):
        told.append(assignment_of(message))
        return trained(message, context)

    app = ClientApp()
    app.train()(train)
    started(federation(app), tmp_path, 2)
    assert {each.power_w for each in told} == {None}
    assert all(each.airtime_s > 0.0 for each in told)


@pytest.mark.slow
def test_a_run_from_measured_time_goes_on_where_it_was(tmp_path):
    whole = started(federation(), tmp_path / "whole", 12)

    def before(grid, batch):
        del batch
        if len(grid.sent) == 8:
            raise StoppedError

    grid = federation()
    grid.before = before
    with pytest.raises(StoppedError):
        started(grid, tmp_path / "cut", 12)
    resumed = started(federation(), tmp_path / "cut", 12)
    ours, theirs = read_run(tmp_path / "whole"), read_run(tmp_path / "cut")
    assert ours.lists("device") == theirs.lists("device")
    assert np.allclose(ours.lists("weight")[-1], theirs.lists("weight")[-1], rtol=1e-6)
    for name, x in arrays(whole.arrays).items():
        assert np.allclose(x, arrays(resumed.arrays)[name], atol=1e-5)


def test_with_equal_nodes_it_is_fedavg(tmp_path):
    ours = started(federation(upload_s=np.full(6, 2.0)), tmp_path, 3)
    grid = federation(_told(), upload_s=np.full(6, 2.0))
    theirs = FedAvg(fraction_evaluate=0.0).start(grid, record(), num_rounds=3, timeout=60.0)
    for name, x in arrays(ours.arrays).items():
        if x.dtype == np.float32:
            assert np.allclose(x, arrays(theirs.arrays)[name], atol=1e-5)


def _told():
    """The same client app for a strategy that assigns nothing."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        config = message.content["config"]
        config["fedsched-round"] = int(config["server-round"]) - 1
        config["fedsched-device"], config["fedsched-airtime_s"] = 0, 0.0
        return trained(message, context)

    return app


@pytest.mark.slow
def test_a_share_of_the_nodes_is_asked_for(tmp_path):
    started(federation(upload_s=np.full(10, 1.0)), tmp_path, 30, fraction_train=0.5)
    log = read_run(tmp_path)
    assert {len(each) for each in log.lists("device")} == {5}
    assert all(w == pytest.approx(0.2) for each in log.lists("weight") for w in each)
    part = np.bincount(np.concatenate(log.lists("device")).astype(int), minlength=10)
    assert part.min() > 5


def test_registered_nodes_alone_take_part(tmp_path):
    names = {100: "a", 103: "b"}
    grid = federation()
    started(grid, tmp_path, 3, registered=names)
    assert {node for batch in grid.asked("train") for node in batch} <= {100, 103}


def test_if_none_is_registered_a_sentence_ends_the_run(tmp_path, monkeypatch):
    from fedsched.flower import strategy as module

    monkeypatch.setattr(module, "_POLL_S", 0.0)
    with pytest.raises(FedschedError, match="none of 10 nodes is one of those that are registered"):
        started(federation(), tmp_path, 3, registered={7: "a"})


def test_a_node_that_never_replies_does_not_stop_the_others(tmp_path):
    grid = federation()
    grid.fail(silent, "train", node_id=109)
    done = started(grid, tmp_path, 6)
    assert not same(arrays(done.arrays), MODEL)
    assert np.isnan(read_run(tmp_path).lists("took_s")[0][-1])


# --- times of one exchange ------------------------------------------------------------------------


def came(sent, written, there):
    message = Message(RecordDict(), 7, "train")
    reply = Message(RecordDict(), reply_to=message)
    reply.metadata.created_at = written
    return Came(reply=reply, sent_s=sent, came_s=there)


def test_an_exchange_is_work_and_upload():
    assert taken(came(10.0, 13.0, 18.0)) == Taken(work_s=3.0, upload_s=5.0)


@pytest.mark.parametrize("written", [-1e9, 9.0, 19.0, 1e12, float("nan"), float("inf")])
def test_a_clock_that_is_off_does_not_change_the_whole(written):
    found = taken(came(10.0, written, 18.0))
    assert found.whole_s == pytest.approx(8.0)
    assert found.upload_s == pytest.approx(8.0, abs=0.01)


def test_replies_in_no_time_have_times_above_zero():
    found = taken(came(10.0, 10.0, 10.0))
    assert found.work_s > 0.0 and found.upload_s > 0.0


def test_a_pace_forgets_and_guesses():
    pace = Pace().grown(3).after({1: Taken(work_s=2.0, upload_s=8.0)})
    assert pace.known().upload_s.tolist() == [8.0, 8.0, 8.0]
    assert np.isnan(pace.upload_s[[0, 2]]).all()
    for _ in range(30):
        pace = pace.after({1: Taken(work_s=2.0, upload_s=1.0)})
    assert pace.upload_s[1] == pytest.approx(1.0, rel=1e-3)
    assert Pace().grown(2).known().work_s.tolist() == [1.0, 1.0]


def test_the_log_says_how_far_the_plan_was_off(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "flwr.fedsched"):
        started(federation(), tmp_path, 3)
    assert "round 0: took 21." in caplog.text
    assert "s of it the exchange, for which" in caplog.text


# --- promises that are not kept --------------------------------------------------------------


def slow_and_boasting(tells, **takes):
    """Six nodes of which the last tells the most and takes half a minute."""
    grid = Loopback(6, tells)
    for node in grid.nodes.values():
        node.takes = (0.5, 1.0)
    list(grid.nodes.values())[-1].takes = takes["takes"]
    return grid


def boast(context, _):
    return 1e30 if int(context.node_config["partition-id"]) == 5 else 1.0


@pytest.mark.parametrize("takes", [(1.0, 25.0), (25.0, 1.0)])  # also if its clock says it worked
def test_a_gain_that_is_not_kept_is_not_believed_for_long(tmp_path, takes):
    grid = slow_and_boasting(ChannelClientApp(boast), takes=takes)
    grid.client.train()(trained)
    made = ChannelStrategy("full", folder=tmp_path, seed=5, fraction_evaluate=0.0, uplink="paper")
    made.start(grid, record(), num_rounds=5, timeout=600.0)
    upload_s = np.array(read_run(tmp_path).lists("upload_s"))
    assert (upload_s[:3, 5] < 1e-3).all()  # three promises
    assert (upload_s[3:, 5] > 20.0).all()
    assert (upload_s[:, :5] == upload_s[0, 0]).all()


@pytest.mark.slow
def test_a_rate_that_is_not_kept_is_measured(tmp_path):
    told = Throughput(lambda context: 1e12 if context.node_config["partition-id"] == 5 else 1e4)
    grid = slow_and_boasting(ChannelClientApp(told), takes=(1.0, 25.0))
    grid.client.train()(trained)
    started(grid, tmp_path, 30, policy="full")
    upload_s = np.array(read_run(tmp_path).lists("upload_s"))
    assert (upload_s[1:4, 5] < 1.0).all()
    assert (upload_s[-5:, 5] > 10.0).all()


def test_what_slows_all_of_a_round_breaks_no_promise():
    pace = Pace().grown(5)
    for round_ in range(8):
        slow = 100.0 if round_ < 3 else 1.0
        found = {n: Taken(work_s=0.1, upload_s=slow * (1 + 0.3 * n), promised_s=0.01 * (n + 1))
                 for n in range(5)}  # fmt: skip
        pace = pace.after(found)
    assert not pace.doubted.any()


def test_a_promise_that_is_kept_again_is_believed_again():
    def found(liar_s):
        return {n: Taken(work_s=0.1, upload_s=liar_s if n == 0 else 1.0, promised_s=0.5)
                for n in range(4)}  # fmt: skip

    pace = Pace().grown(4)
    for liar_s, doubted in [(60.0, False), (60.0, False), (60.0, True), (60.0, True), (1.0, True),
                            (1.0, False)]:  # fmt: skip
        pace = pace.after(found(liar_s))
        assert pace.doubted.tolist() == [doubted, False, False, False]
