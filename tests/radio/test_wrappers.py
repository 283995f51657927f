import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.radio.fading import Rayleigh
from fedsched.radio.trace import Trace, record
from fedsched.radio.wrappers import Floored, Intermittent


def test_the_floor_lifts_low_gains_and_leaves_the_rest_and_nan():
    channel = Floored(Trace(np.array([[0.01, 0.5, np.nan]])), 0.1)
    np.testing.assert_array_equal(record(channel, rounds=1, seed=1), [[0.1, 0.5, np.nan]])


@pytest.mark.parametrize("floor", [0.0, -1.0, np.nan, np.inf])
def test_a_bad_floor_is_refused(floor):
    with pytest.raises(InputError, match=f"Floored.floor must be positive and finite, got {floor}"):
        Floored(Rayleigh(np.ones(1)), floor)


def test_devices_are_reachable_as_often_as_asked_and_independently():
    availability = np.array([0.1, 0.5, 0.9, 1.0])
    gain = record(Intermittent(Rayleigh(np.ones(4)), availability), rounds=4000, seed=1)
    reachable = ~np.isnan(gain)
    standard_error = np.sqrt(availability * (1.0 - availability) / 4000)
    assert np.all(np.abs(reachable.mean(axis=0) - availability) <= 4.5 * standard_error)
    assert np.all(np.abs(np.corrcoef(reachable[:, :3].T) - np.eye(3)) < 0.08)
    assert abs(np.corrcoef(reachable[1:, 1], reachable[:-1, 1])[0, 1]) < 0.08


def test_the_gains_of_reachable_devices_are_those_without_the_wrapper():
    inner = Rayleigh(np.ones(4))
    plain = record(inner, rounds=20, seed=2)
    gain = record(Intermittent(inner, np.full(4, 0.5)), rounds=20, seed=2)
    reachable = ~np.isnan(gain)
    assert 10 < reachable.sum() < 70
    np.testing.assert_array_equal(gain[reachable], plain[reachable])


@pytest.mark.parametrize(
    ("availability", "message"),
    [
        ([0.5, 0.0], r"availability\[1\] must be a probability in \(0, 1\], got 0.0"),
        ([1.1, 0.5], r"availability\[0\] must be a probability in \(0, 1\], got 1.1"),
        ([0.5], "needs one probability per device: it has 1, the channel has 2 devices"),
    ],
)
def test_a_bad_availability_is_refused(availability, message):
    with pytest.raises(InputError, match=message):
        Intermittent(Rayleigh(np.ones(2)), np.array(availability))
