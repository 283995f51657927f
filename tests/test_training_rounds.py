"""The tests of ``fedsched.rounds.train``: Algorithm 1 over a schedule."""

import logging
from itertools import islice

import numpy as np
import pytest

from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.updates import Evaluation, LocalUpdate
from fedsched.policies import make_policy
from fedsched.radio import Rayleigh, Trace
from fedsched.rounds import Air, Training, scheduled_rounds, train
from fedsched.solve.uplink import PAPER_UPLINK

DEVICES = 8


class FakePool(AbstractTrainingPool):
    """Device n moves the model by n + 1 and has the loss 10 n; some of them cannot count."""

    def __init__(self, broken=()):
        self.broken = broken
        self.trained = []  # round and device
        self.evaluated = []

    @property
    def initial_parameters(self):
        return np.zeros(3, np.float32)

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002 - the project's word for t
        del parameters, work
        for device in devices:
            self.trained.append((round, int(device)))
            delta = np.full(3, device + 1.0, np.float32)
            if device in self.broken:
                delta[1] = self.broken[device]
            loss = np.nan if device in self.broken else 10.0 * device
            yield LocalUpdate(delta=delta, loss=loss, square_loss=loss**2, steps=1)

    def losses(self, parameters, devices, round, *, whole):  # noqa: A002 - the project's word
        del parameters, round
        yield from (float(device) + whole for device in devices)

    def evaluate(self, parameters):
        self.evaluated.append(parameters.copy())
        return Evaluation(accuracy=float(parameters[0]), loss=1.0)

    def close(self):
        pass


def scheduled(policy="lyapunov", channel=None):
    channel = channel or Rayleigh(np.linspace(0.5, 2.0, DEVICES))
    made = make_policy(policy, uplink=PAPER_UPLINK, draws=3)
    return Air(channel=channel, policy=made, uplink=PAPER_UPLINK, seed=2)


def trained(pool, rounds, *, eval_every=3, x=None, average_rounds=1, **where):
    x = pool.initial_parameters if x is None else x
    how = Training(
        pool=pool, eval_every=eval_every, last_round=rounds - 1, average_rounds=average_rounds
    )
    running = train(scheduled(**where), how, x)
    return [done for done, _ in running]


def test_only_the_cohort_computes_once_each_in_its_order():
    pool = FakePool()
    rounds = trained(pool, 5)
    assert len(rounds) == 5
    assert pool.trained == [
        (done.scheduled.round, device)
        for done in rounds
        for device in done.scheduled.cohort.device.tolist()
    ]


def test_the_model_moves_by_the_weighted_sum_of_the_updates():
    x = np.zeros(3)
    for done in trained(FakePool(), 6):
        cohort = done.scheduled.cohort
        x = np.float32(x + (cohort.weight * (cohort.device + 1.0)).sum())
        assert done.parameters == pytest.approx(x, rel=1e-6)
        assert done.parameters.dtype == np.float32


def test_the_training_loss_is_the_weighted_estimate_of_the_global_loss():
    for done in trained(FakePool(), 6):
        q = done.scheduled.decision.probability
        members = done.scheduled.cohort.device
        by_hand = sum(10.0 * n / (DEVICES * q[n]) for n in members)
        assert done.train_loss == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.slow
def test_the_training_loss_is_unbiased():
    # Everybody, in every round: the estimate is then the global loss itself.
    full = trained(FakePool(), 1, policy="full")[0]
    assert full.train_loss == pytest.approx(10.0 * np.arange(DEVICES).mean())
    drawn = [done.train_loss for done in trained(FakePool(), 4000, policy="uniform")]
    assert np.mean(drawn) == pytest.approx(full.train_loss, abs=4 * np.std(drawn) / 4000**0.5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_is_left_out_counted_and_warned_about(value, caplog):
    pool = FakePool(broken={3: value})
    with caplog.at_level(logging.WARNING):
        broken = trained(pool, 1, policy="full")[0]
    assert broken.rejected == 1
    others = [n for n in range(DEVICES) if n != 3]
    assert broken.parameters == pytest.approx(np.full(3, sum(n + 1 for n in others) / DEVICES))
    assert broken.train_loss == pytest.approx(sum(10.0 * n for n in others) / DEVICES)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == "round 0: the update of device 3 is not finite and was left out"


def test_the_run_goes_on_after_updates_that_are_not_finite(caplog):
    rounds = trained(FakePool(broken={3: np.nan, 5: np.inf}), 40, policy="uniform")
    assert len(rounds) == 40
    for done in rounds:
        assert done.rejected == len({3, 5} & set(done.scheduled.cohort.device.tolist()))
        assert np.isfinite(done.parameters).all()
    rejected = sum(done.rejected > 0 for done in rounds)
    assert 0 < rejected == len(caplog.records)
    both = next(done for done in rounds if done.rejected == 2)
    assert any(
        f"round {both.scheduled.round}: the update of device 3, 5 is" in record.getMessage()
        for record in caplog.records
    )


def test_if_no_update_is_finite_the_model_stays_and_there_is_no_loss():
    x = np.array([1.0, -2.0, 3.0], np.float32)
    pool = FakePool(broken=dict.fromkeys(range(DEVICES), np.nan))
    (done,) = trained(pool, 1, x=x, policy="full")
    assert done.parameters.tobytes() == x.tobytes()
    assert done.rejected == DEVICES
    assert np.isnan(done.train_loss)


def test_a_round_without_members_leaves_the_model_as_it_is():
    nobody_in_the_second = Trace(np.array([np.ones(DEVICES), np.full(DEVICES, np.nan)]))
    first, second, third = trained(FakePool(), 3, policy="full", channel=nobody_in_the_second)
    assert second.scheduled.cohort.size == 0
    assert second.parameters.tobytes() == first.parameters.tobytes()
    assert second.rejected == 0
    assert np.isnan(second.train_loss)
    assert third.parameters[0] != second.parameters[0]


@pytest.mark.parametrize(
    ("rounds", "eval_every", "measured"),
    [(7, 3, [2, 5, 6]), (6, 3, [2, 5]), (4, 1, [0, 1, 2, 3]), (3, 50, [2])],
)
def test_the_model_is_evaluated_every_so_often_and_at_the_end(rounds, eval_every, measured):
    pool = FakePool()
    done = trained(pool, rounds, eval_every=eval_every)
    assert [place for place, each in enumerate(done) if not np.isnan(each.accuracy)] == measured
    assert [place for place, each in enumerate(done) if not np.isnan(each.test_loss)] == measured
    assert len(pool.evaluated) == len(measured)
    for place, seen in zip(measured, pool.evaluated, strict=True):
        # Evaluated is the model after the round.
        assert seen.tobytes() == done[place].parameters.tobytes()
        assert done[place].accuracy == float(done[place].parameters[0])


def test_a_mean_of_the_models_is_measured_and_training_goes_on_from_the_model_itself():
    plain, pool = trained(FakePool(), 6), FakePool()
    done = trained(pool, 6, eval_every=1, average_rounds=3)
    models = [each.parameters.astype(np.float64) for each in plain]
    for each, model in zip(done, models, strict=True):
        np.testing.assert_array_equal(each.parameters, model)
    # The mean of all at first; from the third on the newest has a third of the weight.
    wanted = [models[0], np.mean(models[:2], axis=0), np.mean(models[:3], axis=0)]
    for model in models[3:]:
        wanted.append(wanted[-1] * 2 / 3 + model / 3)
    np.testing.assert_allclose(pool.evaluated, wanted, rtol=1e-6)
    assert {each.dtype for each in pool.evaluated} == {np.dtype(np.float32)}


def test_the_states_are_those_of_the_schedule():
    pool = FakePool()
    how = Training(pool=pool, eval_every=2, last_round=4)
    running = train(scheduled(), how, pool.initial_parameters)
    alone = islice(scheduled_rounds(scheduled()), 5)
    for (_, state), (_, wanted) in zip(running, alone, strict=True):
        assert state.round == wanted.round
        np.testing.assert_array_equal(state.policy["queue.power"], wanted.policy["queue.power"])


def test_the_parameters_given_are_not_changed():
    x = np.zeros(3, np.float32)
    trained(FakePool(), 3, x=x)
    assert x.tolist() == [0.0, 0.0, 0.0]
