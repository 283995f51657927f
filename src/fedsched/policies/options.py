"""What people may set of a policy: declared once, here; the ``[policy]`` section of a scenario."""

import math
from dataclasses import dataclass
from typing import TypeAlias

from fedsched.checks import number_within, one_of, positive_number, whole_number
from fedsched.errors import InputError, UnknownNameError
from fedsched.policies.designs import DESIGNS
from fedsched.policies.powers import POWERS
from fedsched.policies.pricing import STARTS

__all__ = ["Option", "PolicyOptions"]

Option: TypeAlias = bool | int | float | str


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """``[policy]``: who takes part. A policy takes the options that its own fields name."""

    kind: str = "auto"
    draws: int = 10
    design: str = "with-replacement"
    lam: float = 100.0
    v: float = 100.0
    qmin: float = 0.0
    as_printed: bool = False
    power: str | None = None  # "queue" or "constant"; the policy's own if left out
    start: str = "empty"  # of the power queues: "empty", or "budget" at the first gain
    scale_v: bool = False  # V = v * 100 / lam
    candidates: int | None = None  # devices that power-of-choice asks, that fedcs considers
    deadline_s: float | None = None  # of fedcs, resource-blocks, fdma-energy, incomplete-work
    energy_j: float | None = None  # of an upload of resource-blocks
    sinr_db: float = 0.0  # below which sinr-* lose an upload
    cutoff: int = 50  # of fedau: an interval counts for no more rounds
    rho: float = 0.5  # of importance-channel: variance (1) against time (0)
    kappa: float | None = None  # of auto: how much 1/q a target bears; learnt if left out
    weight_limit: float = 2.0  # of auto: no update counts for more
    budget_mode: str = "average"  # of auto: "strict" gives no credit
    # Other fields of a policy of one's own, by name; a scenario writes policy.options.NAME.
    options: tuple[tuple[str, Option], ...] | None = None

    def __post_init__(self) -> None:
        one_of("policy.design", self.design, DESIGNS)
        whole_number("policy.draws", self.draws)
        positive_number("policy.lam", self.lam)
        positive_number("policy.v", self.v)
        if self.power not in (None, *POWERS):
            raise UnknownNameError("policy.power", str(self.power), POWERS)
        one_of("policy.start", self.start, STARTS)
        if self.candidates is not None:
            whole_number("policy.candidates", self.candidates)
        for name in ("deadline_s", "energy_j"):
            if getattr(self, name) is not None:
                positive_number(f"policy.{name}", getattr(self, name))
        whole_number("policy.cutoff", self.cutoff)
        if not math.isfinite(self.sinr_db):
            raise InputError(
                f"policy.sinr_db must be a finite number of decibels, got {self.sinr_db}"
            )
        number_within("policy.rho", self.rho, "(0, 1)", "it weighs variance against time")
        number_within("policy.qmin", self.qmin, "[0, 1)", "it is a probability")
