r"""Which m, lambda, V and design to take, before any training.

A schedule costs time a round, and it costs rounds. The time is simulated without training. For
the rounds, the descent inequality of one round sets against its first-order gain a variance in
proportion to :math:`R = N \sum_n p_n^2 (1/q_n - 1)`, with the devices' shares p of the data; where
all hold as much it is the mean of 1/q less 1. So

.. math:: T \propto 1 + \rho R .

With the step tuned to the schedule, as the corrected bound would have it, the variance decides
alone and :math:`\rho \ge 1`; at 1, rounds are in proportion to the mean of 1/q. With one step for
all schedules :math:`\rho` is small: to first order

.. math:: \rho = \frac{M}{2N} \cdot \frac{\frac1N\sum_n\|\nabla f_n\|^2}{\|\nabla f\|^2}, \qquad
          M = 1 - (1-\gamma L)^K \approx \gamma K L,

M being how far K local steps go towards a device's own minimum along its largest curvature.
:func:`step_weight` measures it at the first model. What is common to all schedules is left out, so
predicted times are relative.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedsched.analysis.arrival import ACCURACY, ArrivalProtocol, Reach
from fedsched.analysis.envelope import Segment, lower_envelope
from fedsched.analysis.tally import ScheduleTally
from fedsched.checks import positive_number, whole_number
from fedsched.clock import elapsed_s
from fedsched.errors import InputError, require
from fedsched.policies.designs import make_design
from fedsched.randomness import stream
from fedsched.runs.assembly import channel_of, data_weight_of, schedule_of, trainer_spec_of
from fedsched.runs.runlog import RunLog
from fedsched.runs.scenario import Scenario, scenario_from
from fedsched.runs.scenario_file import NO_SETTINGS, Settings
from fedsched.runs.sections import PolicySection

__all__ = [
    "LEAST_PAIRS",
    "Candidate",
    "best_by_computation",
    "candidates",
    "measured_times",
    "model_parameters",
    "rank_correlation",
    "simulate",
    "step_weight",
    "together",
]

LEAST_PAIRS = 3  # of predicted and measured times; of two, ranks can only agree or not


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to schedule, and what it costs."""

    policy: PolicySection
    airtime_s: float  # a round
    mean_inverse: float  # of q, over rounds and devices, which count by their squared shares
    devices: float  # a round
    worst_power_w: float  # largest mean power of a device, over the rounds simulated
    unevenness: float = 1.0  # N sum p^2 of the shares p of the data; 1 where all hold as much

    def rounds(self, weight: float) -> float:
        """Rounds to a target, relative to everybody taking part."""
        return 1.0 + weight * self.unevenness * (self.mean_inverse - 1.0)

    def time_s(self, weight: float, computation_s: float) -> float:
        """Time to a target, for each round that it would take with everybody."""
        return self.rounds(weight) * elapsed_s(self.airtime_s, 1.0, computation_s)

    @property
    def label(self) -> str:
        """What it is called in tables: what a grid varies, and all else that is not the default."""
        policy = self.policy
        if policy.kind == "full":
            return "full"
        independent = policy.kind == "lyapunov" and policy.design == "independent"
        words = [policy.kind, policy.design]
        words += [] if independent else [f"m={policy.draws}"]  # coins are not drawn m times
        shown = {"kind", "design", "draws"}
        if policy.kind == "lyapunov":
            words += [f"λ={policy.lam:g}", f"V={policy.v:g}"]
            shown |= {"lam", "v"}
        words += [
            f"{field.name}={value}"
            for field in dataclasses.fields(policy)
            if field.name not in shown and (value := getattr(policy, field.name)) != field.default
        ]
        return " ".join(words)


def candidates(scenarios: Sequence[Scenario], settings: Settings = NO_SETTINGS) -> list[Scenario]:
    """The scenarios to compare: those of a sweep, one seed of each; for a single one, a grid.

    The grid has every design, m of 1, 5 and 10, lambda of 1, 10 and 100, and V both as given and
    with V * lambda as at the paper's main setting, since power depends on that product; with
    ``scale_v``, which keeps the product, as given alone. An m is left out where it is too small to
    give every device the scenario's ``qmin``. What ``settings`` name by dotted names has that value
    in all of the grid.
    """
    first = scenarios[0]
    if len(scenarios) > 1:
        policies = [each.policy for each in together([scenarios])]
    else:
        given = first.policy
        pairs = {
            (lam, v)
            for lam in (1.0, 10.0, 100.0)
            for v in ((given.v,) if given.scale_v else (given.v, 1e4 / lam))
        }
        devices = _devices(first)
        policies = [
            dataclasses.replace(
                given, kind="lyapunov", design=design, draws=m, lam=lam, v=v
            )
            for design in ("with-replacement", "fixed-size", "independent")
            for m in ((1, 5, 10) if design != "independent" else (10,))
            if make_design(design, m).uniform(devices)[0] >= given.qmin
            or design == "independent"
            for lam, v in sorted(pairs)
        ]  # fmt: skip
        policies += [
            dataclasses.replace(given, kind="uniform", design=design, draws=m)
            for design in ("with-replacement", "fixed-size")
            for m in (1, 5, 10)
        ]
        policies = _all_with(policies, settings)
    return [dataclasses.replace(first, policy=each) for each in dict.fromkeys(policies)]


def _all_with(policies: Sequence[PolicySection], settings: Settings) -> list[PolicySection]:
    """A grid where the fields that are set do not vary."""
    names = [each.name for each in dataclasses.fields(PolicySection)]
    fixed = {name: settings[f"policy.{name}"] for name in names if f"policy.{name}" in settings}
    kind = fixed.pop("kind", None)
    found = [dataclasses.replace(each, **fixed) for each in policies if kind in (None, each.kind)]
    if not found:
        raise InputError(
            f"policy.kind: the grid has lyapunov and uniform alone, got {kind!r}; name other "
            "policies in a [sweep]"
        )
    return found


def together(groups: Sequence[Sequence[Scenario]]) -> list[Scenario]:
    """Candidates of several files as one list; refused where they differ in more than policies."""
    joined = [each for group in groups for each in group]
    first = joined[0]
    for each in joined:
        for section in ("channel", "uplink", "data", "training"):
            here, there = getattr(first, section), getattr(each, section)
            if here != there:
                name = next(n for n in vars(here) if getattr(here, n) != getattr(there, n))
                raise InputError(
                    f"scenario: the files differ in {section}.{name}, {getattr(here, name)!r} and "
                    f"{getattr(there, name)!r}; only policies can be ranked against each other"
                )
    unique = dict.fromkeys(each.policy.as_read() for each in joined)
    return [dataclasses.replace(first, policy=policy) for policy in unique]


def model_parameters(scenario: Scenario) -> int:
    """How many numbers an update has; 0 where the scenario names its bits. May import torch."""
    if scenario.uplink.bits is not None:
        return 0
    require("torch", extra="torch", purpose="counting the parameters of the model")
    from fedsched.learning.models import build_model, flatten

    spec = trainer_spec_of(scenario, _devices(scenario), "cpu")
    dataset, _ = spec.data()
    return len(flatten(build_model(spec.model, dataset, spec.seed)))


def simulate(scenario: Scenario, *, parameters: int, rounds: int) -> Candidate:
    """Schedule so many rounds without training and note what they cost."""
    whole_number("rounds", rounds)
    devices, share = _devices(scenario), data_weight_of(scenario)
    square = np.ones(devices) if share is None else (devices * share) ** 2
    tally, airtime_s, inverse, counted = ScheduleTally(devices), 0.0, 0.0, 0.0
    reached = False
    for done in islice(schedule_of(scenario, parameters), rounds):
        tally.add(done)
        airtime_s += done.uploads_s
        reached = reached or not np.isnan(done.gain).all()
        q = done.decision.probability
        if not done.decision.deterministic:
            inverse += float((square[q > 0.0] / q[q > 0.0]).sum())
            counted += float(square[q > 0.0].sum())
    if not counted:
        if not reached:
            raise InputError(
                f"channel.kind: no device can be reached in {rounds} rounds of "
                f"{scenario.channel.kind!r}, so there is nothing to rank; name another channel or "
                "simulate more rounds"
            )
        raise InputError(
            f"policy.kind: {scenario.policy.kind!r} chooses without chance, so there is no 1/q to "
            "predict from; name a policy that draws, such as lyapunov or uniform"
        )
    if not airtime_s:
        raise InputError(
            f"rounds: in {rounds} rounds {scenario.policy.kind!r} ({scenario.policy.design}, "
            f"lambda = {scenario.policy.lam:g}) draws nobody, so there is no time to predict from; "
            "simulate more rounds"
        )
    summary = tally.summary()
    return Candidate(
        policy=scenario.policy,
        airtime_s=airtime_s / rounds,
        mean_inverse=inverse / counted,
        unevenness=float(square.mean()),
        devices=summary.devices_per_round,
        worst_power_w=summary.worst_mean_power_w,
    )


def step_weight(scenario: Scenario) -> float:
    """Rho for the scenario's own step size, measured at the first model. Imports torch."""
    require("torch", extra="torch", purpose="measuring rho at the first model")
    from fedsched.learning.constants import Effort, estimate_constants
    from fedsched.learning.models import build_model, flatten

    devices = _devices(scenario)
    spec = trainer_spec_of(scenario, devices, "cpu")
    dataset, partition = spec.data()
    model = build_model(spec.model, dataset, spec.seed)
    found = estimate_constants(
        model=model, dataset=dataset, partition=partition, parameters=flatten(model).copy(),
        batch_size=spec.batch_size, effort=Effort(devices=5, batches=4),
        random=stream(scenario.run.seed, "advice"),
    )  # fmt: skip
    shrink = max(1.0 - spec.learning_rate * found.smoothness.value, 0.0)
    move = 1.0 - shrink**spec.steps
    return move / (2.0 * devices) * found.device_gradient_sq / found.gradient_sq


def _devices(scenario: Scenario) -> int:
    return channel_of(scenario).devices


def best_by_computation(simulated: Sequence[Candidate], weight: float) -> list[Segment]:
    """Which candidate is predicted to be first, for every computation time a round."""
    return lower_envelope(
        {
            each.label: Reach(
                airtime_s=each.time_s(weight, computation_s=0.0), rounds=each.rounds(weight)
            )
            for each in simulated
        }
    )


def measured_times(
    logs: Iterable[RunLog], target: float, *, computation_s: float, protocol: ArrivalProtocol
) -> Mapping[PolicySection, float | None]:
    """Mean time to a test accuracy by policy; None where a seed never reached it."""
    positive_number("target", target)
    times: dict[PolicySection, list[float | None]] = {}
    for log in logs:
        reached = ACCURACY.reach(log, target, protocol)
        time_s = None if reached is None else reached.time_s(computation_s)
        times.setdefault(scenario_from(log.manifest["scenario"]).policy, []).append(time_s)
    return {
        key: None if None in each else float(np.mean([t for t in each if t is not None]))
        for key, each in times.items()
    }


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's: the correlation of ranks, ties sharing theirs.

    Example:
        >>> rank_correlation([1.0, 2.0, 3.0, 4.0], [10.0, 30.0, 20.0, 40.0])
        0.8
    """
    if len(one) != len(other) or len(one) < LEAST_PAIRS:
        raise InputError(
            f"a rank correlation needs {LEAST_PAIRS} pairs or more, got {len(one)} and "
            f"{len(other)} values"
        )
    return round(float(np.corrcoef(_ranks(one), _ranks(other))[0, 1]), 12)


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2.0)[place], dtype=np.float64)
