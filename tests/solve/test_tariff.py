"""The power that is cheapest by the second, the watt and the joule, against 50 digits."""

import mpmath
import numpy as np
import pytest

from fedsched.errors import InputError
from fedsched.randomness import stream
from fedsched.solve import _kernel
from fedsched.solve.power import Tariff, cheapest_power, optimal_power

LENGTH, NOISE = 0.8, 1e-3


def problems(count=300, seed=1):
    rng = stream(seed, "tariff")
    gain, second = 10 ** rng.uniform(-12, 12, count), 10 ** rng.uniform(-6, 6, count)
    watt, joule = 10 ** rng.uniform(-6, 6, count), 10 ** rng.uniform(-12, 12, count)
    kind = rng.integers(0, 3, count)  # both, watts alone, joules alone
    return gain, Tariff(
        second=second, watt=np.where(kind == 2, 0.0, watt), joule=np.where(kind == 1, 0.0, joule)
    )


def price(power, gain, tariff):
    upload_s = LENGTH / mpmath.log(1 + gain * power / NOISE, 2)
    return (tariff.second + tariff.joule * power) * upload_s + tariff.watt * power


def of_device(tariff, n):
    second, watt, joule = (
        mpmath.mpf(float(each[n])) for each in (tariff.second, tariff.watt, tariff.joule)
    )
    return Tariff(second=second, watt=watt, joule=joule)


def test_no_power_near_or_far_is_cheaper_over_twelve_decades():
    gain, tariff = problems()
    power = cheapest_power(gain, tariff, length=LENGTH, noise=NOISE, max_power=1e300)
    with mpmath.workdps(50):
        for n, found in enumerate(power):
            own, g, p = of_device(tariff, n), mpmath.mpf(float(gain[n])), mpmath.mpf(float(found))
            least = price(p, g, own)
            # The price is flat at its minimum: a step h costs h^2 of it. 1e-12 of the power is
            # 1e-24 of the price: the power is right to 1e-12 if both neighbours cost more.
            for factor in (1e-3, 0.9, 1 - 1e-12, 1 + 1e-12, 1.1, 1e3):
                assert price(p * mpmath.mpf(factor), g, own) > least


def test_with_seconds_and_watts_alone_it_is_theorem_2():
    gain, tariff = problems()
    watts = Tariff(second=1.0, watt=tariff.watt / tariff.second)
    found = cheapest_power(gain, watts, length=LENGTH, noise=NOISE, max_power=50.0)
    theorem = optimal_power(gain, watts.watt, cost=LENGTH, noise=NOISE, max_power=50.0)
    np.testing.assert_allclose(found, theorem, rtol=1e-14)


def test_joules_alone_follow_lamberts_function():
    # x = exp(1 + W0((k - 1) / e)), k = s h / (N0 j).
    gain, second, joule = np.array([0.5, 2.0, 7.0]), 3.0, np.array([0.1, 1.0, 40.0])
    tariff = Tariff(second=second, joule=joule)
    found = cheapest_power(gain, tariff, length=LENGTH, noise=1.0, max_power=1e9)
    k = second * gain / joule
    x = [mpmath.exp(1 + mpmath.lambertw((each - 1) / mpmath.e)).real for each in k]
    np.testing.assert_allclose(found, (np.array(x, dtype=float) - 1.0) / gain, rtol=1e-13)


def test_every_device_has_its_own_peak_and_one_out_of_reach_sends_nothing():
    tariff = Tariff(second=1.0, joule=np.array([0.0, 1e-9, 1e-9, 1e9]))
    gain, peak = np.array([1.0, 1.0, np.nan, 1.0]), np.array([3.0, 4.0, 5.0, 6.0])
    power = cheapest_power(gain, tariff, length=1.0, noise=1.0, max_power=peak)
    assert power[:3].tolist() == [3.0, 4.0, 0.0]
    assert 0.0 < power[3] < 1e-3


def test_every_set_of_instructions_gives_the_same_bits():
    gain, tariff = problems(1000)
    best = _kernel.kernels()[-1]
    found = set()
    try:
        for name in _kernel.kernels():
            _kernel.use(name)
            power = cheapest_power(gain, tariff, length=LENGTH, noise=NOISE, max_power=1e300)
            found.add(power.tobytes())
    finally:
        _kernel.use(best)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("gain", "tariff", "sentence"),
    [
        ([1.0, -1.0], Tariff(second=1.0), r"gain\[1\] must be finite and positive, got -1"),
        ([1.0, 1.0], Tariff(second=0.0), r"tariff.second\[0\] must be finite and positive, got 0"),
        ([1.0, 1.0], Tariff(second=1.0, joule=np.nan), r"tariff.joule\[0\] must be finite and not"),
        ([1.0, 1.0], Tariff(second=1.0, watt=-1.0), r"tariff.watt\[0\] must be finite and not"),
    ],
)
def test_what_has_no_cheapest_power_is_refused(gain, tariff, sentence):
    with pytest.raises(InputError, match=sentence):
        cheapest_power(np.array(gain), tariff, length=1.0, noise=1.0, max_power=1.0)
