"""What one node can do to the model has bounds: the simulator's aggregators on Flower's arrays."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsched.flower.model import (
    Arrays,
    Update,
    all_finite,
    is_statistic,
    moved,
    squared_distance,
)
from fedsched.learning.aggregation import Update as Told
from fedsched.learning.aggregation import WeightedSum
from fedsched.learning.influence import BoundedInfluence, TrimmedSum, bounded

__all__ = ["Influence"]

_MIDDLE = TrimmedSum(trim=0.25)  # of statistics: between what most have said


@dataclass(frozen=True, kw_only=True, eq=False)
class Influence:
    """How updates move the model, and what is remembered of their lengths."""

    bounds: str  # "off", "clip" or "robust"
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    length: float = math.nan  # of the last step, before its bound

    def step(
        self, model: Arrays, weighted: Sequence[tuple[float, Update]]
    ) -> tuple[Arrays, Self] | None:
        """The model after a round, and what is remembered then; None if it is not finite."""
        if self.bounds == "off" or not weighted:
            return self._kept(*moved(model, weighted), self.memory)
        rule = bounded(self.bounds, WeightedSum())
        assert isinstance(rule, BoundedInfluence)
        memory = self.memory or rule.init(0, 0)
        if rule.inner != WeightedSum():
            return self._in_one_row(rule, memory, model, weighted)
        lengths = [(update.norm, abs(weight)) for weight, update in weighted]
        usual = rule.usual(memory, lengths)
        shares = [rule.share_of(length, weight, usual) for length, weight in lengths]
        target, squares = moved(model, weighted, shares)
        if not math.isfinite(squares):
            return None
        share = rule.share_of_step(math.sqrt(squares), usual)
        if share < 1.0:
            for name in weighted[0][1].y:
                x = model[name]
                step = target[name].astype(np.float64) - x
                target[name] = (x + step * share).astype(x.dtype)
        after = {**target, **_statistics(model, weighted)}
        return self._kept(after, squares, {**memory, **rule.learnt(usual, lengths)})

    def _in_one_row(
        self,
        rule: BoundedInfluence,
        memory: Mapping[str, NDArray[Any]],
        model: Arrays,
        weighted: Sequence[tuple[float, Update]],
    ) -> tuple[Arrays, Self] | None:
        """The same by a rule that compares updates number by number, and so holds them all."""
        learnt = list(weighted[0][1].y)
        told = [Told(n, weight, update.flat()) for n, (weight, update) in enumerate(weighted)]
        # In single precision the sum is rounded once, as in the simulator; a model of larger
        # numbers is moved by the step.
        single = all(model[name].dtype.itemsize <= 4 for name in learnt)
        start = _flat([model[name] for name in learnt]) if single else np.zeros_like(told[0].delta)
        after = rule.step(start, memory, told)
        parts = _split(after.parameters, model, learnt)
        if not single:
            parts = {name: model[name] + part for name, part in parts.items()}
        target = {**model, **parts, **_statistics(model, weighted)}
        target = {name: target[name].astype(x.dtype) for name, x in model.items()}
        squares = sum(squared_distance(target[name], model[name]) for name in learnt)
        return self._kept(target, squares, after.state)

    def _kept(
        self, target: Arrays, squares: float, memory: Mapping[str, NDArray[Any]]
    ) -> tuple[Arrays, Self] | None:
        """A model, if it is finite: so is the squared way to it, and so are its statistics."""
        statistics = {name: x for name, x in target.items() if is_statistic(name)}
        if not (math.isfinite(squares) and all_finite(statistics)):
            return None
        return target, replace(self, memory=memory, length=math.sqrt(squares))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is remembered, to be saved."""
        return {f"influence.{name}": value for name, value in self.memory.items()}

    def restored(self, saved: Mapping[str, NDArray[Any]]) -> Self:
        """The same with what was saved."""
        memory = {
            name.removeprefix("influence."): value
            for name, value in saved.items()
            if name.startswith("influence.")
        }
        return replace(self, memory=memory)


def _flat(arrays: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    return np.concatenate([each.ravel() for each in arrays]).astype(np.float32)


def _split(flat: NDArray[np.float32], model: Arrays, names: Sequence[str]) -> Arrays:
    """The parts of a row that belong to arrays of the model."""
    parts, start = {}, 0
    for name in names:
        end = start + model[name].size
        parts[name] = flat[start:end].reshape(model[name].shape)
        start = end
    return parts


def _statistics(model: Arrays, weighted: Sequence[tuple[float, Update]]) -> Arrays:
    """Statistics of batch normalisation: in each number between what most nodes have."""
    names = [name for name in model if is_statistic(name) and name in weighted[0][1].statistics]
    total = sum(max(weight, 0.0) for weight, _ in weighted)
    if not names or not total > 0.0:
        return {}
    told = [
        Told(n, max(weight, 0.0) / total, _flat([update.statistics[name] for name in names]))
        for n, (weight, update) in enumerate(weighted)
    ]
    middle = _MIDDLE.step(np.zeros_like(told[0].delta), {}, told).parameters
    return _split(middle, model, names)
