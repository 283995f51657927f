"""Models as Flower sends them: what a reply may hold, and the weighted sum."""

import io
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

from fedsched.flower.exchange import UnusableError

__all__ = [
    "Arrays",
    "Update",
    "all_finite",
    "arrays_of",
    "is_statistic",
    "largest_finite",
    "moved",
    "record_of",
    "squared_step",
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


class _Lazy(Mapping[str, NDArray[Any]]):
    """Arrays that are made when they are looked at, and a block at a time if that is enough."""

    @abstractmethod
    def block(self, name: str, part: slice) -> NDArray[Any]:
        """Some of the numbers of an array, in one row."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.block(name, slice(None)).reshape(self.shape(name))


@dataclass(frozen=True, eq=False)
class _Difference(_Lazy):
    """y - x, where y lies in the reply as it came."""

    y: Arrays
    x: Arrays

    def block(self, name: str, part: slice) -> NDArray[Any]:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.y[name].reshape(-1)[part] - self.x[name].reshape(-1)[part])

    def shape(self, name: str) -> tuple[int, ...]:
        return self.x[name].shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.y)

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class _Scaled(_Lazy):
    """A share of arrays."""

    whole: Mapping[str, NDArray[Any]]
    share: float

    def block(self, name: str, part: slice) -> NDArray[Any]:
        each = _block(self.whole, name, part)
        return np.asarray(each * each.dtype.type(self.share))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.whole[name].shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)


def _block(arrays: Mapping[str, NDArray[Any]], name: str, part: slice) -> NDArray[Any]:
    if isinstance(arrays, _Lazy):
        return arrays.block(name, part)
    return arrays[name].reshape(-1)[part]


def _blocks(size: int) -> Iterator[slice]:
    """Parts that a processor keeps at hand: large models are read once, and nothing is copied."""
    for start in range(0, size, _AT_ONCE):
        yield slice(start, start + _AT_ONCE)


def _squared_length(arrays: Mapping[str, NDArray[Any]], name: str, size: int) -> float:
    """The sum of the squares of an array; not finite where a number of it is not."""
    total = 0.0
    for part in _blocks(size):
        row = _block(arrays, name, part).astype(np.float64)
        # Not row @ row: BLAS adds up in another order with another number of threads.
        total += float(np.square(row, out=row).sum())
    return total


def squared_step(target: Arrays, model: Arrays, names: Iterable[str]) -> float:
    """The squared length of the way from one model to another, over some of their arrays."""
    way = _Difference(target, model)
    return sum(_squared_length(way, name, model[name].size) for name in names)


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """What a node's training changed: y - x, of the arrays that hold real numbers.

    Statistics of batch normalisation are kept apart, as they are: y.
    """

    delta: Mapping[str, NDArray[Any]]
    statistics: Arrays = field(default_factory=dict)
    squares: float | None = None  # of its length, where it is known already

    def times(self, share: float) -> "Update":
        """A share of it; statistics stay as they are."""
        if share == 1.0:
            return self
        return replace(self, delta=_Scaled(self.delta, share), squares=None)

    @property
    def norm(self) -> float:
        """Its Euclidean norm over all arrays."""
        squares = self.squares
        if squares is None:
            squares = sum(
                _squared_length(self.delta, name, d.size) for name, d in self.delta.items()
            )
        return math.sqrt(squares)

    @property
    def largest(self) -> float:
        """Its largest magnitude."""
        return max((float(np.abs(d).max(initial=0.0)) for d in self.delta.values()), default=0.0)

    def flat(self) -> NDArray[np.float32]:
        """All of it in one row."""
        return np.concatenate([each.ravel() for each in self.delta.values()]).astype(np.float32)


def arrays_of(record: ArrayRecord) -> Arrays:
    """The arrays of a record that the server made."""
    return {name: np.asarray(array.numpy(), order="C") for name, array in record.items()}


def record_of(arrays: Arrays) -> ArrayRecord:
    """The record of arrays."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


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


def _numbers_in(name: str, array: Array, x: NDArray[Any]) -> NDArray[Any]:
    """The numbers of an array from outside, if they are as many as x has, in x's type.

    The claims of its header are checked against the bytes that came, so that no memory is taken
    for numbers that are not there.
    """
    if array.stype != "numpy.ndarray":
        raise UnusableError(f"array {name!r} is serialised as {array.stype!r}")
    data, room = array.data, _HEADER + _NUMBER * x.size
    if len(data) > room:
        raise UnusableError(f"array {name!r} has {len(data)} bytes, and {room} at most are needed")
    usual = _header(x.dtype.str, x.shape)
    if data.startswith(usual) and len(data) == len(usual) + x.nbytes:  # what nearly all are
        return np.frombuffer(data, x.dtype, x.size, len(usual)).reshape(x.shape)
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
    return np.asarray(y, order="C")


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
        square = _squared_length(_Difference({name: y}, model), name, x.size)
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
    return Update(delta=_Difference(learnt, model), statistics=statistics, squares=squares)


def is_statistic(name: str) -> bool:
    """Whether an array holds statistics of batch normalisation, by the names they have."""
    return name.replace("/", ".").rpartition(".")[2] in (*_MEANS, *_VARIANCES)


# --- the sum ----------------------------------------------------------------------------------


def moved(model: Arrays, weighted: Sequence[tuple[float, Update]]) -> Arrays:
    r"""The model after a round: :math:`x + \sum_n w_n (y_n - x)`, never renormalised.

    The sum is kept in float64, in the order given, and rounded once at the end, as in the
    simulator; the order is that of the devices' numbers, whoever answered first. It may overflow:
    whoever keeps it looks first.

    Statistics of batch normalisation become the average :math:`\sum w_n y_n / \sum w_n` over the
    updates there are: the sum could take a variance below 0.
    """
    shares = np.array([max(weight, 0.0) for weight, _ in weighted])
    shares = shares / shares.sum() if shares.sum() > 0.0 else shares
    after = dict(model)
    for name, x in model.items():  # one array at a time, so that no second model is held
        if not np.issubdtype(x.dtype, np.floating):
            continue
        if is_statistic(name):
            if not (shares.any() and all(name in update.statistics for _, update in weighted)):
                continue
            total = np.zeros(x.shape)
            for share, (_, update) in zip(shares, weighted, strict=True):
                total += share * update.statistics[name].astype(np.float64)
            after[name] = total.astype(x.dtype)
        else:
            after[name] = _summed(name, x, weighted)
    return after


def _summed(name: str, x: NDArray[Any], weighted: Sequence[tuple[float, Update]]) -> NDArray[Any]:
    start, following = x.reshape(-1), np.empty(x.size, x.dtype)
    for part in _blocks(x.size):
        total = start[part].astype(np.float64)
        term = np.empty_like(total)
        for weight, update in weighted:
            np.multiply(_block(update.delta, name, part), weight, out=term, dtype=np.float64)
            total += term
        with np.errstate(over="ignore"):
            following[part] = total
    return following.reshape(x.shape)


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
