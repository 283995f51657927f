r"""Who takes part where every node has a link of its own and the slowest of a cohort ends a round.

Cohorts are nested, so that slow nodes come together and wait for each other, and the weights of
every round add up to one (see :mod:`fedsched.solve.nested`). How many nodes a round needs depends
on how much their updates differ. With :math:`G = \sum w_n \Delta_n` the step of a round,

.. math:: \sum_n w_n \|\Delta_n\|^2 - \|G\|^2 \approx (1 - s)\, V , \qquad
          \|G\|^2 \approx \|\bar\Delta\|^2 + s\, V , \qquad s = \sum_n w_n^2 ,

where V is how far updates are from their mean :math:`\bar\Delta`, squared. Running sums of the four
give V and :math:`\|\bar\Delta\|^2`. A round's noise is :math:`Q V / N`. So a small Q is worth its
time where :math:`N \|\bar\Delta\|^2 / V` is small: late in training, or where nodes hold different
data.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from fedsched.checks import finite_array, number_within, positive_number, whole_number
from fedsched.learning.influence import weighted_median
from fedsched.policies import AbstractPolicy, PolicyState
from fedsched.policies.base import nobody
from fedsched.policies.system import reachable_gains
from fedsched.solve.nested import Tiers, least_time
from fedsched.values import Cohort, Decision, Experience, Observation, PerDevice, Plan, spread

__all__ = ["LEAST_NOISE", "MOST_NOISE", "Paced"]

# By training Flower's quickstart: docs/flower.md has what comes of them.
LEAST_NOISE, MOST_NOISE = 1.2, 4.0  # that the bound of Q is always within
_SHARE = 1.0 / 3.0  # of N |mean|^2 / V is kappa: steps are longer than would be best
_MOST_KAPPA = 100.0  # in nodes: beyond it no law is another
_KEPT = 0.7  # of what was seen before, a round
_LONGEST = 3.0  # times the usual length is as far as a node counts
_SEEN = "spread"  # sums of (1 - s) V, 1 - s, |G|^2 and s
_LAW = "law"  # of the last cohort
_TUNING = ("price_of_time", "kappa", "average_inverse_probability", "average_airtime_s")


@final
@dataclass(frozen=True, kw_only=True)
class Paced(AbstractPolicy):
    r"""Least time to a target with steps of the length that was chosen for FedAvg.

    It minimises :math:`(\kappa + Q)(c + \tau)`, as rounds to a target grow as
    :math:`1 + Q / \kappa`, over all laws of nested cohorts whose weights add up to one and are 1/N
    on average.

    Attributes:
        bits: of an update; what it observes are rates in bit/s.
        work_s: what each node takes before it uploads: its download and its computation.
        overhead_s: c, of a round, whoever takes part.
        kappa: of the law of rounds; learnt from the updates if None.
        least: so many nodes take part in every round.
        share: of the nodes that are present are these, if others were left out by chance.
    """

    bits: float
    work_s: PerDevice = field(compare=False)
    overhead_s: float = 0.0
    kappa: float | None = None
    least: int = 1
    share: float = 1.0

    def __post_init__(self) -> None:
        positive_number("bits", self.bits)
        positive_number("overhead_s", self.overhead_s, allow_zero=True)
        finite_array("work_s", self.work_s, allow_zero=True)
        whole_number("least", self.least, least=0)
        number_within("share", self.share, "(0, 1]", "it is a share of the nodes")
        if self.kappa is not None:
            positive_number("kappa", self.kappa)

    @property
    def name(self) -> str:
        """What tables and figures call it: it is the self-tuning policy of parallel links."""
        return "auto"

    @property
    def shared_state(self) -> frozenset[str]:
        """What the updates have told and the law belong to no single node."""
        return frozenset({_SEEN, _LAW})

    def init(self, devices: int) -> PolicyState:
        """Nothing was seen or decided."""
        whole_number("devices", devices)
        return {_SEEN: np.zeros(4), _LAW: np.full(4, np.nan)}

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Times, the law of cohorts, and one draw for all."""
        devices = len(observed.gain)
        reachable, rate = reachable_gains(observed.gain)
        if len(rate) == 0:
            return nobody(devices), state
        upload_s = self.bits / rate
        work_s, kappa = self.work_s[reachable], self.kappa_of(state, len(rate))
        law, price = least_time(
            Tiers.of(work_s + upload_s, max(self.least, 1)),
            kappa=kappa,
            overhead_s=self.overhead_s,
            most=max(min(1.0 + kappa, MOST_NOISE * self.share), LEAST_NOISE),
            least=self.least,
        )
        chosen, weight = law.cohort(observed.luck.stream("sampling").random())
        plan = Plan(  # nobody sets a power
            power_w=np.zeros(len(rate)), bits=self.bits, upload_s=upload_s, compute_s=work_s
        )
        decision = Decision(
            plan=plan.among(reachable, devices),
            probability=spread(law.probability, reachable, devices, 0.0),
            cohort=Cohort(device=np.flatnonzero(reachable)[chosen], weight=weight),
        )
        law_now = np.array([price, kappa, law.inverse, law.mean_s])
        return decision, {**state, _LAW: law_now}

    def tuning(self, state: PolicyState) -> Mapping[str, float]:
        """The law of the last cohort."""
        return dict(zip(_TUNING, state.get(_LAW, np.full(4, np.nan)).tolist(), strict=True))

    def kappa_of(self, state: PolicyState, devices: int) -> float:
        """The one that was given, or has been learnt, or the number of devices."""
        if self.kappa is not None:
            return self.kappa
        apart, rest, squares, share = map(float, state.get(_SEEN, np.zeros(4)))
        if not (rest > 0.0 and apart > 0.0):
            return float(devices)
        noise = apart / rest
        signal = max(squares - share * noise, 0.0) / (rest + share)
        return min(_SHARE * devices * signal / noise, _MOST_KAPPA * devices)

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """How far the updates of a cohort were from each other, and how far they went together."""
        total = float(experience.weight.sum())
        if not (total > 0.0 and math.isfinite(experience.step)):
            return state
        weight = experience.weight / total
        # A node that is far too long is as a usual one, or it alone would say what is remembered.
        norm = np.minimum(experience.norm, _LONGEST * weighted_median(experience.norm, weight))
        square = min(experience.step / total, float(weight @ norm)) ** 2
        apart, share = max(float(weight @ norm**2) - square, 0.0), float(weight @ weight)
        seen = np.array([apart, 1.0 - share, square, share])
        return {**state, _SEEN: _KEPT * state.get(_SEEN, np.zeros(4)) + seen}
