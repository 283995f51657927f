"""Models as Flower sends them, and their weighted sum."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, RecordDict
from tests.flower.loopback import MODEL, record, same

from fedsched.flower.exchange import UnusableError
from fedsched.flower.model import (
    Update,
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


def update_to(y, x):
    """The update of a node that has made y of a model x of one array."""
    return update_in(RecordDict({"arrays": record({"x": np.asarray(y, x.dtype)})}), {"x": x})


def test_the_sum_is_that_of_the_formula_with_any_weights():
    model = {"x": np.array([0.5, 1.0], np.float32)}
    a, b = (update_to(y, model["x"]) for y in ([1.5, 3.0], [10.5, -3.0]))
    after, squares = moved({**model, "n": np.array(3)}, [(2.0, a), (3.0, b)])
    assert after["x"].tolist() == [32.5, -7.0] and after["x"].dtype == np.float32
    assert after["n"] == 3
    assert squares == 32.0**2 + 8.0**2
    half, _ = moved(model, [(2.0, a), (3.0, b)], [0.5, 0.0])
    assert half["x"].tolist() == [1.5, 3.0]
    assert model["x"].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_a_model_of_any_type_and_length_moves_by_the_formula(dtype):
    rng, count = np.random.default_rng(7), 3 * 16_384 + 5
    x = rng.standard_normal(count).astype(dtype)
    rows = [(x + 0.1 * rng.standard_normal(count)).astype(dtype) for _ in range(3)]
    weight = (0.5, 0.25, 0.75)
    said = [(w, update_to(y, x)) for w, y in zip(weight, rows, strict=True)]
    after, squares = moved({"x": x}, said)
    wanted = x.astype(float) + sum(
        w * (y - x).astype(float) for w, y in zip(weight, rows, strict=True)
    )
    assert after["x"].dtype == x.dtype
    precision = 4.0 * float(np.finfo(np.dtype(dtype)).eps)
    found = after["x"].astype(float)
    assert (np.abs(found - wanted) <= precision * np.maximum(np.abs(wanted), 1.0)).all()
    assert squares == pytest.approx(((found - x) ** 2).sum(), rel=precision)
    assert said[0][1].norm == pytest.approx(np.linalg.norm(rows[0].astype(float) - x), rel=0.01)


def test_a_sum_that_the_type_cannot_hold_is_told_by_its_length():
    for dtype, large in ((np.float16, 6e4), (np.float32, 3e38)):
        x = np.zeros(2, dtype)
        said = update_to([large, 0.0], x)
        _, squares = moved({"x": x}, [(1.0, said), (1.0, said)])
        assert squares == np.inf


def test_small_updates_are_added_up_before_they_are_rounded():
    x = np.ones(1, np.float32)
    one = update_to([1.0 + 2.0**-23], x)
    after, _ = moved({"x": x}, [(0.25, one)] * 4)
    assert after["x"].tolist() == [1.0 + 2.0**-23]


def test_a_model_lies_in_its_record_and_is_not_copied():
    made = record_of(MODEL)
    for name, x in arrays_of(made).items():
        assert np.shares_memory(x, np.frombuffer(made[name].data, np.uint8))
    odd = {"a": np.array("abc"), "b": np.zeros((0, 3)), "c": np.asfortranarray(np.eye(3)[:2])}
    for name, array in record_of(odd).items():
        assert array == record({name: odd[name]})[name] or name == "c"
        assert array.numpy().tolist() == odd[name].tolist()
    assert same(arrays_of(record(odd)), odd)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", "<i8", "|u1"])
def test_numbers_are_read_as_they_were_written(order, dtype):
    x = {"x": np.zeros((2, 3), np.float32), "none": np.zeros((0, 4), np.float32)}
    y = np.asarray([[1, 2, 3], [4, 5, 6]], dtype, order=order)
    content = RecordDict({"arrays": record({"x": y, "none": np.zeros((0, 4), dtype)})})
    assert update_in(content, x).delta["x"].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_the_largest_updates_are_left_out_until_the_sum_is_finite():
    x = np.zeros(1, np.float32)
    found = [(1.0, 2e38), (1.0, 1.0), (2.0, 1.5e38), (1.0, 1e37)]
    weighted = [(weight, update_to([value], x)) for weight, value in found]

    def step(some):
        after, squares = moved({"x": x}, some)
        return after if np.isfinite(squares) else None

    after, left_out = largest_finite(weighted, step)
    assert left_out == [2]
    assert after["x"][0] == np.float32(2e38 + 1e37 + 1.0)
    nothing, all_of_them = largest_finite(weighted, lambda _: None)
    assert nothing is None and sorted(all_of_them) == [0, 1, 2, 3]
