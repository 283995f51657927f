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
from fedsched.learning.influence import BoundedInfluence, TrimmedSum, bounded
from fedsched.learning.partition import Partition
from fedsched.learning.updates import LocalUpdate

__all__ = [
    "AGGREGATORS",
    "AbstractAggregator",
    "Aggregated",
    "BoundedInfluence",
    "Dataset",
    "LatestUpdates",
    "LocalUpdate",
    "Partition",
    "TrimmedSum",
    "Update",
    "WeightedSum",
    "bounded",
    "load_dataset",
    "make_aggregator",
    "running_mean",
]
