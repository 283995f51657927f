"""Metrics in replies: numbers within bounds, and their means."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from flwr.app import MetricRecord, RecordDict

from fedsched.flower.exchange import UnusableError, plain

__all__ = ["Aggregation", "Metrics", "aggregated", "mean_metrics", "metrics_in", "number_in"]

_LARGEST = 1e100  # of a metric: its square is still a number
_MOST_EXAMPLES = 2**53  # whole numbers up to it are exact
_MOST_METRICS, _MOST_NUMBERS, _LONGEST_NAME = 1000, 10_000, 200

_log = logging.getLogger("flwr.fedsched")  # shown beside Flower's own lines
Metrics: TypeAlias = dict[str, np.ndarray[Any, Any]]
Aggregation: TypeAlias = Callable[[list[RecordDict], str], MetricRecord]


def number_in(content: RecordDict, names: tuple[str, ...]) -> float:
    """The first of these metrics that a reply holds; NaN if it has none of them within bounds."""
    for name in names:
        for record in content.metric_records.values():
            value = record.get(name)
            if isinstance(value, int | float):
                return float(value) if abs(value) <= _LARGEST else math.nan
    return math.nan


def metrics_in(content: RecordDict, weighted_by: str) -> tuple[float, Metrics]:
    """The weight of a reply's metrics and these, without those out of bounds."""
    examples = number_in(content, (weighted_by,))
    if not 0.0 < examples <= _MOST_EXAMPLES:
        raise UnusableError(f"its {weighted_by!r} is not a number above 0 and up to 2^53")
    records = list(content.metric_records.values())
    if sum(map(len, records)) > _MOST_METRICS:
        raise UnusableError(f"it holds more than {_MOST_METRICS} metrics")
    found: Metrics = {}
    for record in records:
        for name, value in record.items():
            long = len(value) > _MOST_NUMBERS if isinstance(value, list) else False
            if name == weighted_by or long or not name.isprintable() or len(name) > _LONGEST_NAME:
                continue
            numbers = np.asarray(value, np.float64)
            if bool((np.abs(numbers) <= _LARGEST).all()):
                found[name] = numbers
    return examples, found


def mean_metrics(told: Sequence[tuple[float, Metrics]]) -> MetricRecord | None:
    """The means of metrics by their weights; None if there are none.

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


def aggregated(
    contents: Sequence[RecordDict], weighted_by: str, own: Aggregation | None
) -> MetricRecord | None:
    """Metrics of replies as one record: by the user's own function, or as a weighted mean.

    A reply whose metrics are out of bounds is left out; a function that fails gives nothing.
    """
    sound: list[RecordDict] = []
    told: list[tuple[float, Metrics]] = []
    for content in contents:
        try:
            told.append(metrics_in(content, weighted_by))
            sound.append(content)
        except Exception as error:
            _log.warning("the metrics of a reply are left out: %s", plain(error))
    if own is None or not sound:
        return mean_metrics(told)
    try:
        return own(sound, weighted_by)
    except Exception as error:
        _log.warning("the metrics of a round are lost: %s: %s", type(error).__name__, plain(error))
        return None
