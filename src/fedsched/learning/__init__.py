"""Data, models, local training and aggregation. Nothing here imports torch before it is needed."""

from typing import TYPE_CHECKING

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
from fedsched.learning.compression import (
    AUTO,
    Dithered,
    ErrorFeedback,
    PayloadError,
    RunningOmega,
    TopK,
    best_width,
    decode,
    make_compressor,
)
from fedsched.learning.dataset import Dataset, load_dataset
from fedsched.learning.influence import BoundedInfluence, TrimmedSum, bounded
from fedsched.learning.partition import Partition, index_by_class
from fedsched.learning.pool import training_pool
from fedsched.learning.spec import TrainerSpec
from fedsched.learning.updates import LocalUpdate

if TYPE_CHECKING:
    from fedsched.learning.models import PaperCNN as PaperCNN
else:

    def __getattr__(name):
        if name != "PaperCNN":
            raise AttributeError(f"module 'fedsched.learning' has no attribute {name!r}")
        from fedsched.learning.models import PaperCNN

        return PaperCNN


__all__ = [
    "AGGREGATORS",
    "AUTO",
    "AbstractAggregator",
    "Aggregated",
    "BoundedInfluence",
    "Dataset",
    "Dithered",
    "ErrorFeedback",
    "LatestUpdates",
    "LocalUpdate",
    "Partition",
    "PayloadError",
    "RunningOmega",
    "TopK",
    "TrainerSpec",
    "TrimmedSum",
    "Update",
    "WeightedSum",
    "best_width",
    "bounded",
    "decode",
    "index_by_class",
    "load_dataset",
    "make_aggregator",
    "make_compressor",
    "running_mean",
    "training_pool",
]
