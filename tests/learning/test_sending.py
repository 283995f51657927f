"""Compressors by name, and what the server receives through them."""

import logging

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.compression import (
    Dithered,
    Natural,
    PayloadError,
    Sending,
    Ternary,
    TopK,
    compressor_name,
    make_compressor,
)
from fedsched.learning.updates import LocalUpdate
from fedsched.randomness import stream

DEVICES = np.array([1, 4])


def updates(seed=1, length=40):
    for n in DEVICES:
        delta = stream(seed, "example", int(n)).normal(size=length).astype(np.float32)
        yield LocalUpdate(delta=delta, loss=1.0, square_loss=2.0, steps=3)


def received(sending, given, t=0, state=None, seed=9):
    state = sending.init(6, 40) if state is None else state
    return list(sending.received(given, DEVICES, state, seed=seed, round=t))


@pytest.mark.parametrize(
    ("name", "compressor"),
    [
        ("none", None),
        ("2", Dithered(2)),
        ("8", Dithered(8)),
        ("dithered-4", Dithered(4)),
        (4, Dithered(4)),
        ("3-128", Dithered(3, 128)),
        ("dithered-2-64", Dithered(2, 64)),
        ("ternary", Ternary()),
        ("ternary-128", Ternary(128)),
        ("natural", Natural()),
        ("topk-0.01", TopK(0.01)),
        ("topk-1", TopK(1.0)),
    ],
)
def test_compressors_have_names(name, compressor):
    assert make_compressor(name) == compressor
    assert make_compressor(compressor_name(name)) == compressor


def test_equal_compressors_have_one_name():
    assert compressor_name("dithered-4") == compressor_name("4") == compressor_name(4) == "4"
    assert compressor_name("dithered-4-512") == compressor_name("4-512") == "4"
    assert compressor_name("dithered-3-128") == compressor_name("3-128") == "3-128"
    assert compressor_name("ternary-512") == "ternary"
    assert compressor_name("topk-0.0100") == compressor_name("topk-0.01") == "topk-0.01"


@pytest.mark.parametrize(
    "name", ["9", "1", "", "dithered-9", "dithered-none", "dithered-ternary", "topk", "04", "٤"]
)
def test_a_name_that_is_not_known_is_refused_with_those_that_are(name):
    with pytest.raises(
        UnknownNameError, match=r"compress: .* is not known.*2, 3, 3-128, 4.*topk-0\.01"
    ):
        make_compressor(name)


@pytest.mark.parametrize("name", ["3-", "3-0", "3-01", "3--1", "3-1.5", "3-٤", "ternary-", "3-1-2"])
def test_a_bucket_that_is_none_is_refused(name):
    with pytest.raises(InputError, match=r"here: '.*' must end with how many numbers share"):
        make_compressor(name, field="here")


@pytest.mark.parametrize("name", ["topk-", "topk-many", "topk-0", "topk-2", "topk-nan", "topk-inf"])
def test_a_share_that_is_none_is_refused(name):
    with pytest.raises(InputError, match=r"here: 'topk-.*' must end with the share .* hundred"):
        make_compressor(name, field="here")


def test_without_a_compressor_updates_pass_untouched():
    given = list(updates())
    assert all(one is other for one, other in zip(received(Sending(), given), given, strict=True))
    assert Sending().init(6, 40) == {}
    assert not Sending().biased
    assert Sending().sizes(40) is None


def test_what_arrives_is_what_the_devices_own_stream_makes_of_it():
    sending = Sending((Dithered(3),))
    assert sending.sizes(40).bits == [Dithered(3).bits(40)]
    for n, sent, got in zip(DEVICES, updates(), received(sending, updates(), t=5), strict=True):
        payload = Dithered(3).encode(sent.delta, stream(9, "compression", 5, int(n)))
        assert got.delta.tobytes() == Dithered(3).decode(payload, 40).tobytes()
        assert (got.loss, got.square_loss, got.steps) == (1.0, 2.0, 3)


@pytest.mark.slow
def test_what_arrives_is_right_on_average():
    """Of many rounds of the same updates: within 5 standard errors in every number."""
    copies = np.array(
        [[u.delta for u in received(Sending((Dithered(2),)), updates(), t=t)] for t in range(3000)]
    )
    error = copies.mean(axis=0) - np.array([u.delta for u in updates()])
    deviation = np.sqrt(copies.var(axis=0) / len(copies))
    assert (deviation > 0).mean() > 0.9
    assert (np.abs(error) <= 5.0 * deviation + 1e-6).all()


def test_a_biased_compressor_keeps_what_it_left_out_for_each_device():
    sending = Sending((TopK(0.1),))
    assert sending.biased
    state = sending.init(6, 40)
    total = sum(
        np.array([u.delta for u in received(sending, updates(t), t=t, state=state)])
        for t in range(30)
    )
    wanted = sum(np.array([u.delta for u in updates(t)]) for t in range(30))
    np.testing.assert_allclose(total + state["residual"][DEVICES], wanted, atol=1e-4)
    assert not state["residual"][[0, 2, 3, 5]].any()


def broken(values):
    first, second = updates()
    first.delta[3] = values
    return [first, second]


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("compressor", [Dithered(4), TopK(0.5)])
def test_an_update_that_cannot_be_encoded_is_left_out_and_its_residual_stays(
    compressor, value, caplog
):
    sending = Sending((compressor,))
    state = sending.init(6, 40)
    with caplog.at_level(logging.WARNING):
        bad, good = received(sending, broken(value), t=2, state=state)
    assert np.isnan(bad.delta).all()
    assert np.isfinite(good.delta).all()
    if sending.biased:
        assert not state["residual"][1].any()
    else:
        assert state["omega_updates"] == 1
        assert state["omega"] == [compressor.expected_omega(list(updates())[1].delta)]
    (record,) = caplog.records
    assert record.getMessage().startswith("round 2: device 1 cannot send its update: vector must")


def test_a_payload_that_cannot_be_decoded_is_left_out(monkeypatch):
    def damaged(*_):
        raise PayloadError("payload has checksum 1 and says 2; it is damaged")

    monkeypatch.setattr(Dithered, "_decode_body", damaged)
    for got in received(Sending((Dithered(4),)), updates()):
        assert np.isnan(got.delta).all()
