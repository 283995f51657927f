"""Lengths of updates and their weighted sum in the kernel, beside a twin that is slow and plain."""

import numpy as np
import pytest

from fedsched.randomness import stream
from fedsched.solve import _kernel

SIZES = (0, 1, 7, 8, 9, 127, 128, 129, 1000)


def squares_of(way):
    """The squares of numbers, added up in eight lanes."""
    lane = [0.0] * 8
    for i, each in enumerate(way.tolist()):
        lane[i % 8] += each * each
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]))


def slow_distance(y, x):
    return squares_of(y - x)


def slow_step(x, rows, share, weight):
    after = x.astype(float)
    for y, s, w in zip(rows, share, weight, strict=True):
        after = after + w * ((y - x) * x.dtype.type(s)).astype(float)
    out = after.astype(x.dtype)
    parts = range(0, len(x), 128)
    return out, sum(slow_distance(out[at : at + 128], x[at : at + 128]) for at in parts)


def models(dtype):
    """A model of every size with what several nodes have made of it."""
    random = stream(93, "sampling")
    for size in SIZES:
        for count in (0, 1, 5):
            x, *rows = (random.standard_normal((count + 1, size)) * 10.0).astype(dtype)
            yield x, rows, random.uniform(0.0, 1.0, count), random.uniform(-1.0, 3.0, count)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_kernel_gives_the_bits_of_the_twin(dtype):
    names = _kernel.kernels()
    try:
        for x, rows, share, weight in models(dtype):
            wanted, way = slow_step(x, rows, share, weight)
            for name in names:
                _kernel.use(name)
                out = np.full_like(x, np.nan)
                assert _kernel.step(x, rows, share, weight, out) == way
                assert out.tobytes() == wanted.tobytes()
                for y in rows:
                    assert _kernel.distance(y, x) == slow_distance(y, x)
    finally:
        _kernel.use(names[-1])


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_seen_wherever_it_is(size, bad):
    x = np.zeros(size, np.float32)
    for place in {0, size // 2, size - 1}:
        y = x.copy()
        y[place] = bad
        assert not np.isfinite(_kernel.distance(y, x))
        assert not np.isfinite(_kernel.step(x, [y], np.ones(1), np.ones(1), np.empty_like(x)))


def test_arrays_of_any_shape_are_taken_by_their_numbers():
    x, y = np.zeros((2, 3)), np.ones((2, 3))
    assert _kernel.distance(y, x) == 6.0
    assert _kernel.distance(np.array(2.0), np.array(0.5)) == 2.25
    assert _kernel.step(x, (y,), np.ones(1), np.ones(1), out := np.empty((2, 3))) == 6.0
    assert out.tolist() == y.tolist()


def read_only(numbers):
    numbers.setflags(write=False)
    return numbers


@pytest.mark.parametrize(
    "changed",
    [
        {"x": np.zeros(3, np.float16)},
        {"x": np.zeros(3, np.int32)},
        {"x": np.zeros(3, ">f4")},
        {"x": np.zeros(6, np.float32)[::2]},
        {"x": np.zeros(4, np.float32)},
        {"x": [0.0, 0.0, 0.0]},
        {"rows": [np.zeros(3)] * 2},
        {"rows": [np.zeros(3, np.float32), np.zeros(2, np.float32)]},
        {"rows": [np.zeros(3, np.float32), None]},
        {"rows": [np.zeros(3, np.float32)]},
        {"rows": None},
        {"share": np.ones(1)},
        {"share": np.ones(2, np.float32)},
        {"weight": np.ones(3)},
        {"weight": None},
        {"out": np.zeros(3)},
        {"out": np.zeros(2, np.float32)},
        {"out": read_only(np.zeros(3, np.float32))},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_what_does_not_fit_is_refused_and_never_read(changed):
    usual = {
        "x": np.zeros(3, np.float32), "rows": [np.ones(3, np.float32)] * 2,
        "share": np.ones(2), "weight": np.ones(2), "out": np.zeros(3, np.float32),
    }  # fmt: skip
    assert _kernel.step(*usual.values()) == 12.0
    with pytest.raises((TypeError, ValueError, BufferError)):
        _kernel.step(*(usual | changed).values())


def test_two_arrays_of_other_types_or_lengths_have_no_distance():
    for y in (np.zeros(3), np.zeros(2, np.float32), None):
        with pytest.raises((TypeError, ValueError)):
            _kernel.distance(y, np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="2 arguments"):
        _kernel.distance(np.zeros(3))
    with pytest.raises(TypeError, match="5 arguments"):
        _kernel.step(np.zeros(3))
