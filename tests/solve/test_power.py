import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import lambertw
from tests.solve.reference import reference_power

from fedsched.errors import InputError
from fedsched.randomness import stream
from fedsched.solve.power import optimal_power

PAPER = {"cost": 100.0 * 100.0 * 32 * 555_178 / 22e6, "noise": 1.0, "max_power": 10**3.5}


def cost_of_power(power, gain, queue, *, cost, noise, **_):
    return cost * math.log(2.0) / np.log1p(gain * (power / noise)) + queue * power


def decades(low, high):
    return st.floats(low, high).map(lambda e: 10.0**e)


@pytest.mark.slow
@given(
    gain=decades(-30, 30),
    queue=st.one_of(st.sampled_from([0.0, 1e9]), decades(-12, 9)),
    cost=decades(-3, 9),
    noise=decades(-12, 3),
    max_power=decades(-3, 6),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_the_power_is_that_of_the_slow_twin(gain, queue, cost, noise, max_power):
    link = {"cost": cost, "noise": noise, "max_power": max_power}
    power = float(optimal_power(gain, queue, **link))
    assert 0.0 < power <= max_power
    assert power == pytest.approx(reference_power(gain, queue, **link), rel=1e-12)


@pytest.mark.parametrize("gain", [1e-3, 0.5, 300.0])
@pytest.mark.parametrize("queue", [0.2, 50.0, 1e4])
def test_no_other_power_is_cheaper(gain, queue):
    best = float(optimal_power(gain, queue, **PAPER))
    found = minimize_scalar(
        lambda x: cost_of_power(math.exp(x), gain, queue, **PAPER),
        bounds=(-30.0, math.log(PAPER["max_power"])),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert cost_of_power(best, gain, queue, **PAPER) <= found.fun * (1 + 1e-14)
    assert best == pytest.approx(math.exp(found.x), rel=1e-5)


def test_the_derivative_vanishes_below_the_peak():
    gain, queue = np.array([1e-3, 0.2, 7.0, 400.0]), np.array([3e3, 500.0, 60.0, 90.0])
    power = optimal_power(gain, queue, **PAPER)
    assert np.all(power < PAPER["max_power"])
    snr = gain * power
    slope = -PAPER["cost"] * math.log(2.0) * gain / ((1.0 + snr) * np.log1p(snr) ** 2)
    assert slope == pytest.approx(-queue, rel=1e-12)


@pytest.mark.parametrize("gain", [1e-3, 0.02, 1.0, 200.0])
def test_the_printed_form_squares_ln_2_and_costs_more(gain):
    queue, unbounded = 50.0, PAPER | {"max_power": 1e9}
    exact = float(optimal_power(gain, queue, **unbounded))
    printed = float(optimal_power(gain, queue, **unbounded, as_printed=True))
    # Scaling the cost by ln 2 turns the factor ln 2 into its square.
    scaled = unbounded | {"cost": PAPER["cost"] * math.log(2.0)}
    assert printed == pytest.approx(reference_power(gain, queue, **scaled), rel=1e-12)
    assert math.log(2.0) < printed / exact < math.sqrt(math.log(2.0))
    assert cost_of_power(printed, gain, queue, **PAPER) > 1.003 * cost_of_power(
        exact, gain, queue, **PAPER
    )


def test_an_empty_queue_gives_the_peak_exactly_at_any_gain():
    gain = 10.0 ** np.arange(-30.0, 31.0)
    assert np.all(optimal_power(gain, np.zeros(61), **PAPER) == PAPER["max_power"])


def test_the_peak_is_never_exceeded_and_every_power_is_positive():
    gain, queue = np.meshgrid(10.0 ** np.linspace(-30, 30, 241), [0.0, 1e-300, 1e-9, 1.0, 1e9])
    power = optimal_power(gain, queue, **PAPER)
    assert np.all((power > 0.0) & (power <= PAPER["max_power"]))


def test_gain_and_queue_broadcast():
    gain, queue = np.array([[0.1, 1.0, 10.0]]), np.array([[2.0], [30.0]])
    power = optimal_power(gain, queue, **PAPER)
    assert power.shape == (2, 3)
    for row in range(2):
        for column in range(3):
            alone = optimal_power(gain[0, column], queue[row, 0], **PAPER)
            assert alone.shape == ()
            assert power[row, column] == alone
    assert optimal_power([0.1, 1.0], 5.0, **PAPER).shape == (2,)
    assert optimal_power(0.1, [5.0, 1.0, 3.0], **PAPER).shape == (3,)


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_do_not_change_a_bit(threads):
    random = stream(3, "channel")
    gain, queue = random.exponential(size=50_000), random.exponential(size=50_000)
    whole = optimal_power(gain, queue, **PAPER)
    assert np.array_equal(optimal_power(gain, queue, **PAPER, threads=threads), whole)


def test_a_long_array_has_the_bits_of_its_pieces():
    random = stream(3, "channel")
    gain, queue = random.exponential(size=1000), random.exponential(size=1000)
    whole = optimal_power(gain, queue, **PAPER)
    pieces = [optimal_power(gain[i : i + 7], queue[i : i + 7], **PAPER) for i in range(0, 1000, 7)]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_inputs_are_left_as_they_are():
    gain, queue = np.array([1.0, 2.0]), np.array([0.0, 3.0])
    optimal_power(gain, queue, **PAPER)
    assert gain.tolist() == [1.0, 2.0]
    assert queue.tolist() == [0.0, 3.0]


def test_the_power_is_that_of_scipys_lambert_w_over_all_magnitudes():
    # W = W0(root / 2) of the root of A = c h ln 2 / (N0 Z): with all else 1, h gives any A.
    z = np.concatenate([10.0 ** np.linspace(-140, 140, 20_001), np.linspace(0.01, 30.0, 5_001)])
    gain = 4.0 * z**2 / math.log(2.0)
    power = optimal_power(gain, 1.0, cost=1.0, noise=1.0, max_power=1e299)
    expected = np.expm1(2.0 * lambertw(z).real) / gain
    assert np.max(np.abs(power / expected - 1.0)) < 1e-12


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gain": [1.0, math.nan]}, r"gain\[1\] must be finite and positive, got nan"),
        ({"gain": [1.0, -2.0]}, r"gain\[1\] must be finite and positive, got -2.0"),
        ({"queue": [-1.0, 0.0]}, r"queue\[0\] must be finite and not negative, got -1.0"),
        ({"queue": [1.0, 2.0, 3.0]}, "must have matching shapes.*one queue length per device"),
        ({"cost": 0.0}, "cost must be a positive finite number, got 0"),
        ({"noise": math.inf}, "noise must be a positive finite number, got inf"),
        ({"max_power": -1.0}, "max_power must be a positive finite number, got -1"),
    ],
)
def test_impossible_inputs_are_refused_by_name(changed, message):
    with pytest.raises(InputError, match=message):
        optimal_power(**{"gain": [1.0, 2.0], "queue": [0.0, 1.0], **PAPER} | changed)
