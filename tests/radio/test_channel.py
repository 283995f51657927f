"""The contract of every channel: a new channel is added to CASES, and is tested."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.radio.channel import (
    AbstractChannel,
    ChannelState,
    check_number,
    check_per_device,
    check_same_length,
)
from fedsched.radio.fading import GaussMarkov, Nakagami, Rayleigh, Rician
from fedsched.radio.names import CHANNELS
from fedsched.radio.pathloss import Annulus, Distances, PathLoss
from fedsched.radio.trace import Trace, record
from fedsched.radio.wrappers import Floored, Intermittent
from fedsched.randomness import stream

SIGMA = np.array([0.1, 0.5, 1.0, 3.0, 10.0])
MEAN = 2.0 * SIGMA**2
RECORDED = np.array([[1.0, 2.0, 0.0], [3.0, np.nan, 5.0], [0.5, 0.25, 4.0], [2.0, 1.0, 3.0]])
ROUNDS = 4000


def path_loss(geometry: Annulus | Distances) -> PathLoss:
    return PathLoss(
        geometry=geometry,
        reference_gain_db=10.0,
        reference_distance_m=100.0,
        exponent=3.0,
        shadowing_db=6.0,
    )


@dataclass(frozen=True)
class Case:
    channel: AbstractChannel
    mean: Callable[[ChannelState], np.ndarray]
    correlation: float = 0.0  # of the gains of neighbouring rounds, decaying geometrically


CASES = {
    "rayleigh": Case(Rayleigh(SIGMA), lambda _: MEAN),
    "rician": Case(
        Rician(k_factor=np.array([0.0, 0.5, 1.0, 4.0, 50.0]), mean_gain=MEAN), lambda _: MEAN
    ),
    "nakagami": Case(
        Nakagami(shape=np.array([0.5, 1.0, 1.5, 4.0, 50.0]), mean_gain=MEAN), lambda _: MEAN
    ),
    "gauss-markov": Case(GaussMarkov(sigma=SIGMA, memory=0.7), lambda _: MEAN, correlation=0.7**2),
    "annulus": Case(
        path_loss(Annulus(device_count=5, inner_radius_m=10.0, outer_radius_m=300.0)),
        lambda state: state["mean_gain"],
    ),
    "distances": Case(
        path_loss(Distances(np.array([20.0, 100.0, 250.0]))), lambda state: state["mean_gain"]
    ),
    # E max(X, f) = f + mean * exp(-f / mean) for exponential X.
    "floored": Case(Floored(Rayleigh(SIGMA), 0.05), lambda _: 0.05 + MEAN * np.exp(-0.05 / MEAN)),
    "intermittent": Case(
        Intermittent(Rayleigh(SIGMA), np.array([0.1, 0.3, 0.5, 0.9, 1.0])), lambda _: MEAN
    ),
    "intermittent, with memory": Case(
        Floored(Intermittent(GaussMarkov(sigma=SIGMA, memory=0.7), np.full(5, 0.8)), floor=1e-9),
        lambda _: MEAN,
        correlation=0.7**2,
    ),
    "trace": Case(Trace(RECORDED), lambda _: np.array([1.625, 3.25 / 3.0, 4.0])),
}
# For the named ones the mean is checked through the models they are made of.
CHANNELS_ONLY = {name: case.channel for name, case in CASES.items()} | {
    f"named {name}": factory(7) for name, factory in CHANNELS.items()
}


@pytest.fixture(params=CHANNELS_ONLY.values(), ids=CHANNELS_ONLY.keys())
def channel(request: pytest.FixtureRequest) -> AbstractChannel:
    return request.param


def copied(state: ChannelState) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in state.items()}


def test_gains_are_float64_of_the_right_shape_and_positive_or_nan(channel):
    state = channel.init(stream(3, "channel"))
    for position in range(50):
        gain, state = channel.step(state, stream(3, "channel", position))
        assert gain.shape == (channel.devices,)
        assert gain.dtype == np.float64
        assert np.all((gain > 0.0) | np.isnan(gain))
        assert not np.any(np.isinf(gain))


def test_one_seed_gives_one_sequence(channel):
    first, second = (record(channel, rounds=30, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", sorted(CHANNELS_ONLY.keys() - {"trace"}))
def test_another_seed_gives_another_sequence(name):
    channel = CHANNELS_ONLY[name]
    first, second = (record(channel, rounds=30, seed=seed) for seed in (5, 6))
    assert not np.array_equal(first, second, equal_nan=True)


def test_a_step_leaves_its_state_and_its_channel_alone(channel):
    state = channel.init(stream(7, "channel"))
    _, state = channel.step(state, stream(7, "channel", 0))
    before = copied(state)
    gain, _ = channel.step(state, stream(7, "channel", 1))
    kept = gain.copy()
    gain[:] = -1.0  # what the caller does with its gains is its own affair
    assert state.keys() == before.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(state[name], value)
    again, _ = channel.step(state, stream(7, "channel", 1))
    np.testing.assert_array_equal(again, kept)


def test_a_state_saved_to_npz_continues_bit_for_bit(channel, tmp_path):
    whole = record(channel, rounds=12, seed=9)
    state = channel.init(stream(9, "channel"))
    for position in range(5):
        _, state = channel.step(state, stream(9, "channel", position))
    np.savez(tmp_path / "state.npz", **state)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
        state = dict(arrays)
    for position in range(5, 12):
        gain, state = channel.step(state, stream(9, "channel", position))
        np.testing.assert_array_equal(gain, whole[position])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_mean_gain_is_the_one_of_theory(case):
    gain = record(case.channel, rounds=ROUNDS, seed=11)
    expected = case.mean(case.channel.init(stream(11, "channel")))
    # Correlated rounds carry less information: their mean varies (1 + r) / (1 - r) times more.
    inflation = (1.0 + case.correlation) / (1.0 - case.correlation)
    samples = np.sum(~np.isnan(gain), axis=0)
    standard_error = np.sqrt(np.nanvar(gain, axis=0) / samples * inflation)
    assert np.all(np.abs(np.nanmean(gain, axis=0) - expected) <= 4.5 * standard_error)
    assert np.all(standard_error < 0.15 * expected)  # the test can tell a wrong mean


def test_the_parameters_of_a_channel_are_a_copy_that_cannot_be_written():
    sigma = np.ones(3)
    channel = Rayleigh(sigma)
    sigma[0] = 100.0
    assert channel.sigma[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        channel.sigma[0] = 2.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.0, r"sigma must hold one number per device, shape \(devices,\), got shape \(\)"),
        ([], r"got shape \(0,\); for equal devices use numpy.full\(devices, value\)"),
        ([[1.0]], r"got shape \(1, 1\)"),
        (["one"], r"sigma must be one number per device, got \['one'\]"),
        ([1.0, 0.0], r"sigma\[1\] must be in \(0, 2\], got 0.0"),
        ([1.0, 2.0, 2.5], r"sigma\[2\] must be in \(0, 2\], got 2.5"),
        ([np.nan], r"sigma\[0\] must be in \(0, 2\], got nan"),
    ],
)
def test_a_bad_per_device_field_is_named_with_its_place_and_value(value, message):
    with pytest.raises(InputError, match=message):
        check_per_device("sigma", value, above=0.0, most=2.0, allowed="in (0, 2]")


def test_the_least_value_itself_is_allowed():
    assert check_per_device("m", [0.5], least=0.5, allowed="at least 0.5").tolist() == [0.5]
    with pytest.raises(InputError, match=r"m\[0\] must be at least 0.5, got 0.4"):
        check_per_device("m", [0.4], least=0.5, allowed="at least 0.5")


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_bad_number_is_named_with_its_value(value):
    with pytest.raises(InputError, match=f"floor must be positive and finite, got {value}"):
        check_number("floor", value, above=0.0, allowed="positive and finite")


@pytest.mark.parametrize(
    ("value", "message"), [("x", "floor must be a number, got 'x'"), ([1.0], r"got \[1.0\]")]
)
def test_what_is_not_one_number_is_refused(value, message):
    with pytest.raises(InputError, match=message):
        check_number("floor", value)


def test_fields_of_different_lengths_are_named_with_their_lengths():
    with pytest.raises(InputError, match="per device: shape has 2, mean_gain has 3"):
        check_same_length(shape=np.ones(2), mean_gain=np.ones(3))
