import math
from typing import NamedTuple

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.policies import make_policy
from fedsched.policies.designs import (
    DESIGNS,
    FixedSize,
    Independent,
    WithReplacement,
    make_design,
)
from fedsched.randomness import stream
from fedsched.solve.uplink import PAPER_UPLINK

COHORTS = 20_000
STANDARD_ERRORS = 5.0


class Asked(NamedTuple):
    """What a design is asked to realise."""

    probability: np.ndarray
    draw_probability: np.ndarray | None


def decide(design, asked):
    """What this design can realise: as asked, or as near as draws with replacement come."""
    asked = np.asarray(asked, dtype=float)
    draw_probability = None
    if isinstance(design, WithReplacement):
        draw_probability = asked / asked.sum()
        asked = -np.expm1(design.draws * np.log1p(-draw_probability))
    return Asked(asked, draw_probability)


# Out of reach, rare, equal, likely, sure; the sum is 3. A new design is added here, and is tested.
ASKED = [0.0, 0.05, 0.3, 0.3, 0.6, 0.75, 1.0]
CONTRACT = [WithReplacement(3), Independent(3), FixedSize(3)]
by_design = pytest.mark.parametrize("design", CONTRACT, ids=lambda d: type(d).__name__)


@pytest.fixture(scope="module", params=CONTRACT, ids=lambda d: type(d).__name__)
def sample(request):
    """A design, its decision, and which devices took part in each of many cohorts."""
    design = request.param
    decision = decide(design, ASKED)
    rng = stream(1, "sampling")
    took_part = np.zeros((COHORTS, len(ASKED)), dtype=bool)
    for row in took_part:
        members = design.members(*decision, rng)
        assert np.all(np.diff(members) > 0), "members are ascending and distinct"
        row[members] = True
    return design, decision, took_part


@pytest.mark.slow
def test_each_device_takes_part_as_often_as_asked(sample):
    _, decision, took_part = sample
    q = decision.probability
    standard_error = np.sqrt(q * (1.0 - q) / COHORTS)
    # Without chance (0 or 1) the frequency is exact.
    assert np.all(np.abs(took_part.mean(axis=0) - q) <= STANDARD_ERRORS * standard_error)


@pytest.mark.slow
def test_pairs_meet_as_often_as_the_design_says(sample):
    design, decision, took_part = sample
    q = decision.probability
    product = np.outer(q, q)
    together = took_part.T.astype(float) @ took_part / COHORTS
    off_diagonal = ~np.eye(len(q), dtype=bool)
    noise = STANDARD_ERRORS * np.sqrt(product * (1.0 - product) / COHORTS) + 1e-12
    if isinstance(design, FixedSize):
        # Negatively associated: the estimate is never worse than with independent coins.
        assert np.all((together <= product + noise)[off_diagonal])
        chance = off_diagonal & (product > 0.0) & (q < 1.0) & (q[:, None] < 1.0)
        assert together[chance].sum() < 0.9 * product[chance].sum()
        # In random order any two may meet again in a cohort; in a fixed one neighbours never do.
        assert together[chance].min() > 0.0
    elif isinstance(design, Independent):
        assert np.all((np.abs(together - product) <= noise)[off_diagonal])
    else:
        w = decision.draw_probability
        neither = (1.0 - w[:, None] - w[None, :]) ** design.draws
        wanted = q[:, None] + q[None, :] - 1.0 + neither
        assert np.all((np.abs(together - wanted) <= noise)[off_diagonal])


@pytest.mark.slow
def test_the_size_of_a_cohort_is_as_the_design_says(sample):
    design, _, took_part = sample
    sizes = set(took_part.sum(axis=1).tolist())
    if isinstance(design, FixedSize):
        assert sizes == {3}
    elif isinstance(design, WithReplacement):
        assert sizes == {1, 2, 3}
    else:
        assert sizes == {1, 2, 3, 4, 5, 6}  # one is sure, one is out of reach


@by_design
def test_a_cohort_is_a_function_of_the_generator(design):
    decision = decide(design, np.linspace(0.05, 0.95, 50) / 9.0)

    def draw(seed):
        return [design.members(*decision, stream(seed, "sampling", t)).tolist() for t in range(20)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@by_design
def test_a_member_weighs_its_share_of_the_data_over_its_probability(design):
    decision = decide(design, ASKED)
    share = np.arange(1.0, 8.0) / 28.0
    cohort = design.draw(*decision, share, stream(2, "sampling"))
    assert cohort.size >= 1
    assert cohort.weight * decision.probability[cohort.device] == pytest.approx(
        share[cohort.device], rel=1e-14
    )


# Unbiasedness, to a fraction of a per cent. Many devices in three classes of equal probability
# make one cohort worth thousands; the estimate is checked for each class by itself, so that a
# wrong weight cannot hide behind right ones.
CLASS = 8_000
CLASSES = 3
REPEATS = 240


def class_estimates(design, decision, share, value):
    """The sum of weight times value over the members of each class, for many cohorts."""
    kind = np.arange(CLASSES * CLASS) // CLASS
    rows = []
    for t in range(REPEATS):
        cohort = design.draw(*decision, share, stream(3, "sampling", t))
        terms = cohort.weight * value[cohort.device]
        rows.append(np.bincount(kind[cohort.device], weights=terms, minlength=CLASSES))
    return np.array(rows)


def is_unbiased(estimates, wanted):
    """Whether the mean of the estimates is the full sum within five standard errors."""
    standard_error = estimates.std(axis=0, ddof=1) / math.sqrt(REPEATS)
    return np.abs(estimates.mean(axis=0) - wanted) <= STANDARD_ERRORS * standard_error


@pytest.fixture(scope="module", params=["with-replacement", "independent", "fixed-size"])
def estimates(request):
    """Estimates of the weighted sum for each class, and the sums themselves."""
    asked = np.repeat([0.25, 0.5, 0.85], CLASS)
    design = make_design(request.param, round(asked.sum()))
    decision = decide(design, asked)
    rng = stream(3, "data")
    share = rng.uniform(0.5, 1.5, CLASSES * CLASS)
    share /= share.sum()
    value = rng.normal(3.0, 1.0, CLASSES * CLASS)
    wanted = (share * value).reshape(CLASSES, CLASS).sum(axis=1)
    return class_estimates(design, decision, share, value), wanted


@pytest.mark.slow
def test_the_weighted_sum_over_a_cohort_estimates_the_full_sum_without_bias(estimates):
    assert is_unbiased(*estimates).all()


@pytest.mark.slow
@pytest.mark.parametrize("off", [0.99, 1.01])
@pytest.mark.parametrize("wrong", range(CLASSES))
def test_a_weight_that_is_one_per_cent_off_would_be_noticed(estimates, wrong, off):
    drawn, wanted = estimates
    factor = np.where(np.arange(CLASSES) == wrong, off, 1.0)
    unbiased = is_unbiased(drawn * factor, wanted)
    assert not unbiased[wrong]
    assert unbiased.sum() == CLASSES - 1


@pytest.mark.parametrize("devices", [1, 2, 3, 7, 64, 1_001])
def test_a_fixed_size_is_kept_for_any_number_of_devices(devices):
    rng = stream(4, "data", devices)
    for size in {1, devices // 2, devices - 1, devices} - {0}:
        solution = FixedSize(size).solve(rng.lognormal(0.0, 3.0, devices), 1.0, 0.0)
        decision = decide(FixedSize(size), solution.probability)
        for t in range(20):
            members = FixedSize(size).members(*decision, stream(4, "sampling", t))
            assert len(members) == size


@pytest.mark.parametrize(("devices", "size"), [(4, 2), (100, 25), (100, 50), (8, 6)])
def test_duels_of_two_that_are_both_sure_are_settled(devices, size):
    # Probabilities that add up to exactly 1 on the way: such pairs divide nothing by nothing.
    design = FixedSize(size)
    decision = decide(design, np.full(devices, size / devices))
    sizes = {len(design.members(*decision, stream(5, "sampling", t))) for t in range(50)}
    assert sizes == {size}


@by_design
def test_nobody_in_reach_means_an_empty_cohort(design):
    nobody = Asked(np.zeros(4), np.zeros(4))
    cohort = design.draw(*nobody, np.full(4, 0.25), stream(6, "sampling"))
    assert cohort.size == 0
    assert cohort.weight.shape == (0,)


@pytest.mark.parametrize(("extreme", "device"), [(0.0, 2), (np.nextafter(1.0, 0.0), 4)])
def test_the_extreme_random_numbers_point_at_devices_in_reach(extreme, device):
    class Extreme:
        def random(self, size):
            return np.full(size, extreme)

    design = WithReplacement(5)
    decision = decide(design, [0.0, 0.0, 0.1, 0.7, 0.1, 0.0])
    assert design.members(*decision, Extreme()).tolist() == [device]


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2, 30])
@by_design
def test_uniform_probabilities_are_those_the_design_realises(design, devices):
    q, omega = design.uniform(devices)
    each = None if omega is None else np.full(devices, omega)
    decision = Asked(np.full(devices, q), each)
    rounds = 4_000
    sizes = np.array([len(design.members(*decision, stream(8, "s", t))) for t in range(rounds)])
    noise = STANDARD_ERRORS * sizes.std() / math.sqrt(rounds)
    assert sizes.mean() == pytest.approx(devices * q, abs=noise + 1e-9)


@by_design
def test_solving_gives_probabilities_the_design_can_realise(design):
    solution = design.solve(np.geomspace(0.1, 100.0, 12), 1.0, 0.01)
    assert np.all((solution.probability >= 0.01 * (1 - 1e-12)) & (solution.probability <= 1.0))
    if isinstance(design, WithReplacement):
        assert solution.draw_probability.sum() == pytest.approx(1.0, abs=1e-12)
        assert solution.probability == pytest.approx(
            -np.expm1(3 * np.log1p(-solution.draw_probability)), rel=1e-12
        )
    else:
        assert solution.draw_probability is None
    if isinstance(design, FixedSize):
        assert solution.probability.sum() == pytest.approx(3.0, rel=1e-12)


def test_designs_are_made_by_name():
    assert {name: type(make_design(name, 2)) for name in DESIGNS} == {
        "with-replacement": WithReplacement,
        "independent": Independent,
        "fixed-size": FixedSize,
    }


@pytest.mark.parametrize("name", ["with-replacement", "independent", "fixed-size"])
@pytest.mark.parametrize("draws", [0, -1, 2.5, True, "3"])
def test_a_number_of_draws_that_is_none_is_refused(name, draws):
    with pytest.raises(InputError, match=r"draws must be a whole number of at least 1, got"):
        make_design(name, draws)


def test_an_unknown_design_is_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="did you mean 'fixed-size'"):
        make_design("fixed_size", 3)


def test_more_draws_than_memory_should_hold_are_refused_before_it_is_taken():
    sentence = "draws must be at most 100000000, got 9223"
    with pytest.raises(InputError, match=sentence):
        make_design("with-replacement", 2**63 - 1)
    with pytest.raises(InputError, match=sentence):
        make_policy("clustered-sizes", uplink=PAPER_UPLINK, draws=2**63 - 1)


def test_draws_with_replacement_need_draw_probabilities():
    decision = decide(Independent(2), [0.5, 0.5])
    with pytest.raises(InputError, match="draw_probability is None"):
        WithReplacement(2).members(*decision, stream(1, "sampling"))
