import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsched.errors import InputError
from fedsched.learning.partition import Partition, class_probabilities, index_by_class

LABELS = np.random.default_rng(0).integers(0, 10, 3000)


def partition(**changes):
    given = {
        "index": index_by_class(LABELS, 10),
        "alpha": 1.0,
        "size": 500,
        "devices": 20,
        "seed": 7,
    }
    return Partition(**(given | changes))


def test_images_are_sorted_by_class():
    index = index_by_class(LABELS, 10)
    assert sorted(index.order.tolist()) == list(range(3000))
    for number in range(10):
        part = index.order[index.start[number] : index.start[number] + index.count[number]]
        assert (LABELS[part] == number).all()


def test_an_empty_class_is_named():
    with pytest.raises(InputError, match=r"classes \[1\] have no training image"):
        index_by_class(np.array([0, 2, 2]), 3)


@settings(max_examples=60, deadline=None)
@given(
    alpha=st.floats(0, np.inf, exclude_max=True),
    classes=st.integers(2, 12),
    seed=st.integers(0, 99),
)
def test_class_probabilities_are_probabilities_for_every_alpha(alpha, classes, seed):
    probability = class_probabilities(alpha, classes, np.random.default_rng(seed))
    assert (probability >= 0).all()
    assert probability.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 10.0])
def test_class_probabilities_have_the_dirichlet_mean_and_variance(alpha):
    random = np.random.default_rng(3)
    draws = np.array([class_probabilities(alpha, 10, random) for _ in range(20_000)])
    assert draws.mean(axis=0) == pytest.approx(np.full(10, 0.1), abs=0.01)
    # Dir(alpha e) with e = 1/10: variance e (1 - e) / (alpha + 1).
    assert draws.var() == pytest.approx(0.1 * 0.9 / (alpha + 1), rel=0.03)


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-6])
def test_a_vanishing_alpha_puts_all_mass_on_one_class_and_every_class_has_its_turn(alpha):
    random = np.random.default_rng(5)
    draws = np.array([class_probabilities(alpha, 4, random) for _ in range(2000)])
    assert (np.abs(draws.max(axis=1) - 1) < 1e-3).mean() > 0.999
    assert np.bincount(draws.argmax(axis=1), minlength=4) == pytest.approx([500] * 4, abs=90)


def test_an_infinite_alpha_gives_every_device_the_uniform_distribution():
    labels = LABELS[partition(alpha=np.inf, size=50_000).indices(3)]
    assert np.bincount(labels) / 50_000 == pytest.approx(np.full(10, 0.1), abs=0.006)


def test_one_class_devices_draw_uniformly_from_their_class():
    drawn = partition(alpha=0.0, size=60_000).indices(0)
    label = LABELS[drawn[0]]
    assert (LABELS[drawn] == label).all()
    members = np.flatnonzero(label == LABELS)
    count = np.bincount(drawn, minlength=len(LABELS))[members]
    assert (count > 0).all()  # all images of the class, with repetition
    expected = 60_000 / len(members)
    assert ((count - expected) ** 2 / expected).sum() < len(members) + 6 * (2 * len(members)) ** 0.5


def test_a_device_always_draws_the_same_data_and_devices_and_seeds_differ():
    first = partition().indices(4)
    assert first.dtype == np.int64 and first.shape == (500,)
    assert first.tolist() == partition(devices=10_000).indices(4).tolist()
    assert first.tolist() != partition().indices(5).tolist()
    assert first.tolist() != partition(seed=8).indices(4).tolist()


def test_sizes_may_differ_and_weights_follow():
    mine = partition(size=np.array([10, 30, 60]), devices=3)
    assert [len(mine.indices(device)) for device in range(3)] == [10, 30, 60]
    assert mine.data_weight.tolist() == [0.1, 0.3, 0.6]
    assert partition(devices=4).data_weight.tolist() == [0.25] * 4


def test_a_hundred_thousand_devices_need_no_more_memory_than_a_hundred():
    index = index_by_class(LABELS, 10)
    tracemalloc.start()
    many = partition(index=index, devices=100_000)
    for device in range(0, 100_000, 1000):
        many.indices(device)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000  # bytes: less than two for each device


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": -1.0}, r"alpha must lie in \[0, inf\], got -1.0"),
        ({"alpha": np.nan}, r"alpha must lie in \[0, inf\], got nan"),
        ({"devices": 0}, "devices must be >= 1, got 0"),
        ({"size": 0}, "size must be >= 1 for every device, got 0"),
        ({"size": 2**63 - 1}, r"\(data.samples\), must be at most 10,000,000, got 9,223,372,"),
        ({"size": np.array([1, 2])}, "one for each of the 20 devices"),
        ({"size": 2.5}, "size must be one integer"),
    ],
)
def test_a_bad_setting_is_refused_with_a_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        partition(**changes)


def test_a_device_outside_the_partition_is_refused():
    with pytest.raises(InputError, match=r"device must lie in 0 .. 19, got 20"):
        partition().indices(20)
