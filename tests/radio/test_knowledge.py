"""Gains that are late or wrong: what is known, what fails, and the margin that holds an outage."""

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.policies import make_policy
from fedsched.radio import make_channel
from fedsched.radio.knowledge import PERFECT, STEP_DB, Knowledge
from fedsched.randomness import stream
from fedsched.rounds import Air, scheduled_rounds
from fedsched.solve.uplink import PAPER_UPLINK

EVERY = np.arange(6)


def rows(count, devices=6, seed=1):
    return stream(seed, "gains").exponential(1.0, (count, devices)) + 1e-3


def test_late_gains_are_those_of_earlier_rounds_and_the_first_wait_for_nobody():
    knowledge, table = Knowledge(late_rounds=2), rows(6)
    memory, seen = knowledge.init(6), []
    for t, gain in enumerate(table):
        known = knowledge.of(gain, memory, stream(1, "knowledge", t))
        memory = known.memory
        seen.append(known.gain)
    np.testing.assert_array_equal(seen, table[[0, 0, 0, 1, 2, 3]])


def test_wrong_gains_have_the_error_that_was_asked_for():
    knowledge, gain = Knowledge(error_db=3.0), np.ones(20_000)
    seen = knowledge.of(gain, knowledge.init(20_000), stream(1, "knowledge", 0)).gain
    error_db = 10.0 * np.log10(seen)
    assert abs(error_db.mean()) < 4.0 * 3.0 / np.sqrt(20_000)
    assert abs(error_db.std() / 3.0 - 1.0) < 0.03


def test_an_upload_fails_where_the_channel_is_worse_than_known():
    knowledge = Knowledge(error_db=1.0)
    failed = knowledge.failed(
        np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0, np.nan]), np.array([1.0, 2.1, 3.0, 1.0])
    )
    assert failed.tolist() == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("outage", [0.02, 0.1, 0.3])
def test_the_margin_holds_the_outage_of_every_device_at_every_round(outage):
    knowledge, table = Knowledge(error_db=4.0, outage=outage), rows(3000)
    memory, failures = knowledge.init(6), np.zeros(6)
    for t, gain in enumerate(table):
        known = knowledge.of(gain, memory, stream(1, "knowledge", t))
        failed = knowledge.failed(EVERY, gain, known.gain)
        memory = knowledge.learned(known.memory, EVERY, failed)
        failures += failed
        margin_db = memory["knowledge.margin_db"]
        # The account of the margin, which it began with 0 and never leaves below 0.
        assert np.all(failures <= outage * (t + 1) + margin_db / STEP_DB + 1e-9)
    assert np.all(margin_db < 20.0)
    assert np.all(np.abs(failures / 3000 - outage) < 0.02)


def test_perfect_knowledge_changes_nothing():
    gain = rows(1)[0]
    known = PERFECT.of(gain, PERFECT.init(6), stream(1, "knowledge", 0))
    assert known.gain is gain
    assert known.memory == {}


def air(**knowledge):
    channel = make_channel("homogeneous", 20)
    policy = make_policy("uniform", uplink=PAPER_UPLINK, draws=5)
    return Air(channel=channel, policy=policy, uplink=PAPER_UPLINK, seed=1,
               knowledge=Knowledge(**knowledge))  # fmt: skip


def played(rounds=200, **knowledge):
    running = scheduled_rounds(air(**knowledge))
    return [next(running)[0] for _ in range(rounds)]


def test_an_upload_that_fails_takes_its_time_and_one_sent_again_takes_both():
    lost, again = played(error_db=3.0), played(error_db=3.0, resend=True)
    for one, other in zip(lost, again, strict=True):
        np.testing.assert_array_equal(one.cohort.device, other.cohort.device)
        planned = one.decision.plan.upload_s[one.cohort.device]
        np.testing.assert_array_equal(one.upload_s, planned)
        power = one.decision.power_w[one.cohort.device]
        true_s = PAPER_UPLINK.airtime_s(one.gain[one.cohort.device], power)
        failed = true_s > planned * (1 + 1e-12)
        np.testing.assert_array_equal(~one.arrived, failed)
        np.testing.assert_allclose(other.upload_s, planned + np.where(failed, true_s, 0.0))
        assert other.arrived.all()
    assert 0.3 < np.mean([np.mean(~each.arrived) for each in lost]) < 0.7


@pytest.mark.slow
def test_updates_are_lost_as_often_as_was_asked_for():
    chances = np.linspace(0.0, 0.6, 20)
    tried, lost = np.zeros(20), np.zeros(20)
    for done in played(3000, loss=chances):
        tried[done.cohort.device] += 1
        lost[done.cohort.device[~done.arrived]] += 1
    deviation = np.sqrt(chances * (1 - chances) / tried)
    assert np.all(np.abs(lost / tried - chances) <= 5 * deviation)


def test_a_run_goes_on_from_any_state_as_if_it_had_not_stopped():
    whole = played(30, late_rounds=3, error_db=2.0, outage=0.1, loss=0.2)
    running = scheduled_rounds(air(late_rounds=3, error_db=2.0, outage=0.1, loss=0.2))
    state = [next(running)[1] for _ in range(10)][-1]
    rest = scheduled_rounds(air(late_rounds=3, error_db=2.0, outage=0.1, loss=0.2), state)
    for expected in whole[10:]:
        done, _ = next(rest)
        np.testing.assert_array_equal(done.cohort.device, expected.cohort.device)
        np.testing.assert_array_equal(done.upload_s, expected.upload_s)
        np.testing.assert_array_equal(done.arrived, expected.arrived)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"late_rounds": -1}, "late_rounds must be a whole number of at least 0, got -1"),
        ({"error_db": -1.0}, "error_db must be a finite number, zero or more, got -1"),
        ({"outage": 0.0}, r"outage must lie in \(0, 1\), got 0"),
        ({"loss": 1.0}, r"loss must lie in \[0, 1\), got 1"),
        ({"loss": np.array([0.1, np.nan])}, r"loss must lie in \[0, 1\)"),
    ],
)
def test_what_is_no_knowledge_is_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        Knowledge(**given)
