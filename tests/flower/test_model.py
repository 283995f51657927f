"""Models as Flower sends them, and their weighted sum."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, RecordDict
from tests.flower.loopback import MODEL, record, same

from fedsched.flower.exchange import UnusableError
from fedsched.flower.model import (
    Update,
    all_finite,
    arrays_of,
    largest_finite,
    moved,
    record_of,
    update_in,
)

MOVED = {n: a + np.float32(1.0) if a.dtype == np.float32 else a + 1 for n, a in MODEL.items()}


def found(arrays):
    return update_in(RecordDict({"arrays": record(arrays)}), MODEL)


def test_a_model_comes_back_from_its_record():
    assert same(arrays_of(record_of(MODEL)), MODEL)


def test_an_update_is_the_difference_of_the_floats():
    update = found(MOVED)
    assert list(update.delta) == ["net.0.weight", "net.0.bias"]
    assert np.allclose(update.flat(), 1.0) and update.flat().shape == (8,)
    assert update.norm == pytest.approx(np.sqrt(8.0))


def test_the_order_of_arrays_does_not_matter():
    assert isinstance(found(dict(reversed(MOVED.items()))), Update)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"net.0.bias": np.zeros(3, np.float32)}, "has shape (3,) and the model's has (2,)"),
        ({"net.0.bias": np.array([np.inf, 0.0])}, "is not finite"),
        ({"net.0.bias": np.array([np.nan, 0.0])}, "is not finite"),
        ({"net.0.bias": np.array(["a", "b"])}, "not real numbers"),
        ({"net.0.bias": np.array([1.0j, 0.0])}, "not real numbers"),
        ({"more": np.zeros(1)}, "its arrays are called"),
    ],
)
def test_what_cannot_be_used_is_told_in_words(change, words):
    with pytest.raises(UnusableError) as caught:
        found({**MOVED, **change})
    assert words in str(caught.value)


def test_a_reply_holds_one_record_of_arrays():
    for content, count in (({}, 0), ({"a": record(), "b": ArrayRecord()}, 2)):
        with pytest.raises(UnusableError, match=f"holds {count} array records"):
            update_in(RecordDict(content), MODEL)


def test_whole_numbers_for_floats_are_numbers():
    update = found({**MOVED, "net.0.bias": np.array([1, 2])})
    assert update.delta["net.0.bias"].tolist() == [0.75, 2.5]


def test_a_signalling_nan_is_no_number_and_nothing_to_warn_of():
    """A float64 whose conversion to float32 is an invalid operation."""
    bias = np.array([0x7FF0000000000001, 0], np.uint64).view(np.float64)
    with pytest.raises(UnusableError, match="finite"):
        found({**MOVED, "net.0.bias": bias})


def test_the_sum_is_that_of_the_formula_with_any_weights():
    a, b = (Update(delta={"x": np.array(v, np.float32)}) for v in ([1.0, 2.0], [10.0, -4.0]))
    model = {"x": np.array([0.5, 1.0], np.float32), "n": np.array(3)}
    after = moved(model, [(2.0, a), (3.0, b)])
    assert after["x"].tolist() == [32.5, -7.0] and after["x"].dtype == np.float32
    assert after["n"] == 3
    assert model["x"].tolist() == [0.5, 1.0]


def test_small_updates_are_added_up_before_they_are_rounded():
    one = Update(delta={"x": np.array([2.0**-24], np.float32)})
    after = moved({"x": np.ones(1, np.float32)}, [(1.0, one)] * 4)
    assert after["x"].tolist() == [1.0 + 2.0**-22]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", "<i8", "|u1"])
def test_numbers_are_read_as_they_were_written(order, dtype):
    x = {"x": np.zeros((2, 3), np.float32), "none": np.zeros((0, 4), np.float32)}
    y = np.asarray([[1, 2, 3], [4, 5, 6]], dtype, order=order)
    content = RecordDict({"arrays": record({"x": y, "none": np.zeros((0, 4), dtype)})})
    assert update_in(content, x).delta["x"].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_the_largest_updates_are_left_out_until_the_sum_is_finite():
    def update(value):
        return Update(delta={"x": np.array([value], np.float32)})

    weighted = [(1.0, update(2e38)), (1.0, update(1.0)), (2.0, update(1.5e38)), (1.0, update(1e37))]

    def step(some):
        after = moved({"x": np.zeros(1, np.float32)}, some)
        return after if all_finite(after) else None

    after, left_out = largest_finite(weighted, step)
    assert left_out == [2]
    assert after["x"][0] == np.float32(2e38 + 1e37 + 1.0)
    nothing, all_of_them = largest_finite(weighted, lambda _: None)
    assert nothing is None and sorted(all_of_them) == [0, 1, 2, 3]
