"""Metrics in replies: numbers within bounds, and their means."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import MetricRecord, RecordDict

from fedsched.flower.exchange import UnusableError

__all__ = ["Metrics", "mean_metrics", "metrics_in", "number_in"]

_EXAMPLES = "num-examples"
_LARGEST = 1e100  # of a metric: its square is still a number
_MOST_EXAMPLES = 2**53  # whole numbers up to it are exact
_MOST_METRICS, _MOST_NUMBERS, _LONGEST_NAME = 1000, 10_000, 200

Metrics = dict[str, np.ndarray[Any, Any]]


def number_in(content: RecordDict, names: tuple[str, ...]) -> float:
    """The first of these metrics that a reply holds; NaN if it has none of them within bounds."""
    for name in names:
        for record in content.metric_records.values():
            value = record.get(name)
            if isinstance(value, int | float):
                return float(value) if abs(value) <= _LARGEST else math.nan
    return math.nan


def metrics_in(content: RecordDict) -> tuple[float, Metrics]:
    """The number of examples in a reply and its other metrics, without those out of bounds."""
    examples = number_in(content, (_EXAMPLES,))
    if not 0.0 < examples <= _MOST_EXAMPLES:
        raise UnusableError(f"its {_EXAMPLES} is not a number from 1 to 2^53")
    records = list(content.metric_records.values())
    if sum(map(len, records)) > _MOST_METRICS:
        raise UnusableError(f"it holds more than {_MOST_METRICS} metrics")
    found: Metrics = {}
    for record in records:
        for name, value in record.items():
            long = len(value) > _MOST_NUMBERS if isinstance(value, list) else False
            if name == _EXAMPLES or long or not name.isprintable() or len(name) > _LONGEST_NAME:
                continue
            numbers = np.asarray(value, np.float64)
            if bool((np.abs(numbers) <= _LARGEST).all()):
                found[name] = numbers
    return examples, found


def mean_metrics(told: Sequence[tuple[float, Metrics]]) -> MetricRecord | None:
    """The means of metrics, weighted by numbers of examples; None if there are none.

    One that is a list of another length in another reply is left out.
    """
    by_name: dict[str, list[tuple[float, np.ndarray[Any, Any]]]] = {}
    for examples, metrics in told:
        for name, value in metrics.items():
            by_name.setdefault(name, []).append((examples, value))
    means = {
        name: np.average([value for _, value in pairs], axis=0, weights=[n for n, _ in pairs])
        for name, pairs in by_name.items()
        if len({value.shape for _, value in pairs}) == 1
    }
    return MetricRecord({name: mean.tolist() for name, mean in means.items()}) if means else None
