"""Models as Flower sends them, and their weighted sum."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

__all__ = ["Arrays", "Update", "arrays_of", "moved", "record_of", "update_in"]

Arrays: TypeAlias = dict[str, NDArray[Any]]  # by name, in the order of the model


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """What a node's training changed: y - x, of the arrays that hold real numbers."""

    delta: Arrays

    @property
    def norm(self) -> float:
        """Its Euclidean norm over all arrays."""
        squares = [np.sum(np.square(each, dtype=np.float64)) for each in self.delta.values()]
        return float(np.sqrt(np.sum(squares)))

    def flat(self) -> NDArray[np.float32]:
        """All of it in one row."""
        return np.concatenate([each.ravel() for each in self.delta.values()]).astype(np.float32)


def arrays_of(record: ArrayRecord) -> Arrays:
    """The arrays of a record."""
    return {name: array.numpy() for name, array in record.items()}


def record_of(arrays: Arrays) -> ArrayRecord:
    """The record of arrays."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def update_in(content: RecordDict, model: Arrays) -> Update | str:
    """The update in a train reply, or a few words on why it cannot be used."""
    records = list(content.array_records.values())
    if len(records) != 1:
        return f"it holds {len(records)} array records and not one"
    try:
        theirs = arrays_of(records[0])
    except (EOFError, OSError, TypeError, ValueError) as error:
        return f"its arrays cannot be read: {error}"
    if theirs.keys() != model.keys():
        return f"its arrays are called {list(theirs)} and the model's {list(model)}"
    delta: Arrays = {}
    for name, x in model.items():
        y = theirs[name]
        if y.shape != x.shape:
            return f"array {name!r} has shape {y.shape} and the model's has {x.shape}"
        if not np.issubdtype(x.dtype, np.floating):
            continue  # a counter is not learnt: the server keeps its own
        if y.dtype.kind not in "iuf":
            return f"array {name!r} holds {y.dtype} and not real numbers"
        with np.errstate(over="ignore", invalid="ignore"):
            delta[name] = y - x
        if not np.isfinite(delta[name]).all():
            return f"array {name!r} is not finite"
    return Update(delta=delta)


def moved(model: Arrays, weighted: Iterable[tuple[float, Update]]) -> Arrays:
    r"""The model after a round: :math:`x + \sum_n w_n (y_n - x)`, never renormalised.

    The sum is kept in float64, in the order given, and rounded once at the end, as in the
    simulator; the order is that of the devices' numbers, whoever answered first.
    """
    total = {
        name: x.astype(np.float64)
        for name, x in model.items()
        if np.issubdtype(x.dtype, np.floating)
    }
    for weight, update in weighted:
        for name, each in update.delta.items():
            total[name] += weight * each.astype(np.float64)
    return {name: total[name].astype(x.dtype) if name in total else x for name, x in model.items()}
