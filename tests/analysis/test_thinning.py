import numpy as np
import pytest

from fedsched.analysis.curves import Curve, averaged, thinned


def curve_with(value):
    rounds = np.arange(1.0, len(value) + 1.0)
    return Curve(rounds=rounds, airtime_s=0.3 * rounds, value=np.asarray(value, dtype=float))


@pytest.mark.parametrize("size", [501, 3000])
def test_a_long_curve_is_thinned_to_points_of_its_own_with_its_ends_and_its_spike(size):
    value = np.sin(np.arange(size) / 50.0)
    value[size // 3] = 9.0
    curve = curve_with(value)
    thin = thinned(curve, 300)
    assert 200 < len(thin.value) <= 300
    places = thin.rounds.astype(int) - 1
    assert np.all(np.diff(places) > 0)
    assert places[0] == 0 and places[-1] == size - 1 and size // 3 in places
    assert np.array_equal(thin.value, value[places])
    assert np.array_equal(thin.airtime_s, curve.airtime_s[places])


def test_an_averaged_curve_keeps_the_weighted_mean_and_its_order():
    curve = curve_with(np.random.default_rng(1).random(4000))
    few = averaged(curve, 300)
    assert len(few.value) <= 300
    assert np.all(np.diff(few.rounds) > 0.0)
    # Stretches are runs of neighbours, so their sizes follow from the means of the rounds.
    size, end = [], 0
    for centre in few.rounds:
        size.append(round(2 * (centre - end) - 1))
        end += size[-1]
    assert end == 4000
    assert np.dot(size, few.value) == pytest.approx(curve.value.sum())


@pytest.mark.parametrize("less", [thinned, averaged])
def test_a_short_curve_is_left_as_it_is(less):
    curve = curve_with([0.1, 0.2, 0.3])
    assert less(curve, 3) is curve
