"""What the server notes of updates that pass by, on their way to the aggregator."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsched.learning.aggregation import Update
from fedsched.learning.updates import LocalUpdate, norm_of
from fedsched.values import Cohort, Experience

__all__ = ["Notes"]


class Notes:
    """Passes updates through, one at a time, and notes what a policy may learn from them."""

    def __init__(self, *, keep: bool) -> None:
        self.loss: list[float] = []
        self._omega: list[float] = []
        self._square_loss: list[float] = []
        self._norm: list[float] = []
        self._update: list[NDArray[np.float32]] | None = [] if keep else None

    def passing(self, cohort: Cohort, updates: Iterator[LocalUpdate]) -> Iterator[Update]:
        """The updates with their weights, as an aggregator takes them."""
        members = zip(cohort.device.tolist(), cohort.weight.tolist(), updates, strict=True)
        for device, weight, update in members:
            self.loss.append(update.loss)
            self._omega.append(update.omega)
            self._square_loss.append(update.square_loss)
            self._norm.append(norm_of(update.delta))
            if self._update is not None:
                self._update.append(update.delta)
            yield Update(device, weight, update.delta)

    def omega(self, kept: list[int]) -> float:
        """The mean over those that were kept."""
        return float(np.mean([self._omega[place] for place in kept])) if kept else math.nan

    def experience(self, cohort: Cohort, kept: list[int], course: float) -> Experience:
        """What a policy may learn of those that were kept."""
        return Experience(
            device=cohort.device[kept],
            loss=np.array(self.loss)[kept],
            square_loss=np.array(self._square_loss)[kept],
            norm=np.array(self._norm)[kept],
            weight=cohort.weight[kept],
            course=course,
            update=None
            if self._update is None or not kept
            else np.stack([self._update[place] for place in kept]),
        )
