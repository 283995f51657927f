import numpy as np
import pytest
from scipy import stats

from fedsched.errors import InputError
from fedsched.radio.pathloss import Annulus, Distances, PathLoss
from fedsched.randomness import stream

GOOD = {
    "geometry": Distances(np.array([100.0, 200.0, 1000.0])),
    "reference_gain_db": 20.0,
    "reference_distance_m": 100.0,
    "exponent": 3.0,
    "shadowing_db": 0.0,
}


def test_without_shadowing_the_mean_gain_follows_the_power_law():
    state = PathLoss(**GOOD).init(stream(1, "channel"))
    np.testing.assert_allclose(state["mean_gain"], [100.0, 100.0 / 8.0, 0.1], rtol=1e-12)
    np.testing.assert_array_equal(state["distance_m"], [100.0, 200.0, 1000.0])


def test_the_shadowing_is_normal_in_decibels_and_stays():
    geometry = Distances(np.full(20_000, 100.0))
    channel = PathLoss(**GOOD | {"geometry": geometry, "shadowing_db": 8.0})
    state = channel.init(stream(2, "channel"))
    shadowing_db = 10.0 * np.log10(state["mean_gain"]) - 20.0
    assert stats.kstest(shadowing_db, stats.norm(scale=8.0).cdf).pvalue > 1e-3
    # The docstring's factor between mean and median.
    assert np.exp((8.0 * np.log(10.0) / 10.0) ** 2 / 2.0) == pytest.approx(5.4, abs=0.1)
    _, after = channel.step(state, stream(2, "channel", 0))
    np.testing.assert_array_equal(after["mean_gain"], state["mean_gain"])


def test_the_fading_on_top_is_exponential_and_new_in_every_round():
    geometry = Distances(np.full(20_000, 100.0))
    channel = PathLoss(**GOOD | {"geometry": geometry})
    state = channel.init(stream(3, "channel"))
    first, state = channel.step(state, stream(3, "channel", 0))
    second, _ = channel.step(state, stream(3, "channel", 1))
    assert stats.kstest(first / 100.0, stats.expon().cdf).pvalue > 1e-3
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.04


def test_the_annulus_is_filled_uniformly_by_area():
    distance_m = Annulus(device_count=20_000, inner_radius_m=50.0, outer_radius_m=400.0).place(
        stream(4, "channel")
    )
    share = (distance_m**2 - 50.0**2) / (400.0**2 - 50.0**2)
    assert stats.kstest(share, stats.uniform().cdf).pvalue > 1e-3
    assert distance_m.min() >= 50.0
    assert distance_m.max() <= 400.0


def test_given_distances_are_handed_out_as_a_copy():
    geometry = Distances(np.array([1.0, 2.0]))
    geometry.place(stream(5, "channel"))[:] = 9.0
    assert geometry.place(stream(5, "channel")).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("reference_gain_db", np.nan, "PathLoss.reference_gain_db must be finite, got nan"),
        ("reference_distance_m", 0.0, "reference_distance_m must be positive and finite, got 0.0"),
        ("exponent", -2.0, "PathLoss.exponent must be positive and finite, got -2.0"),
        ("shadowing_db", -1.0, r"shadowing_db must be .* at least 0 \(0 switches .* got -1.0"),
        ("shadowing_db", np.inf, "got inf"),
    ],
)
def test_a_bad_field_of_the_path_loss_is_refused_by_name(field, value, message):
    with pytest.raises(InputError, match=message):
        PathLoss(**GOOD | {field: value})


@pytest.mark.parametrize(
    ("count", "inner", "outer", "message"),
    [
        (0, 1.0, 2.0, "Annulus.device_count must be a whole number of at least 1, got 0"),
        (1, 0.0, 2.0, "Annulus.inner_radius_m must be positive and finite, got 0.0"),
        (1, 3.0, 2.0, "outer_radius_m must be finite and greater than inner_radius_m = 3.0, got 2"),
        (1, 3.0, np.inf, "outer_radius_m must be finite"),
    ],
)
def test_a_bad_annulus_is_refused(count, inner, outer, message):
    with pytest.raises(InputError, match=message):
        Annulus(device_count=count, inner_radius_m=inner, outer_radius_m=outer)


def test_a_distance_of_zero_is_refused():
    with pytest.raises(InputError, match=r"Distances.distance_m\[1\] must be positive .* got 0.0"):
        Distances(np.array([1.0, 0.0]))
