"""Server optimisers of Flower's own strategies, fed with an unbiased pseudo-gradient.

FedAdam, FedYogi, FedAdagrad and FedAvgM average the replies, and then treat the way from the model
to the average as a gradient. Their average renormalises. So they are given one reply, the unbiased
sum itself, which its own average does not change; what follows is theirs.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Self, final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    FedAvg,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    MultiKrum,
    QFedAvg,
)
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.flower.model import Arrays, arrays_of, is_statistic, record_of
from fedsched.flower.protocol import Records

__all__ = ["ServerOptimiser"]

# What they do is done among replies, before there is a sum.
_OTHERS = (Bulyan, FedMedian, FedTrimmedAvg, FedXgbBagging, FedXgbCyclic, MultiKrum, QFedAvg)


@final
class ServerOptimiser:
    """The step that a Flower strategy takes from a model along an update."""

    def __init__(self, strategy: FedAvg) -> None:
        if not isinstance(strategy, FedAvg):
            raise InputError(
                f"optimiser must be a FedAvg of Flower's or built on it, such as FedAdam, got "
                f"{type(strategy).__name__}"
            )
        if isinstance(strategy, _OTHERS):
            raise InputError(
                f"optimiser: {type(strategy).__name__} chooses among the replies of a round, and "
                "here it would be given their sum alone and change nothing; use it in the place of "
                "ChannelStrategy, or give FedAdam, FedYogi, FedAdagrad, FedAvgM or FedProx"
            )
        self._strategy = strategy

    def configured(self, server_round: int, config: ConfigRecord) -> ConfigRecord:
        """What it adds to the configuration of train messages, as FedProx does."""
        own = ConfigRecord(dict(config))
        self._noting(server_round, ArrayRecord(), own)
        return own

    def _noting(self, server_round: int, model: ArrayRecord, config: ConfigRecord) -> FedAvg:
        """A copy that has noted the model; whom it would have asked does not matter."""
        strategy = copy.copy(self._strategy)  # Flower's steps replace what they remember
        several = max(strategy.min_available_nodes, strategy.min_train_nodes, 1)
        strategy.configure_train(server_round, model, config, _NoGrid(several))  # type: ignore[arg-type]
        return strategy

    def step(self, server_round: int, model: Arrays, target: Arrays) -> tuple[Arrays, Self]:
        """The next model, from the present one and from where the updates point.

        Its moments may overflow where the model does not: whoever keeps them looks first. So the
        step leaves this one as it is, and gives another that has taken it.

        Args:
            server_round: counted from 1, as Flower does.
            model: x.
            target: x plus the weighted sum of the updates.
        """
        strategy = self._noting(server_round, record_of(model), ConfigRecord())
        content: Records = {
            strategy.arrayrecord_key: record_of(target),
            "metrics": MetricRecord({strategy.weighted_by_key: 1.0}),
        }
        reply = Message(RecordDict(content), 1, MessageType.TRAIN)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            arrays, _ = strategy.aggregate_train(server_round, [reply])
            after = model if arrays is None else arrays_of(arrays)
            stepped = {
                name: after[name].astype(x.dtype) if np.issubdtype(x.dtype, np.floating) else x
                for name, x in model.items()
            }
        stepped |= {name: target[name] for name in stepped if is_statistic(name)}
        return stepped, type(self)(strategy)

    # --- its memory, to be saved ---------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What it remembers from round to round."""
        saved = {}
        for name, value in vars(self._strategy).items():
            for key, each in _parts(value):
                saved[f"optimiser.{name}.{key}"] = each
        return saved

    def restore(self, arrays: Mapping[str, NDArray[Any]], names: list[str]) -> None:
        """Take back what was saved; ``names`` are the arrays of the model."""
        found: dict[str, dict[str, NDArray[Any]]] = {}
        for path, value in arrays.items():
            if path.startswith("optimiser."):
                _, attribute, key = path.split(".", 2)
                found.setdefault(attribute, {})[key] = value
        for attribute, parts in found.items():
            form, values = next(iter(parts)).partition(":")[0], list(parts.values())
            restored: Any = values
            if form != "list":
                restored = dict(zip(names, values, strict=True))
            if form == "record":
                restored = record_of(restored)
            setattr(self._strategy, attribute, restored)


def _parts(value: Any) -> list[tuple[str, NDArray[Any]]]:
    """The arrays of a moment or a momentum, each with how it was held and its place."""
    if isinstance(value, ArrayRecord):
        return [(f"record:{n:06d}", each) for n, each in enumerate(arrays_of(value).values())]
    if isinstance(value, dict) and value:
        held, form = list(value.values()), "dict"
    elif isinstance(value, list) and value:
        held, form = value, "list"
    else:
        return []
    if not all(isinstance(each, np.ndarray | np.generic) for each in held):
        return []
    return [(f"{form}:{n:06d}", np.asarray(each)) for n, each in enumerate(held)]


class _NoGrid:
    """A grid whose nodes are never sent anything."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def get_node_ids(self) -> Iterable[int]:
        return range(1, self._nodes + 1)
