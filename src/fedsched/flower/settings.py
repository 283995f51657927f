"""What a strategy was given: checked, put into words, and made into a link and a policy."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp.strategy import FedAvg

from fedsched.checks import number_within, one_of, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.flower.defaults import FRACTION, cohort_size, safe_options
from fedsched.flower.federation import Scheduler
from fedsched.flower.knowledge import AbstractKnowledge, Measured, Reported
from fedsched.flower.metrics import Aggregation
from fedsched.flower.model import Arrays
from fedsched.flower.paced import Paced
from fedsched.learning.influence import BOUNDS
from fedsched.policies import AbstractPolicy, make_policy
from fedsched.radio.access import TDMA, Parallel
from fedsched.solve.uplink import PAPER_UPLINK, AbstractLink, RateLink, Uplink

__all__ = ["Settings"]

AUTO, PAPER = "auto", "paper"  # a policy, a link
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
    uplink: Uplink | str | None
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
        one_of("bounds", self.bounds, BOUNDS)
        whole_number("max_idle_rounds", self.max_idle_rounds)
        whole_number("checkpoint_every", self.checkpoint_every)
        whole_number("max_age_rounds", self.max_age_rounds, least=0)
        positive_number("query_timeout_s", self.query_timeout_s)
        positive_number("budget_w", self.budget_w)
        if self.fraction_train is not None:
            about = "it is the share of nodes that train in a round"
            number_within("fraction_train", self.fraction_train, "(0, 1]", about)
        about = "it is the share of nodes that evaluate"
        number_within("fraction_evaluate", self.fraction_evaluate, "[0, 1]", about)
        if not (self.uplink in (None, PAPER) or isinstance(self.uplink, Uplink)):
            raise InputError(
                f"uplink must be a fedsched Uplink, {PAPER!r} or None, got {self.uplink!r}; with "
                "None what exchanges take is measured"
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
            self.uplink_for({"x": np.zeros(1)}), 1
        )  # refuse a bad one now, not after the nodes came

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

    @property
    def radio(self) -> bool:
        """Whether the radio is known, and with it powers; or else what exchanges take is all."""
        return self.uplink is not None

    def uplink_for(self, model: Arrays) -> AbstractLink:
        """The link that was given; the paper's has 32 bits for each number of the model."""
        if isinstance(self.uplink, Uplink):
            return self.uplink
        bits = 32.0 * sum(each.size for each in model.values())
        if self.radio:
            return replace(PAPER_UPLINK, bits=bits)
        return RateLink(bits=max(bits, 1.0), max_power_w=self.budget_w)

    def draws_of(self, devices: int) -> int:
        """How many of so many present devices train in a round."""
        if self.draws is not None:
            return self.draws
        return cohort_size(self.fraction_train or FRACTION, self.min_train_nodes, devices)

    def subset_of(self, devices: int) -> int:
        """Among how many of so many present devices a policy chooses that sets its own cohorts."""
        if self.policy_name != AUTO or self.draws is self.fraction_train is None:
            return devices
        return self.draws_of(devices)

    def make_policy(self, uplink: AbstractLink, devices: int) -> AbstractPolicy:
        """The policy that was given, or one by its name for so many present devices."""
        if not isinstance(self.policy, str):
            return self.policy
        if self.policy == AUTO and not self.radio:
            return Paced(
                bits=uplink.bits, work_s=np.zeros(devices), least=self.min_train_nodes,
                **self.options,
            )  # fmt: skip
        draws = self.draws_of(devices)
        options = self._options(uplink, draws, devices)
        return make_policy(
            self.policy, uplink=uplink, draws=draws, budget_w=self.budget_w,
            access=TDMA() if self.radio else Parallel(), **options,
        )  # fmt: skip

    def _options(self, uplink: AbstractLink, draws: int, devices: int) -> dict[str, Any]:
        return safe_options(
            self.policy_name, uplink=uplink, budget_w=self.budget_w, draws=draws,
            devices=devices, given=self.options,
        )  # fmt: skip

    def scheduler(self, uplink: AbstractLink, seed: int) -> Scheduler:
        """What asks and chooses, over that link."""
        return Scheduler(
            policy_of=lru_cache(maxsize=16)(partial(self.make_policy, uplink)),
            uplink=uplink,
            knowledge=self._knowledge(uplink),
            seed=seed,
            query_timeout_s=self.query_timeout_s,
            arrays_key=self.arrayrecord_key,
        )

    def _knowledge(self, uplink: AbstractLink) -> AbstractKnowledge:
        if not isinstance(uplink, Uplink):
            return Measured(registered=self.registered, bits=uplink.bits)
        return Reported(
            registered=self.registered,
            link=uplink,
            max_age_rounds=self.max_age_rounds,
            query_timeout_s=self.query_timeout_s,
        )

    def scenario(
        self, uplink: AbstractLink, num_rounds: int, seed: int
    ) -> dict[str, dict[str, Any]]:
        """What the run depends on, in the sections that fedsched's reports know."""
        optimiser = {} if self.optimiser is None else {"optimiser": type(self.optimiser).__name__}
        link = dataclasses.asdict(uplink)
        return {
            "run": {"rounds": num_rounds, "seed": seed},
            "policy": {"kind": self.policy_name, **self._policy_fields(uplink)},
            "channel": {
                "kind": "reported" if self.radio else "measured",
                "max_age_rounds": self.max_age_rounds,
                "min_nodes": self.min_available_nodes,
            },
            "uplink": {
                **link,
                "budget_w": self.budget_w,
                "access": self._knowledge(uplink).access.name,
                "computation_s": 0.0,
            },
            "training": {"framework": "flower", "bounds": self.bounds, **optimiser},
        }

    def _policy_fields(self, uplink: AbstractLink) -> dict[str, Any]:
        """What tells one policy from another, as a manifest can hold it: a design in words."""
        if isinstance(self.policy, str):
            size = (
                {"fraction_train": self.fraction_train or FRACTION}
                if self.draws is None
                else {"draws": self.draws}
            )
            options = self._options(uplink, 1, 1)
            for name in {"qmin", "weight_limit"} - self.options.keys():
                options.pop(name, None)  # it follows from the size and from who is present
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
