"""What a strategy was given: checked, put into words, and made into a link and a policy."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import FedAvg

from fedsched.checks import positive_number, whole_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.flower.defaults import FRACTION, cohort_size, safe_options
from fedsched.flower.federation import Scheduler
from fedsched.flower.metrics import Aggregation
from fedsched.flower.model import Arrays
from fedsched.learning.influence import BOUNDS
from fedsched.policies import AbstractPolicy, make_policy
from fedsched.solve.uplink import PAPER_UPLINK, Uplink

__all__ = ["Settings"]

_ACCURACY = ("accuracy", "eval_acc", "test_accuracy", "acc")
_LOSS = ("loss", "eval_loss", "test_loss")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """The arguments of :class:`fedsched.flower.ChannelStrategy`, which says what they mean."""

    policy: str | AbstractPolicy
    folder: Path | None
    seed: int | None
    fraction_train: float | None
    draws: int | None
    uplink: Uplink | None
    budget_w: float
    options: Mapping[str, Any]
    optimiser: FedAvg | None
    fraction_evaluate: float
    min_train_nodes: int
    min_evaluate_nodes: int
    min_available_nodes: int
    weighted_by_key: str
    arrayrecord_key: str
    configrecord_key: str
    train_metrics_aggr_fn: Aggregation | None
    evaluate_metrics_aggr_fn: Aggregation | None
    max_age_rounds: int
    query_timeout_s: float
    max_idle_rounds: int
    checkpoint_every: int
    registered: Mapping[int, str] | None
    tell_weights: bool
    bounds: str
    run_config: Mapping[str, Any]
    accuracy: str | None
    loss: str | None

    def __post_init__(self) -> None:
        if self.draws is not None:
            whole_number("draws", self.draws)
        if self.draws is not None and self.fraction_train is not None:
            raise InputError(
                f"draws = {self.draws} and fraction_train = {self.fraction_train} both say how "
                "many nodes train in a round; give one of them"
            )
        if self.seed is not None:
            whole_number("seed", self.seed, least=0)
        for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
            whole_number(name, getattr(self, name), least=0)
        if self.bounds not in BOUNDS:
            raise UnknownNameError("bounds", self.bounds, BOUNDS)
        whole_number("max_idle_rounds", self.max_idle_rounds)
        whole_number("checkpoint_every", self.checkpoint_every)
        whole_number("max_age_rounds", self.max_age_rounds, least=0)
        positive_number("query_timeout_s", self.query_timeout_s)
        positive_number("budget_w", self.budget_w)
        if self.fraction_train is not None and not 0.0 < self.fraction_train <= 1.0:
            raise InputError(
                f"fraction_train must lie in (0, 1], got {self.fraction_train}; it is the share of "
                "nodes that train in a round"
            )
        if not 0.0 <= self.fraction_evaluate <= 1.0:
            raise InputError(
                f"fraction_evaluate must lie in [0, 1], got {self.fraction_evaluate}; it is the "
                "share of nodes that evaluate"
            )
        if not isinstance(self.uplink, Uplink | None):
            raise InputError(
                f"uplink must be a fedsched Uplink or None, got {self.uplink!r}; the paper's is "
                "fedsched.PAPER_UPLINK"
            )
        if own := sorted({"budget_w", "draws", "uplink"} & self.options.keys()):
            raise InputError(
                f"options: {own[0]!r} is an argument of the strategy itself; give it there, beside "
                "options"
            )
        # Shares of the data belong to a fixed number of devices.
        system = getattr(self.policy, "system", None)
        shares = self.options.get("data_weight", getattr(system, "data_weight", None))
        if shares is not None:
            raise InputError(
                "data_weight must be None in a federation, where devices come and go and each that "
                "is present counts the same; leave it out"
            )
        self.make_policy(
            PAPER_UPLINK, 1
        )  # refuse a bad name or option now, not after the nodes came

    @property
    def policy_name(self) -> str:
        """Of a policy that was given by name or made by the user."""
        return self.policy if isinstance(self.policy, str) else self.policy.name

    @property
    def accuracy_names(self) -> tuple[str, ...]:
        """Metrics that count as the accuracy of an evaluation, the first found wins."""
        return _ACCURACY if self.accuracy is None else (self.accuracy,)

    @property
    def loss_names(self) -> tuple[str, ...]:
        """Metrics that count as the loss of an evaluation."""
        return _LOSS if self.loss is None else (self.loss,)

    def uplink_for(self, model: Arrays) -> Uplink:
        """The link that was given, or the paper's with 32 bits for each number of the model."""
        if self.uplink is not None:
            return self.uplink
        return replace(PAPER_UPLINK, bits=32.0 * sum(each.size for each in model.values()))

    def draws_of(self, devices: int) -> int:
        """How many of so many present devices train in a round."""
        if self.draws is not None:
            return self.draws
        return cohort_size(self.fraction_train or FRACTION, self.min_train_nodes, devices)

    def make_policy(self, uplink: Uplink, devices: int) -> AbstractPolicy:
        """The policy that was given, or one by its name for so many present devices."""
        if not isinstance(self.policy, str):
            return self.policy
        draws = self.draws_of(devices)
        options = self._options(uplink, draws, devices)
        return make_policy(
            self.policy, uplink=uplink, draws=draws, budget_w=self.budget_w, **options
        )

    def _options(self, uplink: Uplink, draws: int, devices: int) -> dict[str, Any]:
        return safe_options(
            self.policy_name, uplink=uplink, budget_w=self.budget_w, draws=draws,
            devices=devices, given=self.options,
        )  # fmt: skip

    def scheduler(self, uplink: Uplink, seed: int) -> Scheduler:
        """What asks and chooses, over that link."""
        return Scheduler(
            policy_of=lru_cache(maxsize=16)(partial(self.make_policy, uplink)),
            uplink=uplink,
            seed=seed,
            max_age_rounds=self.max_age_rounds,
            query_timeout_s=self.query_timeout_s,
            arrays_key=self.arrayrecord_key,
            registered=self.registered,
        )

    def scenario(self, uplink: Uplink, num_rounds: int, seed: int) -> dict[str, dict[str, Any]]:
        """What the run depends on, in the sections that fedsched's reports know."""
        optimiser = {} if self.optimiser is None else {"optimiser": type(self.optimiser).__name__}
        link = dataclasses.asdict(uplink)
        return {
            "run": {"rounds": num_rounds, "seed": seed},
            "policy": {"kind": self.policy_name, **self._policy_fields(uplink)},
            "channel": {
                "kind": "reported",
                "max_age_rounds": self.max_age_rounds,
                "min_nodes": self.min_available_nodes,
            },
            "uplink": {**link, "budget_w": self.budget_w, "access": "tdma", "computation_s": 0.0},
            "training": {"framework": "flower", "bounds": self.bounds, **optimiser},
        }

    def _policy_fields(self, uplink: Uplink) -> dict[str, Any]:
        """What tells one policy from another, as a manifest can hold it: a design in words."""
        if isinstance(self.policy, str):
            size = (
                {"fraction_train": self.fraction_train or FRACTION}
                if self.draws is None
                else {"draws": self.draws}
            )
            options = self._options(uplink, 1, 1)
            if "qmin" not in self.options:
                options.pop("qmin", None)  # it follows from the size and from who is present
            return {**size, **options}
        if not dataclasses.is_dataclass(self.policy):
            return {}
        fields = {
            each.name: getattr(self.policy, each.name) for each in dataclasses.fields(self.policy)
        }
        return {
            name: repr(value) if dataclasses.is_dataclass(value) else value
            for name, value in fields.items()
            if isinstance(value, str | int | float) or dataclasses.is_dataclass(value)
        }
