"""Training with policies that learn, and with a server that remembers."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.aggregation import make_aggregator
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.updates import Evaluation, LocalUpdate
from fedsched.policies import POLICIES, Need, make_policy
from fedsched.policies.loss_based import Oort
from fedsched.radio import Rayleigh
from fedsched.rounds import Air, Training, schedule, train
from fedsched.runs import experiment
from fedsched.runs.scenario import scenario_from
from fedsched.solve.uplink import PAPER_UPLINK

DEVICES = 8
CHANNEL = Rayleigh(np.linspace(0.5, 2.0, DEVICES))
LEARNING = [
    name for name in POLICIES if make_policy(name, uplink=PAPER_UPLINK, draws=3).needs - {Need.GAIN}
]


class FakePool(AbstractTrainingPool):
    """Device n moves the model by n + 1 in each of three places and has the loss n + 1.

    The update of those ``broken`` is not finite, the loss of those ``lossless`` is not.
    """

    def __init__(self, broken=(), lossless=()):
        self.broken, self.lossless, self.asked, self.trained = broken, lossless, [], []

    @property
    def initial_parameters(self):
        return np.zeros(3, np.float32)

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002 - the project's word for t
        del parameters, work
        for device in devices:
            self.trained.append((round, int(device)))
            delta = np.full(3, np.nan if device in self.broken else device + 1.0, np.float32)
            loss = np.nan if device in self.lossless else device + 1.0
            yield LocalUpdate(delta=delta, loss=loss, square_loss=4.0, steps=1)

    def losses(self, parameters, devices, round, *, whole):  # noqa: A002 - the project's word
        del parameters
        self.asked.append((round, [int(device) for device in devices], whole))
        yield from (float(device) + 1.0 for device in devices)

    def evaluate(self, parameters):
        del parameters
        return Evaluation(accuracy=0.5, loss=1.0)

    def close(self):
        pass


def trained(name, rounds=4, *, pool=None, feedback_bits=64.0, aggregator="sum", state=None):
    pool = pool or FakePool()
    policy = make_policy(name, uplink=PAPER_UPLINK, draws=3)
    air = Air(
        channel=CHANNEL, policy=policy, uplink=PAPER_UPLINK, seed=2, feedback_bits=feedback_bits
    )
    how = Training(
        pool=pool, eval_every=2, last_round=rounds - 1, aggregator=make_aggregator(aggregator)
    )
    return list(train(air, how, pool.initial_parameters, state))


@pytest.mark.parametrize("name", LEARNING)
def test_a_policy_that_learns_is_refused_where_nothing_is_trained(name):
    policy = make_policy(name, uplink=PAPER_UPLINK, draws=3)
    with pytest.raises(InputError, match=f"policy '{name}' reads .*feedback.* from training"):
        next(schedule(channel=CHANNEL, policy=policy, uplink=PAPER_UPLINK, seed=1))


def test_reports_are_charged_at_the_rate_and_power_of_each_device():
    for done, _ in trained("ocs"):
        link, decision = done.scheduled, done.scheduled.decision
        bits_s = PAPER_UPLINK.bits / PAPER_UPLINK.airtime_s(link.gain, decision.power_w)
        assert link.feedback_s == pytest.approx((64.0 / bits_s).sum(), rel=1e-12)
        assert link.airtime_s == pytest.approx(link.feedback_s + link.upload_s.sum())
    twice = trained("ocs", feedback_bits=128.0)
    assert twice[0][0].scheduled.feedback_s == pytest.approx(
        2 * trained("ocs")[0][0].scheduled.feedback_s
    )


@pytest.mark.parametrize("name", ["norm-threshold", "oort", "lyapunov", "power-of-choice-stale"])
def test_what_is_not_sent_is_not_charged(name):
    assert all(done.scheduled.feedback_s == 0.0 for done, _ in trained(name))


def test_power_of_choice_asks_for_the_loss_at_the_present_model():
    for name, whole in (("power-of-choice", True), ("power-of-choice-cheap", False)):
        pool = FakePool()
        rounds = trained(name, pool=pool)
        assert [(t, len(asked), kind) for t, asked, kind in pool.asked] == [
            (t, 6, whole) for t in range(4)
        ]
        for (done, _), (_, asked, _) in zip(rounds, pool.asked, strict=True):
            assert done.scheduled.cohort.device.tolist() == sorted(sorted(asked)[-3:])


def test_a_report_that_is_not_finite_counts_as_none(caplog):
    rounds = trained("norm-threshold", pool=FakePool(broken=(7,)))
    assert all(7 not in done.scheduled.cohort.device for done, _ in rounds)
    assert "the report of device 7 is not finite and was left out" in caplog.text


def test_a_policy_learns_nothing_from_a_loss_that_is_not_finite(monkeypatch):
    """Its update is finite and counts; its loss would stay in the policy's state for good."""
    seen = []
    observe = Oort.observe

    def watched(self, state, experience):
        seen.append(experience)
        return observe(self, state, experience)

    monkeypatch.setattr(Oort, "observe", watched)
    lossless = (1, 3, 5)
    rounds = trained("oort", 6, pool=FakePool(lossless=lossless))
    took_part = {int(n) for done, _ in rounds for n in done.scheduled.cohort.device}
    assert took_part & set(lossless)
    assert all(done.rejected == 0 for done, _ in rounds)
    for (done, _), experience in zip(rounds, seen, strict=True):
        told = [n for n in done.scheduled.cohort.device.tolist() if n not in lossless]
        assert experience.device.tolist() == done.scheduled.cohort.device.tolist()
        assert experience.with_losses().device.tolist() == told
        assert experience.with_losses().loss.tolist() == [n + 1.0 for n in told]
    utility = rounds[-1][1].policy["utility"]
    assert np.isfinite(utility[sorted(took_part - set(lossless))]).all()
    assert np.isnan(utility[list(lossless)]).all()


def test_memory_moves_the_model_by_the_mean_of_the_latest_updates():
    latest, x = np.zeros(DEVICES), 0.0
    for done, _ in trained("uniform", 6, aggregator="memory"):
        members = done.scheduled.cohort.device
        latest[members] = members + 1.0
        x += latest.mean()
        assert done.parameters == pytest.approx(np.full(3, x), rel=1e-5)
    with pytest.raises(UnknownNameError, match="aggregator: 'mean' is not known"):
        trained("uniform", aggregator="mean")


def test_a_state_can_be_gone_on_from_twice():
    (_, state), *_ = trained("uniform", 1, aggregator="memory")
    before = {name: value.copy() for name, value in state.memory.items()}
    ends = [trained("uniform", 5, aggregator="memory", state=state)[-1][0] for _ in range(2)]
    assert np.array_equal(ends[0].parameters, ends[1].parameters)
    assert all(np.array_equal(state.memory[name], value) for name, value in before.items())


NORMS = """
import numpy as np
from fedsched.learning.updates import norm_of
for size in (30_730, 555_178):
    delta = np.random.default_rng(size).normal(size=size).astype(np.float32)
    print(norm_of(delta).hex())
"""


@pytest.mark.slow
def test_norms_do_not_depend_on_the_threads_of_the_linear_algebra():
    said = {
        subprocess.run(
            [sys.executable, "-c", NORMS], env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            check=True, capture_output=True, text=True,
        ).stdout
        for threads in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1


def test_the_worst_average_power_is_that_of_the_decisions():
    spent = np.zeros(DEVICES)
    for t, (done, _) in enumerate(trained("lyapunov", 5)):
        spent += done.scheduled.decision.power_w * done.scheduled.decision.probability
        assert done.worst_power_w == pytest.approx(spent.max() / (t + 1))


class StoppedError(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "aggregator"),
    [("clustered-similarity", "sum"), ("oort", "memory"), ("ocs", "sum")],
)
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, kind, aggregator):
    scenario = scenario_from(
        {
            "run": {"rounds": 7, "seed": 1, "checkpoint_every": 2},
            "policy": {"kind": kind, "draws": 3},
            "channel": {"devices": 10},
            "data": {"samples": 30},
            "training": {"model": "softmax", "steps": 2, "aggregator": aggregator},
        }
    )

    def stop(now):
        if now.round == 5:
            raise StoppedError

    experiment.run(scenario, tmp_path / "straight")
    with pytest.raises(StoppedError):
        experiment.run(scenario, tmp_path / "stopped", progress=stop)
    experiment.run(scenario, tmp_path / "stopped")
    for name in ("rounds.arrows", "model.npz"):
        one, other = ((tmp_path / each / name).read_bytes() for each in ("straight", "stopped"))
        assert one == other, name
