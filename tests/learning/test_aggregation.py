import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.aggregation import LatestUpdates, Update, WeightedSum, make_aggregator


def aggregate(parameters, weighted):
    updates = (Update(n, weight, delta) for n, (weight, delta) in enumerate(weighted))
    return WeightedSum().step(parameters, {}, updates)


def test_the_model_moves_by_the_weighted_sum():
    x = np.array([1.0, 2.0, 3.0], np.float32)
    deltas = [np.array([1.0, 0.0, -1.0], np.float32), np.array([4.0, 4.0, 4.0], np.float32)]
    result = aggregate(x, zip([2.0, 0.25], deltas, strict=True))
    assert result.parameters.tolist() == [4.0, 3.0, 2.0]
    assert result.parameters.dtype == np.float32
    assert result.rejected == ()
    assert x.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_is_skipped_and_named(poison):
    good, bad = np.ones(4, np.float32), np.array([0, 0, poison, 0], np.float32)
    result = aggregate(np.zeros(4, np.float32), [(1.0, bad), (0.5, good), (1.0, bad)])
    assert result.parameters.tolist() == [0.5] * 4
    assert result.rejected == (0, 2)


def test_an_empty_cohort_leaves_the_model_as_it_is():
    x = np.array([0.1, 0.2], np.float32)
    assert aggregate(x, []).parameters.tobytes() == x.tobytes()


def test_the_sum_is_kept_in_double_precision():
    tiny = np.array([1e-8], np.float32)
    result = aggregate(np.ones(1, np.float32), ((1.0, tiny) for _ in range(100)))
    # In single precision every single addition would be lost.
    assert result.parameters[0] == np.float32(1.0 + 100 * float(tiny[0]))
    assert result.parameters[0] > 1.0


def test_updates_are_taken_one_at_a_time():
    alive = []

    def updates():
        for _ in range(3):
            alive.append(1)
            yield 1.0, np.ones(2, np.float32)
            alive.pop()

    assert aggregate(np.zeros(2, np.float32), updates()).parameters.tolist() == [3.0, 3.0]
    assert alive == []


def test_memory_keeps_the_old_update_of_a_device_whose_new_one_is_not_finite():
    rule, x = LatestUpdates(), np.zeros(1, np.float32)
    state = rule.init(2, 1)
    x, state, _ = rule.step(x, state, [Update(0, 1.0, np.array([4.0], np.float32))])
    bad = [
        Update(0, 1.0, np.array([np.inf], np.float32)),
        Update(1, 1.0, np.array([2.0], np.float32)),
    ]
    x, state, rejected = rule.step(x, state, bad)
    assert rejected == (0,)
    assert state["update"].tolist() == [[4.0], [2.0]]
    assert x.tolist() == [2.0 + 3.0]


def test_aggregators_are_made_by_name_or_import_path():
    assert make_aggregator("memory") == LatestUpdates()
    assert make_aggregator("fedsched.learning.aggregation:WeightedSum") == WeightedSum()
    with pytest.raises(UnknownNameError, match="aggregator: 'mean' is not known"):
        make_aggregator("mean")
    with pytest.raises(InputError, match="makes a Fraction; it must derive from"):
        make_aggregator("fractions:Fraction")
