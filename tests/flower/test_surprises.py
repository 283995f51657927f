"""Runs that do not surprise: what a folder holds, and what is refused or said."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import ConfigRecord
from tests.flower.loopback import MODEL, Loopback, arrays, record, run, same, silent, strategy

from fedsched.errors import FedschedError, InputError
from fedsched.flower import strategy as module
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.runlog import read_manifest, read_run

OTHER = {**MODEL, "net.0.bias": MODEL["net.0.bias"] + np.float32(1.0)}


class Known(Loopback):
    """A grid that knows its run, as Flower's do."""

    def __init__(self, *args, run_id=7, app="abc", config=None, **options):
        super().__init__(*args, **options)
        self._run = SimpleNamespace(run_id=run_id, fab_hash=app, override_config=config or {})

    @property
    def run(self):
        return self._run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "_POLL_S", 0.0)


def started(folder, rounds, grid=None, initial=None, train=None, **options):
    return strategy(folder, **options).start(
        grid or Loopback(), record(initial), num_rounds=rounds, timeout=60.0,
        train_config=None if train is None else ConfigRecord(train),
    )  # fmt: skip


def test_the_folder_holds_what_the_run_was_given(tmp_path):
    started(tmp_path, 1, Known(config={"lr": 0.1}), train={"epochs": 2, "key": b"secret"})
    started(tmp_path, 2, Known(run_id=8, config={"lr": 0.1}), train={"epochs": 2, "key": b"secret"})
    there = read_manifest(tmp_path)
    assert there["config"]["run"] == {"lr": 0.1}
    assert there["config"]["train"]["epochs"] == 2
    assert b"secret" not in (tmp_path / "manifest.json").read_bytes()
    assert there["flower_runs"] == ["7", "8"]
    assert there["app"] == "abc"
    assert len(there["initial_arrays"]) == 64


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"train": {"lr": 0.2}}, ["train_config.lr = 0.1, this one has 0.2"]),
        ({"train": {}}, ["train_config.lr = 0.1, this one has None"]),
        ({"grid": {"config": {"batch": 8}}}, ["run_config.batch = 4, this one has 8"]),
        ({"run_config": {"momentum": 0.9}}, ["run_config.momentum = None, this one has 0.9"]),
        (
            {"train": {"lr": 0.2}, "seed": 6},
            ["run.seed = 5, this one has 6", "train_config.lr = 0.1, this one has 0.2"],
        ),
    ],
)
def test_another_configuration_is_refused_with_all_that_differs(tmp_path, other, words):
    started(tmp_path, 2, Known(config={"batch": 4}), train={"lr": 0.1})
    grid = Known(**other.get("grid", {"config": {"batch": 4}}))
    options = {"train": {"lr": 0.1}, **{k: v for k, v in other.items() if k != "grid"}}
    with pytest.raises(InputError, match="choose another folder or delete this one") as caught:
        started(tmp_path, 3, grid, **options)
    assert all(each in str(caught.value) for each in words)


def test_the_number_of_rounds_and_the_place_are_no_configuration(tmp_path):
    for rounds in (2, 4):
        config = {"num-rounds": rounds, "folder": str(tmp_path), "lr": 2}
        started(tmp_path, rounds, Known(config=config))
    assert read_run(tmp_path).rounds == 4
    with pytest.raises(InputError, match=r"run_config.lr = 2, this one has 4"):
        started(tmp_path, 5, Known(config={**config, "num-rounds": 5, "lr": 4}))


def test_a_finished_run_says_so(tmp_path, caplog):
    done = started(tmp_path, 2)
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        again = started(tmp_path, 2, Loopback(0))
    assert same(arrays(done.arrays), arrays(again.arrays))
    assert "is finished: its 2 rounds are done and nothing is trained" in caplog.text


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"initial": OTHER}, "and its initial arrays were others; nothing would be trained"),
        ({"grid": {"app": "def"}}, "and its app has changed since; nothing would be trained"),
    ],
)
def test_a_finished_run_of_another_origin_is_refused(tmp_path, other, words):
    started(tmp_path, 2, Known())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=words):
        started(tmp_path, 2, Known(**other.get("grid", {})), initial=other.get("initial"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_that_goes_on_says_which_arrays_it_does_not_use(tmp_path, caplog):
    started(tmp_path, 2)
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        longer = started(tmp_path, 3, initial=OTHER)
    assert "goes on after round 2 with its own model, although its initial arrays" in caplog.text
    whole = started(tmp_path / "whole", 3)
    assert same(arrays(longer.arrays), arrays(whole.arrays))


def test_without_a_folder_nothing_is_kept_and_a_second_start_trains_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = strategy(None)
    first, second = (made.start(Loopback(), record(), num_rounds=2, timeout=60.0) for _ in range(2))
    assert list(tmp_path.iterdir()) == []
    assert same(arrays(first.arrays), arrays(second.arrays))
    assert not same(arrays(first.arrays), MODEL)


# --- rounds without anybody -----------------------------------------------------------------------


def test_tries_in_which_nobody_can_be_asked_do_not_count(tmp_path, caplog):
    """The second to fourth time that all are asked, nobody answers."""

    def before(grid, batch):
        asked = len(grid.asked("query.fedsched_channel"))
        for node_id in grid.nodes:
            grid.fail(silent if 2 <= asked <= 4 else None, "query", node_id=node_id)
        del batch

    grid = Loopback(2, before=before)
    client = grid.client
    for node in grid.nodes.values():
        node.app = lambda message, context: _without_report(client(message, context))
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        _, done = run(grid, tmp_path, 3, "full")
    log = read_run(tmp_path)
    assert log.lists("device") == [[0, 1]] * 3
    assert log.column("round").tolist() == [0, 1, 2]
    assert len(done.train_metrics_clientapp) == 3
    assert "this is no round, and is tried again (3 of 5)" in caplog.text


def _without_report(reply):
    """As of a client app that says its gain only when it is asked."""
    if "arrays" in reply.content:
        reply.content.pop("fedsched", None)
    return reply


@pytest.mark.parametrize("most", [1, 4])
def test_too_many_of_them_end_the_run_with_a_sentence(tmp_path, most):
    grid = Loopback(2)
    for node_id in grid.nodes:
        grid.fail(silent, "query", node_id=node_id)
    with pytest.raises(FedschedError, match=f"none of 2 nodes has told a gain.*{most} times"):
        run(grid, tmp_path, 3, max_idle_rounds=most)
    assert len(grid.asked("query.fedsched_channel")) == most
    assert rounds_done(tmp_path) == 0
    for node_id in grid.nodes:
        grid.fail(None, "query", node_id=node_id)
    run(grid, tmp_path, 3, max_idle_rounds=most)  # and it can go on
    assert read_run(tmp_path).finished


# --- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_can_be_rarer_and_the_run_ends_the_same(tmp_path, monkeypatch):
    from fedsched.runs import folder as folder_module

    written = []
    write = folder_module.write_checkpoint

    def counted(folder, checkpoint):
        written.append(checkpoint.round)
        return write(folder, checkpoint)

    monkeypatch.setattr(folder_module, "write_checkpoint", counted)
    _, often = run(Loopback(4), tmp_path / "a", 7, "lyapunov")
    assert written == [1, 2, 3, 4, 5, 6, 7]
    written.clear()
    _, rarely = run(Loopback(4), tmp_path / "b", 7, "lyapunov", checkpoint_every=3)
    assert written == [3, 6, 7]
    assert same(arrays(often.arrays), arrays(rarely.arrays))
    assert read_run(tmp_path / "a").lists("weight") == read_run(tmp_path / "b").lists("weight")
    assert json.loads((tmp_path / "b" / "manifest.json").read_text())
