"""Expected lengths of rounds against the sum over all cohorts, or over all that were looked at."""

import itertools

import numpy as np
import pytest

from fedsched.radio.access import OFDMA, TDMA, EqualOFDMA, Parallel
from fedsched.radio.expected import likely_cohorts


def lengths(access, upload_s, late_s, cohorts):
    return np.array([access.uploads_s(upload_s[each], late_s[each]) for each in cohorts])


def slopes(access, upload_s, late_s, cohorts):
    """What each device adds, cohort by cohort, from the access's own clock."""
    added = np.empty((len(cohorts), len(upload_s)))
    for row, cohort in enumerate(cohorts):
        for n in range(len(upload_s)):
            with_it, without = cohort.copy(), cohort.copy()
            with_it[n], without[n] = True, False
            long, short = lengths(access, upload_s, late_s, [with_it, without])
            added[row, n] = long - short
    return added


def problems(count, devices):
    rng = np.random.default_rng(5)
    for _ in range(count):
        yield (
            rng.exponential(size=devices),
            rng.exponential(3.0, size=devices),
            rng.uniform(0.02, 1.0, size=devices),
        )


def test_the_last_of_parallel_uploads_is_the_sum_over_all_cohorts():
    every = np.array(list(itertools.product([False, True], repeat=5)))
    for upload_s, late_s, q in problems(20, 5):
        chance = np.where(every, q, 1.0 - q).prod(axis=1)
        mean_s, added_s = Parallel().expected_s(upload_s, late_s, q)
        expected = chance @ lengths(Parallel(), upload_s, late_s, every)
        assert mean_s == pytest.approx(expected, rel=1e-13)
        slope = chance @ slopes(Parallel(), upload_s, late_s, every)
        assert added_s == pytest.approx(np.maximum(slope, 1e-3 * upload_s), rel=1e-12)


# As many blocks as every number of members divides: expectations cut them at will.
@pytest.mark.parametrize(
    "access", [TDMA(), EqualOFDMA(blocks=840), EqualOFDMA(blocks=840, unit_s=2.0)]
)
def test_what_a_device_adds_is_what_the_clock_says_cohort_by_cohort(access):
    for upload_s, late_s, q in problems(2, 7):
        cohorts = likely_cohorts(q)
        mean_s, added_s = access.expected_s(upload_s, late_s, q)
        assert mean_s == pytest.approx(lengths(access, upload_s, late_s, cohorts).mean(), rel=1e-12)
        slope = slopes(access, upload_s, late_s, cohorts).mean(axis=0)
        assert added_s == pytest.approx(np.maximum(slope, 1e-3 * upload_s), rel=1e-10)


def test_likely_cohorts_have_the_probabilities():
    q = np.array([0.05, 0.5, 1.0, 0.0])
    share = likely_cohorts(q).mean(axis=0)
    assert share == pytest.approx(q, abs=0.1) and share[2] == 1.0 and share[3] == 0.0


def test_turns_of_devices_that_are_ready_at_once_cost_their_upload():
    upload_s, q = np.array([1.0, 2.0, np.inf]), np.array([0.5, 0.25, 0.0])
    mean_s, added_s = TDMA().expected_s(upload_s, None, q)
    assert mean_s == 1.0 and added_s is upload_s


@pytest.mark.parametrize("access", [TDMA(), Parallel(), OFDMA(), EqualOFDMA()])
def test_a_device_out_of_reach_changes_nothing(access):
    upload_s, late_s, q = next(problems(1, 6))
    mean_s, added_s = access.expected_s(upload_s, late_s, q)
    more_s, added_more_s = access.expected_s(
        np.append(upload_s, np.inf), np.append(late_s, 9.0), np.append(q, 0.0)
    )
    assert more_s == pytest.approx(mean_s, rel=1e-14)
    assert added_more_s[:-1] == pytest.approx(added_s, rel=1e-14)
    assert added_more_s[-1] == np.inf


def test_shares_that_end_together_are_priced_as_turns():
    upload_s, _, q = next(problems(1, 6))
    q /= q.sum()  # one device a round: it has the whole band
    late_s = np.zeros(6)
    mean_s, added_s = OFDMA(unit_s=1.0).expected_s(upload_s, late_s, q)
    turns_s, own_s = TDMA().expected_s(upload_s, late_s, q)
    assert mean_s == pytest.approx(turns_s) and added_s == pytest.approx(own_s)
    assert own_s == pytest.approx(upload_s)
