"""The strategy against nodes that come, go and fail, in one process."""

import logging
import math

import numpy as np
import pytest
from click.testing import CliRunner
from flwr.app import MessageType
from flwr.serverapp.strategy import FedAdam, FedAvgM, FedYogi
from tests.flower.loopback import (
    FAILURES,
    MODEL,
    Loopback,
    StoppedError,
    app,
    arrays,
    changed,
    delta_of,
    nan,
    raises,
    record,
    run,
    same,
    silent,
    stop_at,
    too_large,
)

from fedsched.cli.report import command
from fedsched.errors import InputError
from fedsched.flower import ChannelStrategy
from fedsched.flower import present as present_module
from fedsched.flower import strategy as module
from fedsched.flower.federation import FederationState
from fedsched.flower.protocol import CHANNEL_QUERY
from fedsched.policies import make_policy, policy_names
from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.runlog import read_run
from fedsched.solve.uplink import PAPER_UPLINK

FLOATS = ("net.0.weight", "net.0.bias")
COUNTER = "net.1.num_batches_tracked"
COLUMNS = ("device", "weight", "power_w", "upload_s", "group_power_w")


def expected(folder, lost=()):
    """The model by hand, from the cohorts and weights of the log: x + sum w (y - x)."""
    log = read_run(folder)
    model = {name: MODEL[name].astype(np.float64) for name in FLOATS}
    for t, (cohort, weights) in enumerate(
        zip(log.lists("device"), log.lists("weight"), strict=True)
    ):
        for n, w in zip(cohort, weights, strict=True):
            for name in () if (t, n) in lost else FLOATS:
                model[name] = model[name] + w * delta_of(str(n), t, name)
    return model


def close(model, wanted):
    return all(np.allclose(model[name], wanted[name], rtol=1e-5, atol=1e-6) for name in FLOATS)


def queue(folder):
    return read_checkpoint(folder).policy["queue.power"]


# --- the sum --------------------------------------------------------------------------------------


def test_the_model_moves_by_the_weighted_sum_and_is_not_renormalised(tmp_path):
    _, done = run(Loopback(6), tmp_path, 4, "lyapunov")
    weights = read_run(tmp_path).lists("weight")
    assert all(abs(sum(each) - 1.0) > 0.01 for each in weights)  # an average would show
    assert close(arrays(done.arrays), expected(tmp_path))
    assert not close(arrays(done.arrays), MODEL)


def test_the_order_of_replies_does_not_change_a_bit(tmp_path):
    models = []
    for place, order in (("a", None), ("b", lambda replies: replies[::-1])):
        _, done = run(Loopback(6, order=order), tmp_path / place, 4, "lyapunov", draws=6)
        models.append(arrays(done.arrays))
    assert max(map(len, read_run(tmp_path / "a").lists("device"))) > 2
    assert same(*models)


def test_counters_keep_the_value_of_the_server(tmp_path):
    for place, optimiser in (
        ("plain", None),
        ("adam", FedAdam()),
        ("m", FedAvgM(server_momentum=0.9)),
    ):
        _, done = run(Loopback(), tmp_path / place, 2, optimiser=optimiser)
        counter = arrays(done.arrays)[COUNTER]
        assert counter == 7 and counter.dtype == np.int64


# --- nodes that fail ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", FAILURES)
def test_an_update_that_cannot_be_used_is_left_out_and_still_paid_for(tmp_path, how):
    grid = Loopback(3)
    grid.fail(FAILURES[how], "train", node_id=101)
    _, done = run(grid, tmp_path / "bad", 2, options={"power": "queue"})
    run(Loopback(3), tmp_path / "good", 2, options={"power": "queue"})
    log = read_run(tmp_path / "bad")
    assert log.column("rejected").tolist() == [1.0, 1.0]
    assert log.lists("device") == [[0, 1, 2]] * 2
    assert close(arrays(done.arrays), expected(tmp_path / "bad", lost={(0, 1), (1, 1)}))
    assert queue(tmp_path / "bad")[1] > 0.0
    assert np.array_equal(queue(tmp_path / "bad"), queue(tmp_path / "good"))


def test_a_node_that_loses_replies_counts_for_more_when_one_arrives(tmp_path):
    def before(grid, batch):
        grid.fail(nan if len(grid.asked("train")) <= 2 else None, "train", node_id=101)
        del batch

    _, done = run(Loopback(3, before=before), tmp_path, 5)
    log = read_run(tmp_path)
    assert log.lists("device") == [[0, 1, 2]] * 5
    assert log.column("rejected").tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    # Two attempts fail and the third arrives, as the first that does; then waits of 3, and of 3
    # and 1, have been seen.
    times = {(0, 1): 0.0, (1, 1): 0.0, (3, 1): 3.0, (4, 1): 2.0}
    model = {name: MODEL[name].astype(np.float64) for name in FLOATS}
    for t, weights in enumerate(log.lists("weight")):
        for n, w in enumerate(weights):
            for name in FLOATS:
                own = times.get((t, n), 1.0) * w * delta_of(str(n), t, name)
                model[name] = model[name] + (own if times.get((t, n), 1.0) else 0.0)
    assert close(arrays(done.arrays), model)


def test_finite_numbers_whose_difference_is_not_are_left_out(tmp_path):
    grid = Loopback(2)
    grid.fail(too_large, "train", node_id=101)
    far = {**MODEL, "net.0.bias": np.full(2, -3e38, np.float32)}
    _, done = run(grid, tmp_path, 1, initial=far)
    assert read_run(tmp_path).column("rejected").tolist() == [1.0]
    assert all(np.isfinite(each).all() for each in arrays(done.arrays).values())


def test_a_round_whose_whole_cohort_fails_leaves_the_model_as_it_is(tmp_path):
    def before(grid, batch):
        failing = len(grid.asked("train")) == 2
        for node_id in grid.nodes:
            grid.fail(nan if failing else None, "train", node_id=node_id)
        del batch

    seen = []
    run(Loopback(before=before), tmp_path, 3, evaluate_fn=lambda t, m: seen.append(arrays(m)))  # noqa: ARG005
    assert same(seen[1], seen[2])
    assert not same(seen[0], seen[1]) and not same(seen[2], seen[3])
    assert read_run(tmp_path).column("rejected").tolist() == [0.0, 3.0, 0.0]


def test_the_reason_of_a_failure_is_told(tmp_path, caplog):
    grid = Loopback()
    grid.fail(raises, "train", node_id=101)
    grid.fail(raises, "query", node_id=102)
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        run(grid, tmp_path, 1)
    assert "the update of device 1 is lost: its node failed: ValueError: no data" in caplog.text
    assert "node 102 did not tell its gain: its node failed: ValueError: no data" in caplog.text


@pytest.mark.parametrize("kind", ["train", "query"])
def test_a_node_that_keeps_failing_is_asked_less_and_less_and_comes_back(tmp_path, kind):
    grid = Loopback(2)
    grid.fail(silent, kind, node_id=101)
    message = MessageType.TRAIN if kind == "train" else CHANNEL_QUERY
    asked = []

    def note(server_round, model):
        del model
        asked.append(sum(101 in each for each in grid.asked(message)))
        if server_round == 15:
            grid.fail(None, kind, node_id=101)

    run(grid, tmp_path, 20, evaluate_fn=note)
    new = np.flatnonzero(np.diff(asked))  # rounds in which it was asked
    assert new[new < 15].tolist() == [0, 1, 3, 7]
    present = [t for t, cohort in enumerate(read_run(tmp_path).lists("device")) if len(cohort) == 2]
    assert [t for t in present if t >= 15] == [15, 16, 17, 18, 19]


def test_if_all_rest_all_are_asked(tmp_path):
    grid = Loopback(2)
    for node_id in (100, 101):
        grid.fail(silent, "train", node_id=node_id)
    run(grid, tmp_path, 6)
    assert [len(each) for each in grid.asked("train")] == [2] * 6


# --- nodes that come and go -----------------------------------------------------------------------


def test_a_new_node_starts_with_an_empty_queue(tmp_path, monkeypatch):
    grid = Loopback(3)
    run(grid, tmp_path, 3, "lyapunov", options={"start": "empty"})
    before = queue(tmp_path)
    assert before.max() > 0.0
    grid.join(3)
    decided = []
    schedule_round = present_module.schedule_round

    def spy(air, state, measure):
        decided.append(state.policy["queue.power"])
        return schedule_round(air, state, measure)

    monkeypatch.setattr(present_module, "schedule_round", spy)
    run(grid, tmp_path, 4, "lyapunov", options={"start": "empty"})
    assert np.array_equal(decided[0], [*before, 0.0])
    assert len(queue(tmp_path)) == 4
    assert read_checkpoint(tmp_path).memory["joined"].tolist() == [0, 0, 0, 3]


def test_a_restarted_node_keeps_number_and_queue(tmp_path):
    grid = Loopback(3)
    run(grid, tmp_path / "restart", 3, "lyapunov")
    grid.leave(101)
    grid.join(1, node_id=999)
    run(grid, tmp_path / "restart", 8, "lyapunov")
    run(Loopback(3), tmp_path / "calm", 8, "lyapunov")
    assert np.array_equal(queue(tmp_path / "restart"), queue(tmp_path / "calm"))
    saved = read_checkpoint(tmp_path / "restart").memory
    assert saved["fleet.name"].tolist() == ["0", "1", "2"]
    assert saved["fleet.node"].tolist() == [100, 999, 102]
    assert read_run(tmp_path / "restart").lists("device") == read_run(tmp_path / "calm").lists(
        "device"
    )


def test_a_node_that_leaves_is_as_if_not_there(tmp_path):
    grid = Loopback(3)

    def evaluate(server_round, model):
        del model
        if server_round == 2:
            grid.leave(102)

    run(grid, tmp_path, 4, evaluate_fn=evaluate)
    log = read_run(tmp_path)
    assert log.lists("device") == [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1]]
    assert log.lists("weight")[3] == [0.5, 0.5]


def test_a_round_waits_while_nobody_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_POLL_S", 0.0)
    grid = Loopback(1)
    polls = []

    def node_ids():
        polls.append(len(grid.nodes))
        if len(polls) > 20 and not grid.nodes:
            grid.join(0)
        return list(grid.nodes)

    grid.get_node_ids = node_ids

    def evaluate(server_round, model):
        del model
        if server_round == 1:
            grid.leave(100)

    run(grid, tmp_path, 3, evaluate_fn=evaluate, min_available_nodes=1)
    assert read_run(tmp_path).lists("device") == [[0], [0], [0]]
    assert polls.count(0) > 5


def test_a_name_that_changes_in_training_does_not_break_the_run(tmp_path):
    def rename(content):
        content["fedsched"]["device"] = "a new name"

    grid = Loopback(3)
    grid.fail(changed(rename), "train", node_id=101)
    for name in ("lyapunov", "oort"):
        run(grid, tmp_path / name, 3, name)
        assert read_checkpoint(tmp_path / name).memory["fleet.name"].tolist() == ["0", "1", "2"]


def learnt_without_losses(folder, name):
    """What a policy knows after rounds in which no node reported a loss."""
    grid = Loopback(3)
    for node_id in grid.nodes:
        grid.fail(changed(lambda c: c["metrics"].pop("train_loss")), "train", node_id=node_id)
    run(grid, folder, 6, name, draws=3)
    return read_checkpoint(folder).policy


def test_updates_teach_without_a_loss_those_who_do_not_read_it(tmp_path):
    for name, key in (("adaptive-sampling", "largest"), ("clustered-similarity", "update")):
        known = learnt_without_losses(tmp_path / name, name)[key]
        took_part = set().union(*read_run(tmp_path / name).lists("device"))
        assert np.flatnonzero(np.nan_to_num(known).reshape(3, -1).any(axis=1)).tolist() == sorted(
            took_part
        )


@pytest.mark.parametrize("name", ["oort", "active-fl", "power-of-choice-stale"])
def test_a_lost_loss_teaches_nothing_to_those_who_read_it(tmp_path, name):
    known = learnt_without_losses(tmp_path, name)["utility" if name == "oort" else "loss"]
    assert not np.isfinite(known).any()
    assert np.isinf(known).all() == (name == "power-of-choice-stale")  # as at the start


# --- restarts -------------------------------------------------------------------------------------

OPTIMISERS = {
    "none": lambda: None,
    "FedAdam": FedAdam,
    "FedYogi": FedYogi,
    "FedAvgM": lambda: FedAvgM(server_momentum=0.9, server_learning_rate=0.7),
}


def assert_same_runs(a, b):
    ours, theirs = read_run(a), read_run(b)
    for column in COLUMNS:
        assert ours.lists(column) == theirs.lists(column)
    for column in ("airtime_s", "train_loss", "worst_power_w"):
        assert np.array_equal(ours.column(column), theirs.column(column), equal_nan=True)
    ours, theirs = read_checkpoint(a), read_checkpoint(b)
    assert ours.memory.keys() == theirs.memory.keys()
    for part in ("policy", "memory"):
        for name, value in getattr(ours, part).items():
            assert np.array_equal(value, getattr(theirs, part)[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("where", ["evaluate_fn", "grid"])
def test_a_restarted_server_ends_where_an_undisturbed_one_does(tmp_path, optimiser, where):
    def stop(server_round, model):
        del model
        if server_round == 4:
            raise StoppedError

    make = OPTIMISERS[optimiser]
    whole = run(Loopback(5), tmp_path / "whole", 7, "lyapunov", optimiser=make())[1]
    grid = Loopback(5, before=stop_at(6) if where == "grid" else None)
    with pytest.raises(StoppedError):
        run(
            grid, tmp_path / "cut", 7, "lyapunov", optimiser=make(),
            evaluate_fn=stop if where == "evaluate_fn" else None,
        )  # fmt: skip
    assert 0 < read_run(tmp_path / "cut").rounds < 7
    resumed = run(Loopback(5), tmp_path / "cut", 7, "lyapunov", optimiser=make())[1]
    assert same(arrays(whole.arrays), arrays(resumed.arrays))
    assert_same_runs(tmp_path / "whole", tmp_path / "cut")


def test_the_same_object_can_be_started_again_after_its_first_round_failed(tmp_path):
    made = ChannelStrategy(
        "full", folder=tmp_path / "a", seed=5, draws=2, uplink="paper", optimiser=FedAdam()
    )

    def stop(server_round, model):
        del model
        if server_round == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        made.start(Loopback(), record(), num_rounds=3, timeout=60.0, evaluate_fn=stop)
    again = made.start(Loopback(), record(), num_rounds=3, timeout=60.0)
    _, whole = run(Loopback(), tmp_path / "b", 3, optimiser=FedAdam())
    assert same(arrays(again.arrays), arrays(whole.arrays))
    assert_same_runs(tmp_path / "a", tmp_path / "b")


def test_a_finished_run_needs_no_nodes(tmp_path):
    _, done = run(Loopback(), tmp_path, 2)
    _, again = run(Loopback(0), tmp_path, 2)
    assert same(arrays(done.arrays), arrays(again.arrays))
    assert read_run(tmp_path).finished


# --- policies -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", list(policy_names()))
def test_every_policy_runs_by_name(tmp_path, name):
    client = app(feedback=lambda m, c, kind: 1.0 + int(c.node_config["partition-id"]))  # noqa: ARG005
    _, done = run(Loopback(5, client), tmp_path, 3, name, bounds="off")
    assert read_run(tmp_path).rounds == 3
    assert sum(map(len, read_run(tmp_path).lists("device"))) > 0
    assert close(arrays(done.arrays), expected(tmp_path))


@pytest.mark.parametrize("name", ["oort", "round-robin", "clustered-similarity", "lyapunov"])
def test_policies_with_memory_live_with_nodes_that_come_and_go(tmp_path, name):
    grid = Loopback(3)

    def evaluate(server_round, model):
        del model
        if server_round == 2:
            grid.join(3)
            grid.leave(100)
        if server_round == 4:
            grid.join(0)

    run(grid, tmp_path, 7, name, evaluate_fn=evaluate)
    log = read_run(tmp_path)
    assert all(0 not in cohort for cohort in log.lists("device")[2:4])
    assert {n for cohort in log.lists("device") for n in cohort} == {0, 1, 2, 3}


def test_a_policy_object_does_what_its_name_does(tmp_path):
    own = {"design": "independent", "lam": 3.0, "v": 50.0, "start": "empty", "qmin": 0.1}
    made = make_policy("lyapunov", uplink=PAPER_UPLINK, draws=2, budget_w=1.0, **own)
    _, by_object = run(Loopback(5), tmp_path / "a", 3, made, uplink=PAPER_UPLINK)
    _, by_name = run(Loopback(5), tmp_path / "b", 3, "lyapunov", uplink=PAPER_UPLINK, options=own)
    assert same(arrays(by_object.arrays), arrays(by_name.arrays))


def test_answers_that_are_no_numbers_do_not_stop_the_run(tmp_path):
    for place, value in (("nan", math.nan), ("negative", -1.0), ("inf", math.inf)):
        client = app(feedback=lambda m, c, k, value=value: value)  # noqa: ARG005
        run(Loopback(3, client), tmp_path / place, 2, "power-of-choice")
        assert read_run(tmp_path / place).lists("device") == [[], []]


def test_fixed_shares_and_unknown_names_are_refused_at_once(tmp_path):
    shares = np.array([0.5, 0.5])
    with pytest.raises(InputError, match="data_weight must be None"):
        ChannelStrategy("full", folder=tmp_path, options={"data_weight": shares})
    with pytest.raises(InputError, match="did you mean 'lyapunov'"):
        ChannelStrategy("lyapunow", folder=tmp_path)
    with pytest.raises(InputError, match="fraction_evaluate"):
        ChannelStrategy("full", folder=tmp_path, fraction_evaluate=1.5)
    with pytest.raises(InputError, match="options: 'draws' is an argument of the strategy itself"):
        ChannelStrategy("full", folder=tmp_path, options={"draws": 3})
    with pytest.raises(InputError, match="uplink must be a fedsched Uplink, 'paper' or None"):
        ChannelStrategy("full", folder=tmp_path, uplink=3)


# --- gains ----------------------------------------------------------------------------------------


def test_exactly_those_who_did_not_train_in_the_round_before_are_asked(tmp_path):
    grid = Loopback(5)
    run(grid, tmp_path, 5, "lyapunov")
    cohorts = grid.asked(MessageType.TRAIN)
    asked = grid.asked(CHANNEL_QUERY)
    assert asked[0] == [100, 101, 102, 103, 104]
    for before, now in zip(cohorts, asked[1:], strict=False):
        assert now == sorted(set(grid.nodes) - set(before))


def test_a_larger_age_asks_less(tmp_path):
    counts = []
    for age in (0, 2):
        grid = Loopback(5)
        run(grid, tmp_path / str(age), 6, "lyapunov", max_age_rounds=age)
        counts.append(sum(map(len, grid.asked(CHANNEL_QUERY))))
    assert counts[1] < counts[0]


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf, -math.inf, None, 5e-324, 1.7e308])
@pytest.mark.parametrize("policy", ["lyapunov", "best-channel"])
def test_a_gain_that_is_none_makes_a_node_unreachable_for_the_round(tmp_path, policy, bad):
    client = app(lambda c, t: bad if c.node_config["partition-id"] == 1 and t == 1 else 2.0)
    run(Loopback(2, client), tmp_path, 3, policy, draws=20)
    assert read_run(tmp_path).lists("device") == [[0, 1], [0], [0, 1]]


# --- evaluation and the report --------------------------------------------------------------------


def test_nodes_evaluate_and_odd_answers_are_left_out(tmp_path):
    grid = Loopback(4)
    grid.fail(
        changed(lambda c: c["metrics"].update({"accuracy": math.nan})), "evaluate", node_id=101
    )
    grid.fail(changed(lambda c: c["metrics"].update({"num-examples": 0})), "evaluate", node_id=102)
    run(grid, tmp_path, 2, fraction_evaluate=1.0)
    log = read_run(tmp_path)
    assert np.allclose(log.column("test_accuracy"), (1 * 0.0 + 4 * 0.3) / 5)
    assert [len(each) for each in grid.asked(MessageType.EVALUATE)] == [4, 4]


def test_a_share_of_the_nodes_is_rounded_up(tmp_path):
    grid = Loopback(4)
    run(grid, tmp_path, 2, fraction_evaluate=0.3)
    assert [len(each) for each in grid.asked(MessageType.EVALUATE)] == [2, 2]


def test_the_worst_average_power_is_over_the_rounds_since_a_device_joined():
    state = FederationState(round=10, spent_w=np.array([10.0, 8.0]), joined=np.array([0, 8]))
    assert state.worst_power_w == 4.0
    assert FederationState().worst_power_w == 0.0


def test_the_report_draws_the_run(tmp_path):
    run(Loopback(4), tmp_path / "run", 4, "lyapunov", fraction_evaluate=0.5)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(command, [str(tmp_path / "run"), "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert "1 run, 1 configuration" in done.output
    assert "lyapunov" in page.read_text()
