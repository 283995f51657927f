"""What server and nodes tell each other."""

import math

import pytest
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from tests.flower import loopback  # noqa: F401 - so that messages can be made

from fedsched.errors import InputError
from fedsched.flower.exchange import UnusableError
from fedsched.flower.metrics import mean_metrics, metrics_in, number_in
from fedsched.flower.protocol import RECORD, Assignment, Report, assignment_of, round_in


def content(**metrics):
    return RecordDict({"metrics": MetricRecord(metrics)})


def test_a_report_arrives_as_it_was_sent():
    sent = Report(device="7", round=3, gain=0.25)
    assert Report.read(RecordDict({RECORD: sent.record()})) == sent


@pytest.mark.parametrize("gain", [0.0, -1.0, math.inf, math.nan, 1e-101, 1e101, 1, "2"])
def test_a_gain_out_of_range_is_read_as_none(gain):
    record = ConfigRecord({"device": "7", "round": 3, "gain": gain})
    assert math.isnan(Report.read(RecordDict({RECORD: record})).gain)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "holds no report"),
        ({RECORD: MetricRecord({"round": 3})}, "holds no report"),
        ({RECORD: ConfigRecord({"device": 7, "round": 3})}, "name is not a text of 1 to 128"),
        ({RECORD: ConfigRecord({"device": "x" * 129, "round": 3})}, "name is not a text of 1"),
        ({RECORD: ConfigRecord({"device": "a\0", "round": 3})}, r"name 'a\?' holds control"),
        ({RECORD: ConfigRecord({"device": "7", "round": True})}, "round is not a whole number"),
        ({RECORD: ConfigRecord({"device": "7", "round": -1})}, "round is not one from 0 to"),
        ({RECORD: ConfigRecord({"device": "7", "round": 2**31})}, "round is not one from 0 to"),
    ],
)
def test_what_is_no_report_is_refused_in_words(content, words):
    with pytest.raises(UnusableError, match=words):
        Report.read(RecordDict(content))


def test_an_assignment_arrives_as_it_was_sent():
    sent = Assignment(round=2, device=1, power_w=0.5, airtime_s=0.1, weight=3.0)
    own = ConfigRecord({"lr": 0.1, **sent.entries()})  # in the app's own record
    assert assignment_of(Message(RecordDict({"config": own}), 5, "train")) == sent
    untold = Assignment(round=2, device=1, power_w=0.5, airtime_s=0.1)
    assert not any("weight" in name for name in untold.entries())


def test_a_message_of_another_strategy_has_no_assignment():
    with pytest.raises(InputError, match="not sent by a ChannelStrategy"):
        assignment_of(Message(RecordDict(), 5, "train"))


def test_a_round_is_a_whole_number():
    assert round_in(ConfigRecord({"round": 4})) == 4
    with pytest.raises(InputError, match="round must be a whole number"):
        round_in(ConfigRecord({"round": "4"}))


def test_the_first_name_that_is_there_counts():
    assert number_in(content(loss=2, acc=0.5), ("accuracy", "acc", "loss")) == 0.5
    assert math.isnan(number_in(content(loss=2.0), ("accuracy",)))
    assert math.isnan(number_in(RecordDict(), ("accuracy",)))


def test_metrics_are_weighted_by_examples_and_odd_ones_left_out():
    told = [
        content(**{"num-examples": 1, "a": 1.0, "list": [1.0, 2.0], "odd": [1.0]}),
        content(**{"num-examples": 3, "a": 5.0, "list": [3.0, 4.0], "odd": 2.0}),
        content(**{"num-examples": 5, "a": math.nan, "b": math.inf, "c": 1e101}),
    ]
    found = mean_metrics([metrics_in(each, "num-examples") for each in told])
    assert dict(found) == {"a": 4.0, "list": [2.5, 3.5]}
    assert mean_metrics([]) is None


@pytest.mark.parametrize("examples", [{}, {"num-examples": 0}, {"num-examples": [1]}])
def test_a_reply_without_examples_has_no_metrics(examples):
    with pytest.raises(UnusableError, match="'num-examples' is not a number above 0"):
        metrics_in(content(a=1.0, **examples), "num-examples")
