"""Runs whose updates are compressed: their bits, their clock and what they say of themselves."""

from dataclasses import replace

import numpy as np
import pytest
from tests.test_training_rounds import DEVICES, FakePool

from fedsched.analysis.groups import group_runs
from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.compression import AUTO, Dithered, Sending, TopK, decode
from fedsched.policies import POLICIES, make_policy
from fedsched.radio import Rayleigh
from fedsched.radio.access import TDMA
from fedsched.randomness import stream
from fedsched.rounds import Air, Training, train
from fedsched.runs.assembly import schedule_of, uplink_of
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
@pytest.mark.parametrize(
    ("compress", "kind"),
    [
        ("4", "lyapunov"),
        ("ternary", "auto"),
        ("topk-0.05", "lyapunov"),
        ("auto", "lyapunov"),
        ("auto", "auto"),
        ("auto", "uniform"),
    ],
)
def test_neither_workers_nor_a_stop_change_a_bit(tmp_path, compress, kind):
    scenario = scenario_from(table(compress, kind=kind))
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


LONG = 2048  # numbers of an update


class SpikyPool(FakePool):
    """Updates with one large number in each 256: short buckets suffer less of it."""

    @property
    def initial_parameters(self):
        return np.zeros(LONG, np.float32)

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002 - the project's word for t
        for n, update in zip(
            devices.tolist(), super().train_cohort(parameters, devices, round, work), strict=True
        ):
            yield replace(update, delta=spiky(n, round))


def spiky(n, t):
    x = stream(7, "test", t, n).normal(size=LONG).astype(np.float32)
    x[::256] *= np.float32(20.0)
    return x


def chosen_rounds(policy, rounds=6, access=TDMA(), **options):
    sending = Sending(AUTO)
    sizes = sending.sizes(LONG)
    link = replace(PAPER_UPLINK, bits=float(sizes.bits[sizes.best]))
    air = Air(
        channel=Rayleigh(np.linspace(0.5, 2.0, DEVICES)),
        policy=make_policy(policy, uplink=link, draws=3, access=access, **options),
        uplink=link, seed=3, sizes=sizes, access=access,
    )  # fmt: skip
    how = Training(pool=SpikyPool(), eval_every=9, last_round=rounds - 1, sending=sending)
    return train(air, how, np.zeros(LONG, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_sends_the_best_size_and_counts_it(policy):
    seen = []  # omega of every update so far
    for done, state in chosen_rounds(policy):
        scheduled, decision = done.scheduled, done.scheduled.decision
        devices, t = scheduled.cohort.device, scheduled.round
        known = np.mean(seen, axis=0) if seen else [each.gaussian_omega() for each in AUTO]
        best = int(np.argmin((1.0 + np.array(known)) * [each.bits(LONG) for each in AUTO]))
        if policy not in ("lyapunov", "auto"):  # which have prices of their own
            assert (decision.sizes_sent == best).all()
        sent = [AUTO[size] for size in decision.sizes_sent]
        assert decision.bits_sent.tolist() == [each.bits(LONG) for each in sent]
        alone = replace(PAPER_UPLINK, bits=1.0)
        one_bit_s = alone.airtime_s(scheduled.gain[devices], decision.power_w[devices])
        np.testing.assert_allclose(scheduled.upload_s, decision.bits_sent * one_bit_s, rtol=1e-12)
        told = [[each.expected_omega(spiky(n, t)) for each in AUTO] for n in devices.tolist()]
        seen += told
        own = [row[size] for row, size in zip(told, decision.sizes_sent, strict=True)]
        assert done.omega == pytest.approx(np.mean(own) if own else np.nan, nan_ok=True)
        if seen:
            np.testing.assert_allclose(state.memory["omega"], np.mean(seen, axis=0), rtol=1e-12)
        assert state.memory["omega_updates"] == len(seen)
    assert AUTO[best].bucket < 512  # as the large numbers ask for


def test_what_the_server_adds_was_sent_in_the_chosen_size():
    ((done, _),) = chosen_rounds("lyapunov", rounds=1)
    cohort = done.scheduled.cohort
    step = np.zeros(LONG)
    for n, w, size in zip(
        cohort.device.tolist(), cohort.weight, done.scheduled.decision.sizes_sent, strict=True
    ):
        payload = AUTO[size].encode(spiky(n, 0), stream(3, "compression", 0, n))
        assert len(payload) * 8 == AUTO[size].bits(LONG)
        step += w * decode(payload, LONG)
    np.testing.assert_allclose(done.parameters, step, rtol=1e-5, atol=1e-5)


def test_several_compressors_without_their_sizes_are_refused():
    with pytest.raises(InputError, match=r"air\.sizes must be given"):
        trained(Sending(AUTO), 1, 1)
    with pytest.raises(InputError, match="a biased one has residuals of its own"):
        Sending((Dithered(4), TopK(0.1)))


def test_chosen_bits_are_in_the_log(tmp_path):
    """And the clock is theirs: uniform's powers have nothing to do with bits."""
    plain, chosen = (run(scenario_from(table(each)), tmp_path / each) for each in ("none", "auto"))
    assert plain.lists("device") == chosen.lists("device")
    assert np.isnan(plain.column("omega")).all()
    assert (chosen.column("omega") > 0.0).all()
    bits_, times = chosen.lists("bits"), chosen.lists("upload_s")
    for row, own, was in zip(bits_, times, plain.lists("upload_s"), strict=True):
        np.testing.assert_allclose(own, np.array(was) * row / (32 * PARAMETERS), rtol=1e-12)
    assert {*plain.lists("bits")[0]} == {32.0 * PARAMETERS}
    assert not chosen.manifest["biased"]


def test_a_replay_cannot_know_what_was_chosen(tmp_path):
    run(scenario_from(table("auto")), tmp_path / "one")
    other = table("auto") | {"channel": {"kind": "homogeneous", "devices": 12}}
    with pytest.raises(InputError, match=r"training_of: training\.compress = 'auto' chooses bits"):
        run(scenario_from(other), tmp_path / "two", training_of=tmp_path / "one")


def test_a_schedule_alone_takes_updates_for_gaussian():
    scenario = scenario_from(table("auto"))
    done = next(schedule_of(scenario, PARAMETERS))
    assert done.decision.bits_sent.tolist() == [uplink_of(scenario, PARAMETERS).bits] * 3


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

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002 - the project's word for t
        for update in super().train_cohort(parameters, devices, round, work):
            update.delta[:] *= np.array([1.0, 0.3, -0.45], np.float32)
            yield update


@pytest.mark.slow
def test_the_model_moves_by_an_unbiased_sum():
    """Of runs of one round each: the mean of the steps is that of all devices without compression.

    Within 5 standard errors; both the draws and the rounding are random.
    """
    steps = np.array(
        [trained(Sending((Dithered(2),)), 1, seed)[0].parameters for seed in range(2000)]
    )
    wanted = np.mean([n + 1.0 for n in range(DEVICES)]) * np.array([1.0, 0.3, -0.45])
    error = np.abs(steps.mean(axis=0) - wanted)
    assert (error <= 5.0 * steps.std(axis=0) / len(steps) ** 0.5).all()


def test_the_server_adds_what_it_decodes():
    plain, coarse = (trained(Sending(each), 3, 1) for each in ((), (Dithered(2),)))
    assert plain[0].parameters[0] == pytest.approx(coarse[0].parameters[0], rel=0.01)  # a level
    assert plain[0].parameters[1] != pytest.approx(coarse[0].parameters[1], rel=1e-3)


def test_updates_that_cannot_be_sent_are_rejected():
    air = Air(
        channel=Rayleigh(np.ones(DEVICES)), policy=make_policy("full", uplink=PAPER_UPLINK),
        uplink=PAPER_UPLINK, seed=1,
    )  # fmt: skip
    pool = FakePool(broken={3: np.nan, 5: 3e38})  # the second is finite, and too large to encode
    how = Training(pool=pool, eval_every=9, last_round=0, sending=Sending((Dithered(4),)))
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
