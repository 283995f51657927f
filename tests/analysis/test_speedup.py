import numpy as np
import pytest
from scipy import stats

from fedsched.analysis.speedup import speedup


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 6, 9])
def test_the_interval_of_a_speed_up_is_students(seeds):
    rng = np.random.default_rng(seeds)
    baseline, ours = np.exp(rng.normal(1.0, 0.3, seeds)), np.exp(rng.normal(0.0, 0.3, seeds))
    logs = np.log(baseline / ours)
    half = stats.t.ppf(0.975, seeds - 1) * logs.std(ddof=1) / np.sqrt(seeds)
    found = speedup(baseline.tolist(), ours.tolist())
    assert found.ratio == pytest.approx(np.exp(logs.mean()))
    assert found.low == pytest.approx(np.exp(logs.mean() - half), rel=1e-9)
    assert found.high == pytest.approx(np.exp(logs.mean() + half), rel=1e-9)
    assert found.seeds == seeds


def test_one_seed_has_a_ratio_and_no_interval():
    found = speedup([6.0], [2.0])
    assert (found.ratio, found.low, found.high) == (pytest.approx(3.0), None, None)
