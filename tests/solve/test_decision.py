"""The fused call, against its steps and against the policy."""

import math

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.randomness import stream
from fedsched.solve.decision import decide
from fedsched.solve.power import optimal_power
from fedsched.solve.probabilities import (
    fixed_size_probabilities,
    independent_probabilities,
    optimal_probabilities,
)
from fedsched.solve.uplink import PAPER_UPLINK

V, LAM = 100.0, 50.0
TERMS = {"uplink": PAPER_UPLINK, "v": V, "lam": LAM}


def rounds(devices=20, count=6):
    random = stream(95, "channel")
    return random.exponential(3.0, (count, devices)), random.exponential(50.0, (count, devices))


def by_steps(gain, queue, design, draws, weight, floor, as_printed):
    cost = V * LAM * PAPER_UPLINK.bits / PAPER_UPLINK.bandwidth_hz
    power = optimal_power(
        gain, queue, cost=cost, noise=PAPER_UPLINK.noise_w, max_power=PAPER_UPLINK.max_power_w,
        as_printed=as_printed,
    )  # fmt: skip
    price = V * LAM * PAPER_UPLINK.airtime_s(gain, power) + queue * power
    if design == "independent":
        return power, price, independent_probabilities(price, weight=weight, floor=floor)
    if design == "fixed-size":
        found = fixed_size_probabilities(price, weight=weight, size=draws, floor=floor)
        return power, price, found
    return power, price, optimal_probabilities(price, weight=weight, draws=draws, floor=floor)


@pytest.mark.parametrize("design", ["with-replacement", "fixed-size", "independent"])
@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("floor", [0.0, 0.02])
@pytest.mark.parametrize("as_printed", [False, True])
def test_it_is_the_power_the_price_and_the_probabilities(design, unequal, floor, as_printed):
    gain, queue = rounds()
    share = stream(96, "data").dirichlet(np.full(20, 3.0)) if unequal else None
    weight = V / 20 if share is None else V * 20 * share**2
    for draws in (1, 4):
        decided = decide(
            gain, queue, **TERMS, draws=draws, design=design, data_weight=share, floor=floor,
            as_printed=as_printed,
        )  # fmt: skip
        power, price, found = by_steps(gain, queue, design, draws, weight, floor, as_printed)
        assert decided.raise_for_status() is decided
        assert decided.power_w == pytest.approx(power, rel=1e-14)
        assert decided.price == pytest.approx(price, rel=1e-13)
        assert decided.objective == pytest.approx(found.objective, rel=1e-12)
        assert decided.probability == pytest.approx(found.probability, rel=1e-7)
        assert (decided.draw_probability is None) == (design != "with-replacement")


def test_devices_out_of_reach_have_nothing_and_the_others_their_own_weights():
    gain, queue = rounds(count=2)
    share = stream(96, "data").dirichlet(np.full(20, 3.0))
    near = np.ones((2, 20), dtype=bool)
    near[0, [3, 7]] = False
    near[1] = False
    decided = decide(
        np.where(near, gain, math.nan), queue, **TERMS, draws=4, data_weight=share, floor=0.01
    )
    for values in (decided.probability, decided.draw_probability, decided.power_w, decided.price):
        assert np.all(values[~near] == 0.0)
    kept = near[0]
    _, _, found = by_steps(
        gain[0, kept], queue[0, kept], "with-replacement", 4, V * 20 * share[kept] ** 2, 0.01, False
    )
    assert decided.probability[0, kept] == pytest.approx(found.probability, rel=1e-7)
    assert decided.objective.tolist() == [pytest.approx(float(found.objective)), 0.0]
    assert decided.gap.max() <= 1e-9


def test_a_batch_has_the_bits_of_its_rounds_and_threads_change_none():
    gain, queue = rounds(devices=20_000, count=2)
    whole = decide(gain, queue, **TERMS, draws=10)
    shared = decide(gain, queue, **TERMS, draws=10, threads=3)
    for row in range(2):
        alone = decide(gain[row], queue[row], **TERMS, draws=10)
        assert np.array_equal(whole.probability[row], alone.probability)
        assert np.array_equal(whole.power_w[row], alone.power_w)
    assert np.array_equal(whole.probability, shared.probability)


def test_a_floor_need_only_fit_those_in_reach():
    gain = np.full(20, math.nan)
    gain[:5] = 1.0
    decided = decide(gain, np.ones(20), **TERMS, draws=4, floor=0.4)
    assert np.all(decided.probability[:5] >= 0.4)
    with pytest.raises(InputError, match="asks too much"):
        decide(np.ones(20), np.ones(20), **TERMS, draws=4, floor=0.4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gain": [1.0, -2.0]}, r"gain\[1\] must be positive and finite, or NaN"),
        ({"gain": [1.0, math.inf]}, r"gain\[1\] must be positive and finite, or NaN"),
        ({"queue": [1.0, math.nan]}, r"queue\[1\] must be finite and not negative, got nan"),
        ({"queue": [-1.0, 1.0]}, r"queue\[0\] must be finite and not negative, got -1"),
        ({"queue": [1.0]}, "one queue length per device"),
        ({"gain": [], "queue": []}, "at least one device"),
        ({"v": 0.0}, "v must be a positive finite number"),
        ({"lam": -1.0}, "lam must be a positive finite number"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"floor": 1.0}, r"floor must lie in \[0, 1\)"),
        ({"data_weight": [1.0]}, "one share for each of 2 devices"),
        ({"data_weight": [1.0, 0.0]}, r"data_weight\[1\] must be finite and positive"),
    ],
)
def test_impossible_rounds_are_refused_by_name(changed, message):
    usual = {"gain": [1.0, 2.0], "queue": [0.0, 1.0], "draws": 2, **TERMS}
    with pytest.raises(InputError, match=message):
        decide(**usual | changed)


def test_an_unknown_design_is_refused():
    with pytest.raises(UnknownNameError, match="design"):
        decide([1.0], [1.0], **TERMS, draws=1, design="bernoulli")
