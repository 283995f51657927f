"""The sections of a scenario: what they call a field is the key in a scenario file.

Link, power and policy have the paper's values by default, the data are the digits that need no
download.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsched.checks import number_within, one_of, positive_number, whole_number
from fedsched.clock import Computation
from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.aggregation import AGGREGATORS
from fedsched.learning.compression import compressor_name
from fedsched.learning.influence import BOUNDS, bounded
from fedsched.learning.partition import ABOUT_ALPHA
from fedsched.policies import POLICIES, PolicyOptions, policy_names, reads_of
from fedsched.radio.access import ACCESSES, BLOCKS
from fedsched.radio.knowledge import Knowledge
from fedsched.radio.units import complete_unit, parse_unit
from fedsched.runs.fleet import Each, check_each

__all__ = [
    "BudgetsSection",
    "ChannelSection",
    "DataSection",
    "KnowledgeSection",
    "PolicySection",
    "RunSection",
    "TrainingSection",
    "UplinkSection",
]


@dataclass(frozen=True, kw_only=True)
class ChannelSection:
    """``[channel]``: a named channel, or a trace file."""

    kind: str = "heterogeneous"
    devices: int | None = None  # 100, or as many as the trace has
    unit: str | None = None  # of the trace's numbers, where the file does not name it

    def __post_init__(self) -> None:
        if self.devices is not None:
            whole_number("channel.devices", self.devices)
        if self.unit is not None:  # one name for each, so that equal runs compare equal
            unit = complete_unit("channel.unit", parse_unit(self.unit, "channel.unit"))
            object.__setattr__(self, "unit", str(unit))


@dataclass(frozen=True, kw_only=True)
class UplinkSection:
    """``[uplink]``: the shared link and the power budget."""

    preset: str | None = None  # stands for the fields below and the channel, where they are not set
    bits: float | None = None  # of one update before compression; 32 for each parameter if left out
    bandwidth_hz: float = 22e6
    noise_w: float = 1.0
    max_power_w: Each = 10**3.5
    budget_w: Each = 1.0
    access: str = "tdma"  # in turn; "parallel": the last decides; "ofdma", "ofdma-equal": blocks
    blocks: int = BLOCKS  # that "ofdma" and "ofdma-equal" give to devices
    computation_s: Each = 0.0  # of every device in a round, or one for each
    computation_spread: float = 0.0  # of its logarithm, drawn in every round
    feedback_bits: float = 64.0  # of the report of a device that a policy asks before it decides

    def __post_init__(self) -> None:
        for name in ("bandwidth_hz", "noise_w", "max_power_w", "feedback_bits"):
            check_each(f"uplink.{name}", getattr(self, name))
        if self.budget_w != math.inf:  # which is none
            check_each("uplink.budget_w", self.budget_w)
        if self.bits is not None:
            positive_number("uplink.bits", self.bits)
        check_each("uplink.computation_s", self.computation_s, allow_zero=True)
        positive_number("uplink.computation_spread", self.computation_spread, allow_zero=True)
        whole_number("uplink.blocks", self.blocks)
        one_of("uplink.access", self.access, ACCESSES)

    @property
    def computation(self) -> Computation:
        """How long devices compute."""
        given = self.computation_s
        mean_s = np.array(given, dtype=np.float64) if isinstance(given, tuple) else given
        return Computation(mean_s, self.computation_spread)


@dataclass(frozen=True, kw_only=True)
class BudgetsSection:
    """``[budgets]``: what every device may spend besides the average power, in the mean."""

    energy_j: Each | None = None  # a round
    energy_j_per_day: Each | None = None
    battery_j: Each | None = None  # for the whole run
    circuit_w: Each = 0.0  # drawn besides the transmit power while on air; part of the energy
    compute_j: Each = 0.0  # of the computation of a round; part of the energy
    airtime_s: Each | None = None  # a round
    duty_cycle: Each | None = None  # the share of the time on air: 0.01 for LoRa
    bytes: Each | None = None  # a round
    bytes_per_day: Each | None = None
    participation: Each | None = None  # the share of the rounds

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is not None:
                free = each.name in ("circuit_w", "compute_j")
                check_each(f"budgets.{each.name}", value, allow_zero=free)
        for name in ("duty_cycle", "participation"):
            if np.max(getattr(self, name) or 0.0) > 1.0:
                raise InputError(
                    f"budgets.{name} must lie in (0, 1], got {getattr(self, name)}; it is a share"
                )
        for kinds in (("energy_j", "energy_j_per_day", "battery_j"), ("airtime_s", "duty_cycle"),
                      ("bytes", "bytes_per_day")):  # fmt: skip
            given = [name for name in kinds if getattr(self, name) is not None]
            if len(given) > 1:
                raise InputError(
                    f"budgets.{given[0]} and budgets.{given[1]} limit the same; give one of them"
                )


@dataclass(frozen=True, kw_only=True)
class KnowledgeSection:
    """``[knowledge]``: how well the channel is known, and what becomes of uploads."""

    late_rounds: int = 0  # the gains that are known are so old
    error_db: float = 0.0  # and wrong by so much, as a standard deviation
    outage: float | None = None  # the share of uploads that may fail; a margin holds it
    resend: bool = False  # an upload that failed, at the rate that the channel has
    loss: float = 0.0  # the chance that an update is lost for another reason

    def __post_init__(self) -> None:
        self.knowledge  # noqa: B018  refuses what is none

    @property
    def knowledge(self) -> Knowledge:
        """How well the channel is known."""
        return Knowledge(**dataclasses.asdict(self), place="knowledge.")


@dataclass(frozen=True, kw_only=True)
class PolicySection(PolicyOptions):
    """``[policy]``: who takes part."""

    def __post_init__(self) -> None:
        if ":" not in self.kind and self.kind not in policy_names():
            raise UnknownNameError("policy.kind", self.kind, policy_names())
        if self.options and self.kind in POLICIES:
            raise InputError(
                f"policy.options.{self.options[0][0]} is set, and policy.options is for fields of "
                f"a policy of your own; {self.kind!r} is none"
            )
        super().__post_init__()

    def unread(self) -> list[str]:
        """The fields that the policy does not read."""
        names = {each.name for each in dataclasses.fields(self)} - {"kind"}
        return sorted(names - reads_of(self.kind, self.power))

    def as_read(self) -> "PolicySection":
        """The same with defaults in the fields that the policy does not read."""
        defaults: dict[str, Any] = {each.name: each.default for each in dataclasses.fields(self)}
        return dataclasses.replace(self, **{name: defaults[name] for name in self.unread()})


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """``[data]``: the data set and how it is spread over the devices."""

    name: str = "digits"
    alpha: float = math.inf
    samples: int | tuple[int, ...] = 500  # of every device, or a list with one for each

    def __post_init__(self) -> None:
        sizes = (self.samples,) if isinstance(self.samples, int) else self.samples
        for size in sizes:
            whole_number("data.samples", size)
        number_within("data.alpha", self.alpha, "[0, inf]", ABOUT_ALPHA)


@dataclass(frozen=True, kw_only=True)
class TrainingSection:
    """``[training]``: the model and what a device does with it."""

    model: str = "small-cnn"
    steps: int = 10
    batch_size: int = 32
    learning_rate: float = 0.01
    aggregator: str = "sum"  # of weighted updates; "memory": the latest update of every device
    bounds: str = "off"  # of what one device can do to the model: "clip" or "robust"
    average_rounds: int = 1  # measured is a mean of the models over so many; 1: the model itself
    compress: str | int = "none"  # updates, to so many bits a number, or by another compressor

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "average_rounds"):
            whole_number(f"training.{name}", getattr(self, name))
        positive_number("training.learning_rate", self.learning_rate)
        if ":" not in self.aggregator and self.aggregator not in AGGREGATORS:
            raise UnknownNameError("training.aggregator", self.aggregator, AGGREGATORS)
        one_of("training.bounds", self.bounds, BOUNDS)
        if self.aggregator in AGGREGATORS:
            bounded(self.bounds, AGGREGATORS[self.aggregator]())  # not all go together
        # One name for each, so that equal runs compare equal.
        name = compressor_name(self.compress, field="training.compress")
        object.__setattr__(self, "compress", name)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """``[run]``: how long, and how often to look and to save."""

    rounds: int
    seed: int
    eval_every: int = 10
    checkpoint_every: int = 50
    stop_accuracy: float | None = None  # end once five measurements in a row are at or above it
    stop_after: int = 0  # rounds to go on after that

    def __post_init__(self) -> None:
        for name in ("rounds", "eval_every", "checkpoint_every"):
            whole_number(f"run.{name}", getattr(self, name))
        if self.stop_accuracy is not None:
            about = "it is the share of test samples that are right"
            number_within("run.stop_accuracy", self.stop_accuracy, "(0, 1]", about)
        whole_number("run.stop_after", self.stop_after, least=0)
        whole_number("run.seed", self.seed, least=0)
