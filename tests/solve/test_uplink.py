import math

import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.solve.uplink import PAPER_UPLINK, Uplink

FIELDS = {"bits": 1e6, "bandwidth_hz": 2e6, "noise_w": 0.5, "max_power_w": 10.0}


def test_an_update_takes_its_bits_over_the_capacity():
    gain, power = np.array([0.001, 0.7, 400.0]), np.array([30.0, 2.0, 0.1])
    capacity = 2e6 * np.log2(1.0 + gain * power / 0.5)
    assert Uplink(**FIELDS).airtime_s(gain, power) == pytest.approx(1e6 / capacity, rel=1e-13)


def test_a_device_without_gain_or_power_never_finishes():
    airtime = Uplink(**FIELDS).airtime_s(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert airtime.tolist() == [math.inf, math.inf]


def test_tiny_and_huge_gains_keep_their_digits():
    gain = np.array([1e-30, 1e30])
    nats = np.array([1e-30 * 4.0, math.log(4e30)])
    airtime = Uplink(**FIELDS).airtime_s(gain, np.full(2, 2.0))
    assert airtime == pytest.approx(0.5 * math.log(2.0) / nats, rel=1e-14)


@pytest.mark.parametrize("field", sorted(FIELDS))
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_impossible_links_are_refused_by_name(field, value):
    with pytest.raises(InputError, match=f"{field} must be a positive finite number, got {value}"):
        Uplink(**FIELDS | {field: value})


def test_the_papers_link_sends_the_cnn_over_wifi():
    assert PAPER_UPLINK.bits == 32 * 555_178
    assert PAPER_UPLINK.bandwidth_hz == 22e6
    assert PAPER_UPLINK.noise_w == 1.0
    assert 10.0 * math.log10(PAPER_UPLINK.max_power_w) == pytest.approx(35.0)
