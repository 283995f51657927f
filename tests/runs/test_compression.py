"""Runs whose updates are compressed: their bits, their clock and what they say of themselves."""

import numpy as np
import pytest
from tests.test_training_rounds import DEVICES, FakePool

from fedsched.analysis.groups import group_runs
from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.compression import Dithered, Sending, TopK
from fedsched.policies import make_policy
from fedsched.radio import Rayleigh
from fedsched.rounds import Air, Training, train
from fedsched.runs.assembly import uplink_of
from fedsched.runs.experiment import run
from fedsched.runs.manifest import MODEL, ROUNDS, read_manifest
from fedsched.runs.scenario import run_name, scenario_from
from fedsched.runs.scenario_file import expand
from fedsched.solve.uplink import PAPER_UPLINK

PARAMETERS = 650  # of softmax on digits


def table(compress, *, kind="uniform", uplink=None):
    return {
        "run": {"rounds": 12, "seed": 3, "eval_every": 4, "checkpoint_every": 4},
        "policy": {"kind": kind, "draws": 3},
        "channel": {"kind": "correlated", "devices": 12},
        "uplink": uplink or {},
        "data": {"samples": 40},
        "training": {"model": "softmax", "steps": 2, "batch_size": 8, "compress": compress},
    }


def bits(folder):
    return (folder / ROUNDS).read_bytes(), (folder / MODEL).read_bytes()


class StoppedError(Exception):
    """Stands for whatever ends a run early."""


def stop_at_six(now):
    if now.round == 6:
        raise StoppedError


@pytest.mark.slow
@pytest.mark.parametrize("compress", ["4", "ternary", "topk-0.05"])
def test_neither_workers_nor_a_stop_change_a_bit(tmp_path, compress):
    scenario = scenario_from(table(compress, kind="lyapunov"))
    run(scenario, tmp_path / "one")
    run(scenario, tmp_path / "two", workers=2)
    with pytest.raises(StoppedError):
        run(scenario, tmp_path / "stopped", progress=stop_at_six)
    run(scenario, tmp_path / "stopped")
    assert bits(tmp_path / "two") == bits(tmp_path / "one")
    assert bits(tmp_path / "stopped") == bits(tmp_path / "one")


def test_the_clock_counts_the_bits_that_were_sent(tmp_path):
    """Uniform chooses the same devices; its power has nothing to do with the bits."""
    plain, four = (
        run(scenario_from(table(each)), tmp_path / each) for each in ("none", "4")
    )  # fmt: skip
    assert four.lists("device") == plain.lists("device")
    share = Dithered(4).bits(PARAMETERS) / (32 * PARAMETERS)
    assert 4.0 / 32 < share < 4.4 / 32  # scales, and a header that counts for something here
    np.testing.assert_allclose(
        four.column("airtime_s"), share * plain.column("airtime_s"), rtol=1e-12
    )
    assert read_manifest(tmp_path / "4")["update_bits"] == Dithered(4).bits(PARAMETERS)
    assert (four.column("train_loss") != plain.column("train_loss"))[1:].all()
    np.testing.assert_allclose(four.column("train_loss"), plain.column("train_loss"), rtol=0.05)
    assert [group.label for group in group_runs([plain, four])] == [
        "uniform compress=4", "uniform compress=none",
    ]  # fmt: skip


def test_bits_that_are_given_count_before_compression():
    def sent(compress, **uplink):
        return uplink_of(scenario_from(table(compress, uplink=uplink)), PARAMETERS).bits

    paper = float(PAPER_UPLINK.bits)
    assert sent("none", bits=77.0) == 77.0
    assert sent("none") == 32 * PARAMETERS
    assert sent("4", bits=paper) == Dithered(4).bits(555_178)  # whatever model stands in for it
    assert sent("4", bits=77.0) == Dithered(4).bits(3)
    assert sent("topk-0.01") == TopK(0.01).bits(PARAMETERS)


def trained(sending, rounds, seed):
    air = Air(
        channel=Rayleigh(np.linspace(0.5, 2.0, DEVICES)),
        policy=make_policy("uniform", uplink=PAPER_UPLINK, draws=3),
        uplink=PAPER_UPLINK,
        seed=seed,
    )
    pool = UnevenPool()
    how = Training(pool=pool, eval_every=99, last_round=rounds - 1, sending=sending)
    return [done for done, _ in train(air, how, pool.initial_parameters)]


class UnevenPool(FakePool):
    """Updates with different numbers, which random rounding changes."""

    def train_cohort(self, parameters, devices, round):  # noqa: A002 - the project's word for t
        for update in super().train_cohort(parameters, devices, round):
            update.delta[:] *= np.array([1.0, 0.3, -0.45], np.float32)
            yield update


@pytest.mark.slow
def test_the_model_moves_by_an_unbiased_sum():
    """Of runs of one round each: the mean of the steps is that of all devices without compression.

    Within 5 standard errors; both the draws and the rounding are random.
    """
    steps = np.array([trained(Sending(Dithered(2)), 1, seed)[0].parameters for seed in range(2000)])
    wanted = np.mean([n + 1.0 for n in range(DEVICES)]) * np.array([1.0, 0.3, -0.45])
    error = np.abs(steps.mean(axis=0) - wanted)
    assert (error <= 5.0 * steps.std(axis=0) / len(steps) ** 0.5).all()


def test_the_server_adds_what_it_decodes():
    plain, coarse = (trained(Sending(each), 3, 1) for each in (None, Dithered(2)))
    assert plain[0].parameters[0] == pytest.approx(coarse[0].parameters[0], rel=0.01)  # a level
    assert plain[0].parameters[1] != pytest.approx(coarse[0].parameters[1], rel=1e-3)


def test_updates_that_cannot_be_sent_are_rejected():
    air = Air(
        channel=Rayleigh(np.ones(DEVICES)), policy=make_policy("full", uplink=PAPER_UPLINK),
        uplink=PAPER_UPLINK, seed=1,
    )  # fmt: skip
    pool = FakePool(broken={3: np.nan, 5: 3e38})  # the second is finite, and too large to encode
    how = Training(pool=pool, eval_every=9, last_round=0, sending=Sending(Dithered(4)))
    ((done, _),) = train(air, how, pool.initial_parameters)
    assert done.rejected == 2
    left = [n + 1.0 for n in range(DEVICES) if n not in (3, 5)]
    assert done.parameters == pytest.approx(np.full(3, sum(left) / DEVICES), rel=0.01)


@pytest.mark.parametrize(
    ("compress", "biased"), [("none", False), ("3", False), ("natural", False), ("topk-0.1", True)]
)
def test_a_run_says_whether_its_compressor_is_biased(tmp_path, compress, biased):
    table_ = table(compress)
    table_["run"]["rounds"] = 1
    assert run(scenario_from(table_), tmp_path).manifest["biased"] is biased


def test_wrong_names_are_refused_by_their_field():
    with pytest.raises(UnknownNameError, match=r"training\.compress: '16' is not known"):
        scenario_from(table("16"))
    with pytest.raises(InputError, match=r"training\.compress: 'topk-7' must end with the share"):
        scenario_from(table("topk-7"))
    with pytest.raises(InputError, match=r"training\.compress must be a text or a whole number"):
        scenario_from(table(4.0))
    with pytest.raises(UnknownNameError, match=r"training\.compress: '0' is not known"):
        scenario_from(table(0))
    with pytest.raises(InputError, match=r"'3-0' must end with how many numbers share a scale"):
        scenario_from(table("3-0"))


def test_none_is_the_run_that_it_was_and_equal_runs_have_one_name():
    without = table("none")
    del without["training"]["compress"]
    assert run_name(scenario_from(without)) == run_name(scenario_from(table("none")))
    four = scenario_from(table("4"))
    assert scenario_from(table("dithered-4")) == scenario_from(table("4-512")) == four
    assert scenario_from(table(4)) == four
    assert four.as_dict()["training"]["compress"] == "4"
    assert scenario_from(table("dithered-3-128")) == scenario_from(table("3-128")) != four


def test_a_sweep_has_a_short_name_for_it():
    swept = expand({**table("none"), "sweep": {"compress": ["none", "4", 4, "3-128"]}})
    assert [each.training.compress for each in swept] == ["none", "4", "3-128"]
