"""What a strategy was given: checked, put into words, and made into a link and a policy."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import FedAvg

from fedsched.checks import positive_number, whole_number
from fedsched.errors import InputError
from fedsched.flower.model import Arrays
from fedsched.policies import AbstractPolicy, make_policy
from fedsched.solve.uplink import PAPER_UPLINK, Uplink

__all__ = ["Settings"]

_ACCURACY = ("accuracy", "eval_acc", "test_accuracy", "acc")
_LOSS = ("loss", "eval_loss", "test_loss")


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """The arguments of :class:`fedsched.flower.ChannelStrategy`, which says what they mean."""

    policy: str | AbstractPolicy
    folder: Path
    seed: int
    draws: int
    uplink: Uplink | None
    budget_w: float
    options: Mapping[str, Any]
    optimiser: FedAvg | None
    min_nodes: int
    max_age_rounds: int
    query_timeout_s: float
    fraction_evaluate: float
    accuracy: str | None
    loss: str | None

    def __post_init__(self) -> None:
        whole_number("draws", self.draws)
        whole_number("seed", self.seed, least=0)
        whole_number("min_nodes", self.min_nodes)
        whole_number("max_age_rounds", self.max_age_rounds, least=0)
        positive_number("query_timeout_s", self.query_timeout_s)
        positive_number("budget_w", self.budget_w)
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
        self.make_policy(PAPER_UPLINK)  # refuse a bad name or option now, not after the nodes came

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

    def make_policy(self, uplink: Uplink) -> AbstractPolicy:
        """The policy that was given, or one by its name."""
        if not isinstance(self.policy, str):
            return self.policy
        return make_policy(
            self.policy, uplink=uplink, draws=self.draws, budget_w=self.budget_w, **self.options
        )

    def scenario(self, uplink: Uplink, num_rounds: int) -> dict[str, dict[str, Any]]:
        """What the run depends on, in the sections that fedsched's reports know."""
        optimiser = {} if self.optimiser is None else {"optimiser": type(self.optimiser).__name__}
        link = dataclasses.asdict(uplink)
        return {
            "run": {"rounds": num_rounds, "seed": self.seed},
            "policy": {"kind": self.policy_name, **self._policy_fields()},
            "channel": {
                "kind": "reported",
                "max_age_rounds": self.max_age_rounds,
                "min_nodes": self.min_nodes,
            },
            "uplink": {**link, "budget_w": self.budget_w, "access": "tdma", "computation_s": 0.0},
            "training": {"framework": "flower", **optimiser},
        }

    def _policy_fields(self) -> dict[str, Any]:
        """What tells one policy from another, as a manifest can hold it: a design in words."""
        if isinstance(self.policy, str):
            return {"draws": self.draws, **self.options}
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
