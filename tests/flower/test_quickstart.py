"""The documented change, with nothing else set, is as good as FedAvg on Flower's quickstart."""

import logging

import numpy as np
import pytest
import torch
from tests.flower.loopback import Loopback, run
from tests.flower.quickstart import PAPER, measured

from fedsched.errors import InputError
from fedsched.flower import ChannelStrategy
from fedsched.runs.runlog import read_run
from fedsched.solve.uplink import PAPER_UPLINK


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_nothing_set_is_as_good_as_fedavg_with_all_nodes(tmp_path):
    names = ("FedAvg, all nodes", "ChannelStrategy, nothing set")
    theirs, ours = (
        [measured(name, tmp_path / name / str(seed), seed)[0] for seed in range(3)]
        for name in names
    )
    assert min(theirs) > 0.9
    assert np.mean(ours) > np.mean(theirs) - 0.01
    assert np.min(np.subtract(ours, theirs)) > -0.02
    for seed in range(3):
        log = read_run(tmp_path / names[1] / str(seed))
        assert list(map(sum, log.lists("weight"))) == pytest.approx([1.0] * 30)
        assert sum(map(len, log.lists("device"))) < 0.9 * 30 * 10  # not everybody, every time


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "size"), [({}, 8), ({"fraction_train": 0.25}, 3), ({"draws": 4}, 4)]
)
@pytest.mark.parametrize("policy", ["lyapunov", "uniform"])
def test_the_weights_of_a_round_stay_within_their_bounds(tmp_path, caplog, policy, devices, size):
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        run(Loopback(10), tmp_path, 30, policy, **{"draws": None, **devices})
    log = read_run(tmp_path)
    assert [len(each) for each in log.lists("device")] == [size] * 30
    for weights in log.lists("weight"):
        assert max(weights) <= 2.0 / size + 1e-12
        assert size / 10 - 1e-12 <= sum(weights) <= 2.0 + 1e-12
    assert caplog.text == ""


def test_a_sum_of_weights_out_of_its_range_is_told_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "flwr.fedsched"):
        run(Loopback(10), tmp_path, 20, "lyapunov", draws=2, uplink=PAPER_UPLINK, options=PAPER)
    sums = [sum(each) for each in read_run(tmp_path).lists("weight")]
    assert sum(not 0.5 <= total <= 2.0 for total in sums) > 3
    assert caplog.text.count("which is not within 0.5 to 2; so long a step may not suit") == 1


def test_the_size_of_a_cohort_follows_the_nodes_that_are_present(tmp_path):
    grid = Loopback(10)

    def evaluate(server_round, model):
        del model
        if server_round == 2:
            for node_id in range(105, 110):
                grid.leave(node_id)

    run(grid, tmp_path, 4, draws=None, policy="lyapunov", evaluate_fn=evaluate)
    assert [len(each) for each in read_run(tmp_path).lists("device")] == [8, 8, 4, 4]


def test_how_many_train_is_said_once(tmp_path):
    with pytest.raises(InputError, match="both say how many nodes train in a round"):
        ChannelStrategy(folder=tmp_path, draws=3, fraction_train=0.5)
    with pytest.raises(InputError, match=r"fraction_train must lie in \(0, 1\], got 0"):
        ChannelStrategy(folder=tmp_path, fraction_train=0.0)
