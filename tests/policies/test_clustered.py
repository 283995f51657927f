import os
import subprocess
import sys

import numpy as np
import pytest
from tests.policies import slow_twins
from tests.policies.observing import observed

from fedsched.policies import make_policy
from fedsched.policies.clustered import (
    _angles,
    pour,
    similarity_bins,
    size_bins,
)
from fedsched.policies.ward import ward_groups
from fedsched.randomness import stream
from fedsched.solve.uplink import Uplink
from fedsched.values import Experience

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def check(bins, units, draws):
    """Both conditions of an unbiased clustered sampling, in whole numbers."""
    assert bins.sum(axis=1).tolist() == [int(units.sum())] * draws
    assert bins.sum(axis=0).tolist() == (draws * units).tolist()
    assert (bins >= 0).all()


@pytest.mark.parametrize(("devices", "draws"), [(100, 7), (100, 10), (3, 7), (1, 1), (10, 10)])
def test_bins_by_size_are_unbiased_for_any_number_of_draws(devices, draws):
    check(size_bins(np.ones(devices, np.int64), draws), np.ones(devices), draws)
    units = stream(1, "data").integers(1, 1000, devices)
    check(size_bins(units, draws), units, draws)


def test_a_hundred_devices_in_ten_draws_are_ten_strata():
    bins = size_bins(np.ones(100, np.int64), 10)
    assert ((bins > 0).sum(axis=1) == 10).all()
    assert ((bins > 0).sum(axis=0) == 1).all()


def test_a_hundred_devices_in_seven_draws_have_the_probabilities_of_their_bins():
    policy = make_policy("clustered-sizes", uplink=LINK, draws=7)
    decision, _ = policy.decide(observed(np.ones(100)), policy.init(100))
    cohort = decision.cohort
    assert cohort.weight.sum() == pytest.approx(1.0)
    assert 1 <= cohort.size <= 7
    # In one bin alone q = 7/100; a device in two bins has a little less.
    q = decision.probability
    assert ((q > 0.0675) & (q <= 0.07 + 1e-12)).all()
    assert (q < 0.07 - 1e-6).sum() == 6


def test_groups_are_subtrees_of_wards_tree_within_the_limit():
    place = np.array([0.0, 0.1, 0.25, 10.0, 10.1, 50.0])
    distance = np.abs(place[:, None] - place[None, :])
    groups = ward_groups(distance, np.ones(6, np.int64), 3)
    assert sorted(map(sorted, groups)) == [[0, 1, 2], [3, 4, 5]] or sorted(map(sorted, groups)) == [
        [0, 1, 2],
        [3, 4],
        [5],
    ]
    pairs = ward_groups(distance, np.ones(6, np.int64), 2)
    assert sorted(map(sorted, pairs)) == [[0, 1], [2], [3, 4], [5]]
    alone = ward_groups(distance, np.full(6, 9), 3)
    assert sorted(map(sorted, alone)) == [[n] for n in range(6)]


def test_wards_tree_is_the_one_of_a_reference():
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    points = stream(3, "data").normal(size=(24, 3))
    distance = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    tree = hierarchy.linkage(points, "ward")
    # The reference's largest subtrees of at most 6 points.
    members = {n: [n] for n in range(24)}
    for k, (a, b, _, _) in enumerate(tree):
        members[24 + k] = members[int(a)] + members[int(b)]
    fitting = [set(m) for m in members.values() if len(m) <= 6]
    wanted = [m for m in fitting if not any(m < other for other in fitting)]
    found = [set(m) for m in ward_groups(distance, np.ones(24, np.int64), 6)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))


def distances(rng, devices, kind):
    """Angles of updates; "grid" and "few" have many ties, "silent" many devices without one."""
    if kind == "few":
        half = rng.integers(0, 4, (devices, devices)).astype(float)
        return half + half.T
    update = rng.normal(size=(devices, 3))
    if kind == "grid":
        update = rng.integers(-1, 2, (devices, 2))
    if kind == "silent":
        update[rng.random(devices) < 0.5] = 0.0
    return _angles(update.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "silent", "grid", "few"])
@pytest.mark.parametrize("devices", [1, 2, 7, 8, 9, 64, 65, 90])  # around whole blocks
def test_the_groups_are_those_of_the_slow_twin_also_where_distances_tie(devices, kind):
    rng = stream(devices, "data")
    for _ in range(6):
        distance, units = distances(rng, devices, kind), rng.integers(1, 9, devices)
        limit = int(units.sum() * rng.uniform(0.02, 1.1))
        wanted = slow_twins.ward_groups(distance, units, limit)
        assert ward_groups(distance, units, limit) == wanted


def test_an_update_that_is_not_finite_is_clustered_as_by_the_slow_twin():
    distance = distances(stream(1, "data"), 30, "plain")
    distance[3, :] = distance[:, 3] = np.nan
    units = np.ones(30, np.int64)
    with np.errstate(invalid="ignore"):
        assert ward_groups(distance, units, 9) == slow_twins.ward_groups(distance, units, 9)


def test_bins_by_similarity_are_unbiased_and_keep_similar_devices_together():
    rng = stream(2, "data")
    centre = np.repeat(np.eye(4), 5, axis=0)
    update = (centre + 0.01 * rng.normal(size=(20, 4))).astype(np.float32)
    bins = similarity_bins(update, np.ones(20, np.int64), 4, rng.permutation(20))
    check(bins, np.ones(20), 4)
    assert sorted(np.flatnonzero(row).tolist() for row in bins) == [
        list(range(k, k + 5)) for k in range(0, 20, 5)
    ]
    for _ in range(20):
        units = rng.integers(1, 50, 13)
        random = rng.normal(size=(13, 4)).astype(np.float32)
        random[rng.random(13) < 0.3] = 0.0
        check(similarity_bins(random, units, 5, rng.permutation(13)), units, 5)


def test_angles_are_those_of_exact_arithmetic():
    rng = stream(5, "data")
    update = (rng.normal(size=(9, 400)) * rng.exponential(size=400) ** 3).astype(np.float32)
    update *= np.geomspace(1e-20, 1e20, 9, dtype=np.float32)[:, None]
    update[1], update[2] = update[0], -update[0]
    rows = update.astype(np.longdouble)
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    cosine = (rows[:, None] * rows[None, :]).sum(axis=2).astype(np.float64)
    found = _angles(update)
    assert np.cos(found) == pytest.approx(cosine, abs=1e-7)
    assert found[0, 1] == 0.0 and found[0, 2] == np.pi
    assert np.array_equal(found, found.T)


def test_devices_without_an_update_are_alike_and_at_right_angles_to_the_others():
    # Else each of those not heard of would be a cluster by itself, as far from the rest as any.
    angle = _angles(np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0]], np.float32))
    right = np.pi / 2
    assert angle == pytest.approx(
        np.array(
            [
                [0.0, right, right, right],
                [right, 0.0, 0.0, right],
                [right, 0.0, 0.0, right],
                [right, right, right, 0.0],
            ]
        )
    )


@pytest.mark.slow
def test_angles_do_not_depend_on_the_threads_of_the_machine():
    code = (
        "import hashlib, numpy as np;"
        "from fedsched.policies.clustered import _angles;"
        # Small angles, in which the last bits of the sums do show.
        "u = np.random.default_rng(1).normal(3.0, size=(100, 12_345)).astype(np.float32);"
        "print(hashlib.sha256(_angles(u).tobytes()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2")
    }
    assert len(found) == 1


def test_what_does_not_fill_the_bins_evenly_is_refused():
    with pytest.raises(ValueError, match="3 units do not fill 2 bins evenly"):
        pour(np.zeros((2, 1), np.int64), [(0, 3)])


def test_algorithm_2_remembers_the_updates_of_those_that_took_part():
    policy = make_policy("clustered-similarity", uplink=LINK, draws=2)
    state = policy.init(4)
    update = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    one = Experience(
        device=np.array([1, 3]),
        loss=np.ones(2),
        square_loss=np.ones(2),
        norm=np.ones(2),
        update=update,
        weight=np.ones(2),
    )
    state = policy.observe(state, one)
    assert state["update"].tolist() == [[0, 0], [1, 0], [0, 0], [0, 1]]
    none = Experience(
        device=np.empty(0, np.int64),
        loss=np.empty(0),
        square_loss=np.empty(0),
        norm=np.empty(0),
        update=None,
        weight=np.empty(0),
    )
    assert policy.observe(state, none) is state
