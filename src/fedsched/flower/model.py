"""Models as Flower sends them: what a reply may hold, and the weighted sum."""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

from fedsched.flower.exchange import UnusableError
from fedsched.solve import _kernel

__all__ = [
    "Arrays",
    "Update",
    "all_finite",
    "arrays_of",
    "is_statistic",
    "largest_finite",
    "moved",
    "record_of",
    "squared_distance",
    "update_in",
]

Arrays: TypeAlias = dict[str, NDArray[Any]]  # by name, in the order of the model
_After = TypeVar("_After")
_HEADER = 1000  # bytes: that of an array of numbers has about a hundred
_NUMBER = 8  # bytes: the largest number that is read
# Batch normalisation keeps means and variances of what it has seen: averaged, and not learnt.
_MEANS, _VARIANCES = ("running_mean", "moving_mean"), ("running_var", "moving_variance")
_LARGEST = 1e150  # of a difference: its square is still a number
_AT_ONCE = 1 << 14  # numbers
_SWIFT = (np.dtype(np.float32), np.dtype(np.float64))  # types that the kernel adds up as they are
_STYPE = "numpy.ndarray"  # Flower's word for how it serialises


def squared_distance(y: NDArray[Any], x: NDArray[Any]) -> float:
    """|y - x|^2; not finite where a number of y is not."""
    if x.dtype in _SWIFT:
        return _kernel.distance(y, x)
    return sum(_kernel.distance(*wide) for _, wide in _wide_blocks(y, x))


def _wide_blocks(*arrays: NDArray[Any]) -> Iterator[tuple[slice, list[NDArray[np.float64]]]]:
    """Arrays of another type than the kernel's, a few of their numbers at a time."""
    for start in range(0, arrays[0].size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield part, [each.reshape(-1)[part].astype(np.float64) for each in arrays]


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """What a node's training changed: y - x, of the arrays that hold real numbers.

    Statistics of batch normalisation are kept apart, as they are: y.
    """

    y: Arrays  # as it lies in the reply
    x: Arrays
    norm: float  # the Euclidean norm of y - x over all arrays
    statistics: Arrays = field(default_factory=dict)

    @property
    def delta(self) -> Arrays:
        """How y differs from x."""
        return {name: y - self.x[name] for name, y in self.y.items()}

    @property
    def largest(self) -> float:
        """Its largest magnitude."""
        return max((float(np.abs(d).max(initial=0.0)) for d in self.delta.values()), default=0.0)

    def flat(self) -> NDArray[np.float32]:
        """All of it in one row."""
        return np.concatenate([each.ravel() for each in self.delta.values()]).astype(np.float32)


def arrays_of(record: ArrayRecord) -> Arrays:
    """The arrays of a record that the server made, where they lie in it: nothing is copied."""
    return {name: _own_numbers(array) for name, array in record.items()}


def _own_numbers(array: Array) -> NDArray[Any]:
    with suppress(TypeError):  # a type that NumPy does not know by name
        usual = _in_place(array.data, np.dtype(array.dtype), array.shape)
        if usual is not None:
            return usual
    return np.asarray(array.numpy(), order="C")


def record_of(arrays: Arrays) -> ArrayRecord:
    """The record of arrays."""
    return ArrayRecord({name: _packed(np.asarray(value)) for name, value in arrays.items()})


def _packed(x: NDArray[Any]) -> Array:
    """What Flower makes of an array, with one copy of its numbers."""
    if x.dtype.kind not in "biuf":
        return Array(x)
    data = b"".join((_header(x.dtype.str, x.shape), np.ascontiguousarray(x).data))
    return Array(dtype=str(x.dtype), shape=x.shape, stype=_STYPE, data=data)


def all_finite(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether every number is one; arrays of anything else do not matter."""
    return all(
        bool(np.isfinite(each).all())
        for each in arrays.values()
        if np.issubdtype(each.dtype, np.floating)
    )


# --- what a node sent -------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What the bytes of an array of that type and shape begin with; to read it takes longer."""
    stream = io.BytesIO()
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def _in_place(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """The numbers of a serialised array where they lie; None if it does not begin as usual."""
    usual, size = _header(dtype.str, shape), math.prod(shape)
    if not data.startswith(usual) or len(data) != len(usual) + size * dtype.itemsize:
        return None
    return np.frombuffer(data, dtype, size, len(usual)).reshape(shape)


def _numbers_in(name: str, array: Array, x: NDArray[Any]) -> NDArray[Any]:
    """The numbers of an array from outside, if they are as many as x has, in x's type.

    The claims of its header are checked against the bytes that came, so that no memory is taken
    for numbers that are not there.
    """
    if array.stype != _STYPE:
        raise UnusableError(f"array {name!r} is serialised as {array.stype!r}")
    data, room = array.data, _HEADER + _NUMBER * x.size
    if len(data) > room:
        raise UnusableError(f"array {name!r} has {len(data)} bytes, and {room} at most are needed")
    usual = _in_place(data, x.dtype, x.shape)
    if usual is not None:  # what nearly all are
        return usual
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        read = np.lib.format.read_array_header_1_0
    elif version == (2, 0):
        read = np.lib.format.read_array_header_2_0
    else:
        raise UnusableError(f"array {name!r} is of format {version}")
    shape, fortran, dtype = read(stream, max_header_size=_HEADER)
    if shape != x.shape:
        raise UnusableError(f"array {name!r} has shape {shape} and the model's has {x.shape}")
    if dtype.kind not in "iuf" or dtype.itemsize > _NUMBER:
        raise UnusableError(f"array {name!r} holds {dtype} and not real numbers")
    if len(data) - stream.tell() != x.size * dtype.itemsize:
        raise UnusableError(f"array {name!r} has more or fewer bytes than its shape needs")
    flat = np.frombuffer(data, dtype, x.size, stream.tell()) if x.size else np.empty(0, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        y = flat.reshape(shape, order="F" if fortran else "C").astype(x.dtype, copy=False)
    return np.require(y, requirements=["C", "A"])


def update_in(content: RecordDict, model: Arrays) -> Update:
    """The update in a train reply; an UnusableError says why there is none."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise UnusableError(f"it holds {len(records)} array records and not one")
    theirs = records[0]
    if theirs.keys() != model.keys():
        raise UnusableError(f"its arrays are called {list(theirs)} and the model's {list(model)}")
    learnt: Arrays = {}
    statistics: Arrays = {}
    squares = 0.0
    for name, x in model.items():
        if not np.issubdtype(x.dtype, np.floating):
            continue  # a counter is not learnt: the server keeps its own
        y = _numbers_in(name, theirs[name], x)
        square = squared_distance(y, x)
        if not math.isfinite(square):
            raise UnusableError(
                f"array {name!r} is not finite, not in the model's {x.dtype}, or changes by more "
                f"than {_LARGEST:g}"
            )
        if is_statistic(name):
            if name.endswith(_VARIANCES) and (y < 0.0).any():
                raise UnusableError(f"array {name!r} holds a variance below 0")
            statistics[name] = y
        else:
            learnt[name] = y
            squares += square
    return Update(y=learnt, x=model, norm=math.sqrt(squares), statistics=statistics)


def is_statistic(name: str) -> bool:
    """Whether an array holds statistics of batch normalisation, by the names they have."""
    return name.replace("/", ".").rpartition(".")[2] in (*_MEANS, *_VARIANCES)


# --- the sum ----------------------------------------------------------------------------------


def moved(
    model: Arrays,
    weighted: Sequence[tuple[float, Update]],
    shares: Sequence[float] | None = None,
) -> tuple[Arrays, float]:
    r"""The model after a round, :math:`x + \sum_n w_n s_n (y_n - x)`, never renormalised.

    The sum is kept in float64, in the order given, and rounded once at the end, as in the
    simulator; the order is that of the devices' numbers, whoever answered first. It may overflow:
    whoever keeps it looks first.

    Statistics of batch normalisation become the average :math:`\sum w_n y_n / \sum w_n` over the
    updates there are: the sum could take a variance below 0.

    Args:
        model: x.
        weighted: updates, each with its weight w.
        shares: s, what is left of each update; 1 by default.

    Returns:
        The model, and the squared length of the way there; it is not finite where the model is not.
    """
    weight = np.array([weight for weight, _ in weighted], dtype=np.float64)
    share = np.ones(len(weight)) if shares is None else np.array(shares, dtype=np.float64)
    after, squares = {**model, **_mean_statistics(model, weighted)}, 0.0
    for name, x in model.items():  # one array at a time, so that no second model is held
        if np.issubdtype(x.dtype, np.floating) and not is_statistic(name):
            rows = [update.y[name] for _, update in weighted]
            after[name], square = _summed(x, rows, share, weight)
            squares += square
    return after, squares


def _summed(
    x: NDArray[Any],
    rows: Sequence[NDArray[Any]],
    share: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> tuple[NDArray[Any], float]:
    after = np.empty(x.shape, x.dtype)
    if x.dtype in _SWIFT:
        return after, _kernel.step(x, rows, share, weight, after)
    flat = after.reshape(-1)
    for part, (here, *there) in _wide_blocks(x, *rows):
        block = np.empty_like(here)
        _kernel.step(here, there, share, weight, block)
        with np.errstate(over="ignore"):
            flat[part] = block
    return after, squared_distance(after, x)


def _mean_statistics(model: Arrays, weighted: Sequence[tuple[float, Update]]) -> Arrays:
    """Statistics of batch normalisation, where all updates have them."""
    shares = np.array([max(weight, 0.0) for weight, _ in weighted])
    if not shares.sum() > 0.0:
        return {}
    found = {}
    for name in set.intersection(*(set(update.statistics) for _, update in weighted)):
        total = np.zeros(model[name].shape)
        for share, (_, update) in zip(shares / shares.sum(), weighted, strict=True):
            total += share * update.statistics[name].astype(np.float64)
        found[name] = total.astype(model[name].dtype)
    return found


def largest_finite(
    weighted: Sequence[tuple[float, Update]],
    step: Callable[[Sequence[tuple[float, Update]]], _After | None],
) -> tuple[_After | None, list[int]]:
    """What a step gives with as many updates as leave it finite, and the places of the others.

    The update whose weighted magnitude is the largest is left out first. ``step`` gives None where
    the result is not finite.
    """
    kept = list(range(len(weighted)))
    left_out: list[int] = []
    while kept:
        after = step([weighted[place] for place in kept])
        if after is not None:
            return after, left_out
        worst = max(kept, key=lambda place: _size(*weighted[place]))
        kept.remove(worst)
        left_out.append(worst)
    return None, left_out


def _size(weight: float, update: Update) -> float:
    size = abs(weight) * update.largest
    return size if math.isfinite(size) else math.inf
