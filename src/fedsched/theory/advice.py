r"""When scheduling pays: the predicted time of ``auto`` and of uniform cohorts, without training.

Rounds to a target grow as :math:`\kappa + Q`, where Q is the mean of 1/q (with unequal data or
compressed updates :math:`\sum_n N p_n^2 (1 + \omega_n) / q_n`), and a round takes c seconds of
computation and tau seconds on air. A short schedule tells Q, and tau as a mean over the cohorts
that it might have drawn, so

.. math:: T \propto (\kappa + Q)(c + \tau) .

How many rounds a target takes with everybody is common to all schedules and is left out: times are
relative. What is not known before training is kappa. A prediction is made for the number of
devices, and its range is over a third and three times as much, and over the seeds of schedules.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

import numpy as np

from fedsched.checks import whole_number
from fedsched.errors import InputError, require
from fedsched.policies.ledger import entered, first_entries, uses
from fedsched.radio import AbstractChannel
from fedsched.radio.access import TDMA
from fedsched.rounds import Air, ScheduleState, scheduled_rounds, start
from fedsched.runs.assembly import air_of, channel_of, data_weight_of, trainer_spec_of
from fedsched.runs.scenario import Scenario
from fedsched.runs.sections import PolicySection
from fedsched.theory.airtimes import Likely, lengths_s, likely_round
from fedsched.theory.costs import Cost, pooled
from fedsched.values import PerDevice, ScheduledRound

__all__ = [
    "Case",
    "Study",
    "fleet_sizes",
    "label_of",
    "model_parameters",
    "simulate",
    "usual_rounds",
]

KAPPA_RANGE = (1.0 / 3.0, 1.0, 3.0)  # of the number of devices
_ROUNDS, _FEWEST, _DEVICE_ROUNDS = 100, 15, 6_000
_BEGINNING, _TIMES_AS_MANY = 100, 6  # rounds before those that count: at most, and for each
_FINE, _COARSE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0)
_LARGE = 3_000  # devices, among whom a second seed changes hardly anything
_PER_SECOND = ("energy_j_per_day", "duty_cycle", "bytes_per_day")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One schedule to simulate."""

    policy: PolicySection
    seed: int
    computation_s: float  # of the mean device
    snr_db: float = 0.0  # that the link has more than in the scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """What is simulated: a scenario, and how it is varied.

    Attributes:
        scenario: the one to advise on.
        others: policies besides ``auto`` and uniform.
        channel: of the scenario.
        parameters: of its model; 0 where the scenario names its bits.
        kappas: first the one that ``auto`` goes by, then others that may be true.
        rounds: of every schedule.
        seeds: of schedules.
    """

    scenario: Scenario
    others: tuple[PolicySection, ...]
    channel: AbstractChannel
    parameters: int
    kappas: tuple[float, ...]
    rounds: int
    seeds: tuple[int, ...]

    @classmethod
    def of(
        cls,
        scenarios: Sequence[Scenario],
        kappa: float | None,
        rounds: int | None,
        seeds: int | None,
    ) -> "Study":
        """The study of a scenario, or of a sweep that varies its policy alone."""
        first = scenarios[0]
        for each in scenarios:
            for name in ("channel", "uplink", "data", "training", "budgets", "knowledge"):
                if getattr(each, name) != getattr(first, name):
                    raise InputError(
                        f"sweep: it varies [{name}], and advice is for one {name}; leave it out of "
                        "the [sweep], or set it with --set"
                    )
        channel = channel_of(first)
        devices = channel.devices
        kappa = first.policy.kappa if kappa is None else kappa
        count = (2 if devices < _LARGE else 1) if seeds is None else seeds
        usual = tuple(devices * each for each in (1.0, *sorted({*KAPPA_RANGE} - {1.0})))
        policies = dict.fromkeys(each.policy.as_read() for each in scenarios)
        return cls(
            scenario=first,
            others=tuple(each for each in policies if each.kind not in ("auto", "uniform")),
            channel=channel,
            parameters=model_parameters(first),
            kappas=usual if kappa is None else (kappa,),
            rounds=usual_rounds(devices) if rounds is None else whole_number("rounds", rounds),
            seeds=tuple(range(first.run.seed, first.run.seed + whole_number("seeds", count))),
        )

    @property
    def own_s(self) -> float:
        """The computation time that the scenario states, of the mean device."""
        return float(np.mean(self.scenario.uplink.computation_s))

    @property
    def has_snr(self) -> bool:
        """Whether the link has a noise to scale; one of measured rates has none."""
        return self.channel.quantity == "gain"

    def policies(self, *, coarse: bool = False) -> dict[str, PolicySection]:
        """What is compared, by label; ``coarse`` with fewer numbers of devices, and no others."""
        own = self.scenario.policy
        found = {"auto": replace(own, kind="auto", kappa=self.kappas[0])}
        # Where only the expected time counts, coins are as good as cohorts of a fixed size.
        design = "independent" if _in_turn(self._air(own, self.own_s)) else "fixed-size"
        for m in fleet_sizes(self.channel.devices, coarse=coarse):
            uniform = replace(own, kind="uniform", design=design, draws=m, power=None)
            found[f"uniform m={m}"] = uniform
        return found if coarse else {**found, **{label_of(each): each for each in self.others}}

    def upload_s(self) -> float:
        """Seconds of one upload by a device drawn at random, alone and without computation."""
        one = self.policies()["uniform m=1"]
        cases = [Case(policy=one, seed=seed, computation_s=0.0) for seed in self.seeds]
        return pooled([simulate(self, case) for case in cases]).airtime_s

    def cases(self, computation_s: float, snr_db: float = 0.0) -> dict[tuple[str, int], Case]:
        """The schedules behind a point, by label and seed; other SNRs have one seed.

        What does not depend on the computation time is the same case at all of them.
        """
        return {
            (label, seed): Case(
                policy=policy,
                seed=seed,
                computation_s=computation_s if self._follows(policy) else 0.0,
                snr_db=snr_db,
            )
            for label, policy in self.policies(coarse=snr_db != 0.0).items()
            for seed in (self.seeds if snr_db == 0.0 else self.seeds[:1])
        }

    @property
    def alike(self) -> bool:
        """Whether all devices compute equally long."""
        link = self.scenario.uplink
        return not isinstance(link.computation_s, tuple) and link.computation_spread == 0.0

    def _follows(self, policy: PolicySection) -> bool:
        """Whether the schedule of a policy depends on how long devices compute."""
        limits = (getattr(self.scenario.budgets, name) for name in _PER_SECOND)
        limited = policy.kind != "uniform" and any(each is not None for each in limits)
        return policy.kind == "auto" or limited or not self.alike

    def _air(self, policy: PolicySection, computation_s: float, snr_db: float = 0.0) -> Air:
        link = self.scenario.uplink
        given = link.computation_s
        scaled: float | tuple[float, ...] = computation_s
        if isinstance(given, tuple) and self.own_s > 0.0:
            scaled = tuple(each * computation_s / self.own_s for each in given)
        link = replace(link, computation_s=scaled, noise_w=link.noise_w * 10.0 ** (-snr_db / 10.0))
        scenario = replace(self.scenario, policy=policy, uplink=link)
        return air_of(scenario, self.channel, self.parameters)

    def air(self, case: Case) -> Air:
        """What a case runs on."""
        air = self._air(case.policy, case.computation_s, case.snr_db)
        return replace(air, seed=case.seed)


def usual_rounds(devices: int) -> int:
    """Rounds that suffice for a fleet: the more devices, the less luck there is in a round."""
    return max(_FEWEST, min(_ROUNDS, _DEVICE_ROUNDS // devices))


def fleet_sizes(devices: int, *, coarse: bool = False) -> list[int]:
    """Numbers of devices a round, from one to all.

    Example:
        >>> fleet_sizes(20)
        [1, 2, 3, 5, 7, 10, 15, 20]
        >>> fleet_sizes(20, coarse=True)
        [1, 2, 5, 10, 20]
    """
    decades = range(math.ceil(math.log10(devices)) + 1)
    sizes = {
        round(step * 10**decade)
        for decade in decades
        for step in (_COARSE if coarse or decade > 1 else _FINE)
    }
    return sorted({m for m in sizes if m < devices} | {devices})


def label_of(policy: PolicySection) -> str:
    """What a policy is called: its kind, and all that is read and is not the default."""
    default = PolicySection(kind=policy.kind)
    words = [policy.kind]
    for field in dataclasses.fields(policy):
        value = getattr(policy, field.name)
        if field.name == "kind" or field.name in policy.unread():
            continue
        if field.name in ("draws", "lam", "v") or value != getattr(default, field.name):
            name = {"draws": "m", "lam": "λ", "v": "V"}.get(field.name, field.name)
            words.append(str(value) if field.name == "design" else f"{name}={value}")
    return " ".join(words)


def model_parameters(scenario: Scenario) -> int:
    """How many numbers an update has; 0 where the scenario names its bits. May import torch."""
    if scenario.uplink.bits is not None:
        return 0
    require("torch", extra="torch", purpose="counting the parameters of the model")
    from fedsched.learning.models import build_model, flatten

    spec = trainer_spec_of(scenario, channel_of(scenario).devices, "cpu")
    dataset, _ = spec.data()
    return len(flatten(build_model(spec.model, dataset, spec.seed)))


def simulate(study: Study, case: Case) -> Cost:
    """Schedule some rounds of a case and note what they cost, once its beginning is over."""
    air, devices = study.air(case), study.channel.devices
    share = data_weight_of(study.scenario)
    weight = devices * (np.full(devices, 1.0 / devices) if share is None else share) ** 2
    entries, before = first_entries(air.budgets, devices), _begun(air, study.rounds)
    rounds: list[Likely] = []
    sizes: list[float] = []
    inverses: list[float] = []
    for done, after in islice(scheduled_rounds(air, before), study.rounds):
        entries = entered(entries, done)
        sizes.append(float(done.decision.probability.sum()))
        rounds.append(likely_round(air, before, done))
        inverses.append(_inverse(air, done, weight))
        before = after
    every = np.array(inverses)
    if np.isnan(every).all():
        raise InputError(
            f"channel.kind: no device can be reached in {study.rounds} rounds of "
            f"{study.scenario.channel.kind!r}, so there is nothing to predict; name another "
            "channel, or simulate more with --rounds"
        )
    airtimes_s, common_s = lengths_s(rounds), air.computation.common_s
    usual_s = float(airtimes_s.mean()) + common_s
    for each in air.budgets:  # by rounds as long as they are on average, whoever was drawn
        allowed = np.asarray(study.rounds * each.allowance(usual_s))
        entries[f"allowed.{each.name}"] = np.broadcast_to(allowed, devices)
    return Cost(
        airtimes_s=airtimes_s[None],
        inverses=np.where(np.isnan(every), np.nanmean(every), every)[None],
        common_s=common_s,
        devices=fmean(sizes),
        uses=uses(entries, air.budgets),
    )


def _begun(air: Air, rounds: int) -> ScheduleState:
    """The state after rounds that do not count: policies save up and learn in them.

    All go on from the same round, so that they meet the same channels.
    """
    state, first = start(air), min(_BEGINNING, _TIMES_AS_MANY * rounds)
    if state.policy or state.channel or state.memory:
        *_, (_, state) = islice(scheduled_rounds(air), first)
        return state
    return replace(state, round=first)  # nothing is remembered


def _inverse(air: Air, done: ScheduledRound, weight: PerDevice) -> float:
    """Q of a round, NaN if nobody could be reached; who could not counts as the others do."""
    if done.decision.deterministic:
        raise InputError(
            f"policy.kind: {air.policy.name!r} chooses without chance, so there is no 1/q to "
            "predict from; name a policy that draws, such as auto, lyapunov or uniform"
        )
    q, plan = done.decision.probability, done.decision.plan
    part = q > 0.0
    if not part.any():
        return math.nan
    size = np.broadcast_to(plan.size, q.shape)
    factor = 1.0 if air.sizes is None else air.sizes.factor[size[part]]
    whole = float(weight.sum()) / float(weight[part].sum())
    return float((weight[part] * factor / q[part]).sum()) * whole


def _in_turn(air: Air) -> bool:
    """Whether the length of a round is a sum, whose mean is that of any cohorts."""
    times = air.computation
    alike = not isinstance(times.mean_s, np.ndarray) and times.spread == 0.0
    return isinstance(air.access, TDMA) and alike and air.knowledge.is_perfect
