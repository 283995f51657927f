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


def waits(access, upload_s, late_s, cohorts):
    """How much longer the clock runs with each device, for a second more of its upload."""
    longer = np.empty((len(cohorts), len(upload_s)))
    for row, cohort in enumerate(cohorts):
        for n, step_s in enumerate(1e-6 * upload_s):
            with_it, more_s = cohort.copy(), upload_s.copy()
            with_it[n], more_s[n] = True, upload_s[n] + step_s
            before, after = (
                access.uploads_s(s[with_it], late_s[with_it]) for s in (upload_s, more_s)
            )
            longer[row, n] = (after - before) / step_s
    return longer


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
        found = Parallel().expected(upload_s, late_s, q)
        expected = chance @ lengths(Parallel(), upload_s, late_s, every)
        assert found.mean_s == pytest.approx(expected, rel=1e-13)
        slope = chance @ slopes(Parallel(), upload_s, late_s, every)
        assert found.added_s == pytest.approx(np.maximum(slope, 1e-3 * upload_s), rel=1e-12)
        slope = chance @ waits(Parallel(), upload_s, late_s, every)
        assert found.per_second == pytest.approx(np.maximum(slope, 1e-2), abs=1e-6)


# As many blocks as every number of members divides: expectations cut them at will.
@pytest.mark.slow
@pytest.mark.parametrize(
    "access", [TDMA(), EqualOFDMA(blocks=840), EqualOFDMA(blocks=840, unit_s=2.0)]
)
def test_what_a_device_adds_is_what_the_clock_says_cohort_by_cohort(access):
    for upload_s, late_s, q in problems(2, 7):
        cohorts = likely_cohorts(q)
        found = access.expected(upload_s, late_s, q)
        mean_s = lengths(access, upload_s, late_s, cohorts).mean()
        assert found.mean_s == pytest.approx(mean_s, rel=1e-12)
        slope = slopes(access, upload_s, late_s, cohorts).mean(axis=0)
        assert found.added_s == pytest.approx(np.maximum(slope, 1e-3 * upload_s), rel=1e-10)
        slope = waits(access, upload_s, late_s, cohorts).mean(axis=0)
        assert found.per_second == pytest.approx(np.maximum(slope, 1e-2), rel=1e-4)


def test_likely_cohorts_have_the_probabilities():
    q = np.array([0.05, 0.5, 1.0, 0.0])
    share = likely_cohorts(q).mean(axis=0)
    assert share == pytest.approx(q, abs=0.1) and share[2] == 1.0 and share[3] == 0.0


def test_turns_of_devices_that_are_ready_at_once_cost_their_upload():
    upload_s, q = np.array([1.0, 2.0, np.inf]), np.array([0.5, 0.25, 0.0])
    found = TDMA().expected(upload_s, None, q)
    assert found.mean_s == 1.0 and found.added_s is upload_s
    assert (found.per_second == 1.0).all()


@pytest.mark.parametrize("access", [TDMA(), Parallel(), OFDMA(), EqualOFDMA()])
def test_a_device_out_of_reach_changes_nothing(access):
    upload_s, late_s, q = next(problems(1, 6))
    found = access.expected(upload_s, late_s, q)
    more = access.expected(np.append(upload_s, np.inf), np.append(late_s, 9.0), np.append(q, 0.0))
    assert more.mean_s == pytest.approx(found.mean_s, rel=1e-14)
    assert more.added_s[:-1] == pytest.approx(found.added_s, rel=1e-14)
    assert more.per_second[:-1] == pytest.approx(found.per_second, rel=1e-14)
    assert more.added_s[-1] == np.inf


def test_shares_that_end_together_are_priced_as_turns():
    upload_s, _, q = next(problems(1, 6))
    q /= q.sum()  # one device a round: it has the whole band
    late_s = np.zeros(6)
    found = OFDMA(unit_s=1.0).expected(upload_s, late_s, q)
    turns = TDMA().expected(upload_s, late_s, q)
    for ours, own in zip(found, turns, strict=True):
        assert ours == pytest.approx(own)
    assert turns.added_s == pytest.approx(upload_s)
