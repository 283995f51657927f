"""Data, models, local training and aggregation. Nothing here imports torch before it is needed."""

from fedsched.learning.aggregation import (
    AGGREGATORS,
    AbstractAggregator,
    Aggregated,
    LatestUpdates,
    Update,
    WeightedSum,
    make_aggregator,
    running_mean,
)
from fedsched.learning.dataset import Dataset, load_dataset
from fedsched.learning.partition import Partition
from fedsched.learning.updates import LocalUpdate

__all__ = [
    "AGGREGATORS",
    "AbstractAggregator",
    "Aggregated",
    "Dataset",
    "LatestUpdates",
    "LocalUpdate",
    "Partition",
    "Update",
    "WeightedSum",
    "load_dataset",
    "make_aggregator",
    "running_mean",
]
