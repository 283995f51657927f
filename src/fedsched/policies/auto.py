r"""The policy that tunes itself: no m, no lambda, no V.

Rounds to a target grow as :math:`1 + Q / \kappa` with :math:`Q = \sum_n N p_n^2 / q_n`, and a round
takes c + tau seconds, c of computation and tau on air. So the time to a target is least where
:math:`(\kappa + Q)(c + \tau)` is. Its logarithm is concave in (Q, tau), so its tangent lies above
it, and to minimise the tangent is to minimise :math:`Q + \lambda \tau` with

.. math:: \lambda = \frac{\kappa + Q}{c + \tau}

at the averages so far: every such step lowers the time, whatever the radio.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import positive_number, whole_number
from fedsched.errors import InputError
from fedsched.policies.base import AbstractPolicy, PolicyState, nobody
from fedsched.policies.designs import Pivotal
from fedsched.policies.pricing import Pricing, check_size
from fedsched.policies.system import System, reachable_gains
from fedsched.values import Decision, Observation, PerDevice, Plan, spread

__all__ = ["Auto"]

_WINDOW = 50.0  # rounds that averages look back; fewer while fewer have passed
_STEP = 0.05  # of a price, where a device spends nothing or twice its budget
_FIRST_STEP = 0.2
_LEAST_SHARE, _MOST_SHARE = 0.01, 10.0  # of what power costs in what time costs
_FIRST_CREDIT = {"average": 10.0, "strict": 1.0}  # rounds of its budget that a device begins with
_MOST_CREDIT = 60.0  # rounds of its budget that a device may save up
_RESERVE, _RESERVE_ROUNDS = 30.0, 100.0  # what it aims to have saved, and how fast
_MOST_RATIO = 10.0  # of one round's airtime to the average
_CUTS = 3  # passes over powers that an account cuts
_ITERATIONS = 60  # of the first round's fixed point, each half way in the logarithm


@final
@dataclass(frozen=True, kw_only=True)
class Auto(AbstractPolicy):
    r"""Minimises the time to a target for the radio it finds.

    Each round it minimises :math:`\sum_n N p_n^2 / q_n + b_n q_n`, where the price of a device is

    .. math:: b_n = \lambda \tau_n(P_n) + \mu_n P_n ,

    first over the powers (Theorem 2), then over the probabilities, each by itself. The cohort is
    drawn by pivotal sampling: it has as many devices as the probabilities add up to, rounded up or
    down.

    The price of a watt is :math:`\mu_n = \theta_n \lambda T_n / \bar P`, with :math:`T_n` an
    average of the device's :math:`\tau q`. At the best power, power costs :math:`\theta_n =
    \epsilon` times what time costs, where an upload is :math:`\epsilon` per cent shorter at one
    per cent more power. That lies between 0 and 1 on any radio, so it needs no units. It moves by
    :math:`\theta \leftarrow \theta e^{\eta (P q / \bar P - 1)}`, and a little further where the
    device has saved less than a reserve.

    Every device has an account in rounds of its budget. It begins with ``credit``, takes in 1 a
    round and never goes below 0, so that after any T rounds the mean of P q is at most
    :math:`\bar P (1 + \text{credit} / T)`, however wrong the prices are.

    Attributes:
        system: what is scheduled.
        kappa: of the law of rounds; N if None.
        weight_limit: no update counts for more than this: q is at least p / weight_limit.
        budget_mode: "average": a credit of 10 rounds; "strict": of one round.
        fixed_lam: lambda itself, to compare; None: it tunes itself.
    """

    system: System
    kappa: float | None = None
    weight_limit: float = 2.0
    budget_mode: str = "average"
    fixed_lam: float | None = None

    shared: ClassVar[frozenset[str]] = frozenset({"inverse", "airtime_s", "rounds"})

    def __post_init__(self) -> None:
        for name in ("kappa", "fixed_lam"):
            if getattr(self, name) is not None:
                positive_number(name, getattr(self, name))
        if not 1.0 <= self.weight_limit < np.inf:
            raise InputError(
                f"weight_limit must be at least 1, got {self.weight_limit}; a device that always "
                "takes part has its share of the data as its weight, and others have more"
            )
        if self.budget_mode not in _FIRST_CREDIT:
            raise InputError(
                f"budget_mode must be 'average' or 'strict', got {self.budget_mode!r}; 'average' "
                "lets a device spend some rounds of its budget in advance"
            )

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "auto"

    @property
    def shared_state(self) -> frozenset[str]:
        """The averages over all devices."""
        return self.shared

    def init(self, devices: int) -> PolicyState:
        """Accounts with their credit; all else begins with the first gains."""
        whole_number("devices", devices)
        return {
            "credit": np.full(devices, _FIRST_CREDIT[self.budget_mode]),
            "power_share": np.full(devices, np.nan),  # theta
            "device_airtime_s": np.full(devices, np.nan),  # of tau q, the mean logarithm
            "inverse": np.full(2, np.nan),  # Q, as an average
            "airtime_s": np.full(2, np.nan),  # tau, as an average
            "rounds": np.zeros(()),
        }

    def lam(self, state: PolicyState, devices: int) -> float:
        """The price of a second, by the averages of a state."""
        if self.fixed_lam is not None:
            return self.fixed_lam
        inverse, airtime_s = _average(state["inverse"]), _average(state["airtime_s"])
        return _price_of_time(self._kappa(devices), inverse, self._compute_s, airtime_s)

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Prices by the averages so far, then powers, probabilities and a cohort."""
        gain, devices = observed.gain, len(observed.gain)
        check_size(gain, state["credit"])
        reachable, g = reachable_gains(gain)
        if len(g) == 0:
            return nobody(devices), {**state, "credit": _saved(state["credit"], 0.0)}
        share = self.system.shares(devices)
        state = self._begun(gain, reachable, share, state)
        weight = devices * share[reachable] ** 2
        floor = np.minimum(1.0, share[reachable] / self.weight_limit)
        lam = self.lam(state, devices)
        time = lam * np.exp(state["device_airtime_s"])  # what the time of each device costs
        watt = state["power_share"] * time / self.system.power.limit
        queues = {self.system.power.name: watt[reachable]}
        pricing = Pricing(system=self.system, v=1.0, lam=lam)
        plan = pricing.plan(g, queues)
        wanted_w, held_w = plan.power_w, state["credit"][reachable] * self.system.power.limit
        q = _probability(weight, pricing.price(plan, queues), floor)
        for _ in range(_CUTS):  # what the account does not hold is not sent, and that has its price
            if np.all(wanted_w * q <= held_w):
                break
            plan = self.system.plan(g, np.minimum(wanted_w, held_w / q))
            q = _probability(weight, pricing.price(plan, queues), floor)
        plan = self.system.plan(g, np.minimum(wanted_w, held_w / q))
        after = self._after(state, reachable, plan, q, weight)
        probability = spread(q, reachable, devices, 0.0)
        decision = Decision(
            plan=plan.among(reachable, devices),
            probability=probability,
            cohort=Pivotal().draw(probability, None, share, observed.luck.stream("sampling")),
        )
        return decision, after

    @property
    def _compute_s(self) -> float:
        return self.system.compute_s

    def _kappa(self, devices: int) -> float:
        return float(devices) if self.kappa is None else self.kappa

    def _begun(
        self, gain: PerDevice, reachable: NDArray[np.bool_], share: PerDevice, state: PolicyState
    ) -> PolicyState:
        """The state, with a beginning for devices that are met for the first time."""
        new = reachable & np.isnan(state["power_share"])
        if not new.any():
            return state
        devices = len(gain)
        weight = devices * share[new] ** 2
        floor = np.minimum(1.0, share[new] / self.weight_limit)
        q, theta, airtime_s = self._first(gain[new], weight, floor)
        power_share, on_air = state["power_share"].copy(), state["device_airtime_s"].copy()
        power_share[new], on_air[new] = theta, np.log(q * airtime_s)
        begun = {**state, "power_share": power_share, "device_airtime_s": on_air}
        if np.isnan(state["inverse"]).any():
            whole = devices * float((share**2).sum()) / weight.sum()
            begun["inverse"] = _started(float((weight / q).sum()) * whole)
            begun["airtime_s"] = _started(float((q * airtime_s).sum()))
        return begun

    def _first(
        self, gain: PerDevice, weight: PerDevice, floor: PerDevice
    ) -> tuple[PerDevice, PerDevice, PerDevice]:
        """Probabilities, shares of power and uploads that agree with each other at these gains."""
        link, budget_w, devices = self.system.link, self.system.power.limit, len(gain)
        q = np.maximum(floor, 1.0 / np.sqrt(devices))
        theta, upload_s = np.zeros(devices), np.ones(devices)
        for _ in range(_ITERATIONS):
            power_w = np.minimum(budget_w / q, link.max_power_w)
            snr = gain * power_w / link.noise_w
            elasticity = snr / ((1.0 + snr) * np.log1p(snr))
            binds = budget_w / q >= link.max_power_w
            theta = np.where(binds, _LEAST_SHARE, elasticity)
            upload_s = self.system.access.price_s(link.airtime_s(gain, power_w))
            inverse, airtime_s = float((weight / q).sum()), float((q * upload_s).sum())
            kappa = self._kappa(devices)
            lam = self.fixed_lam or _price_of_time(kappa, inverse, self._compute_s, airtime_s)
            better = _probability(weight, lam * upload_s * (1.0 + theta), floor)
            q = np.sqrt(q * better)
        return q, theta, upload_s

    def _after(
        self,
        state: PolicyState,
        reachable: NDArray[np.bool_],
        plan: Plan,
        q: PerDevice,
        weight: PerDevice,
    ) -> PolicyState:
        """Averages, shares of power and accounts after a round."""
        devices = len(state["credit"])
        rounds = float(state["rounds"]) + 1.0
        rate = 1.0 / min(rounds + 1.0, _WINDOW)
        spent = self.system.power.spent(plan, q) / self.system.power.limit
        step = max(_STEP, _FIRST_STEP / (1.0 + rounds / 10.0))
        theta = state["power_share"].copy()
        reserve = (_RESERVE - state["credit"][reachable]) / _RESERVE_ROUNDS
        theta[reachable] *= np.exp(step * (spent - 1.0 + reserve))
        theta = np.clip(theta, _LEAST_SHARE, _MOST_SHARE)
        on_air = q * self.system.access.price_s(plan.upload_s)
        own = state["device_airtime_s"].copy()
        own[reachable] += rate * (np.log(on_air) - own[reachable])
        whole = devices * float((self.system.shares(devices) ** 2).sum()) / weight.sum()
        inverse = float((weight / q).sum()) * whole
        airtime_s = float(on_air.sum())
        everyone = spread(spent, reachable, devices, 0.0)
        return {
            "credit": _saved(state["credit"], everyone),
            "power_share": theta,
            "device_airtime_s": own,
            "inverse": _averaged(state["inverse"], inverse, rate),
            "airtime_s": _averaged(state["airtime_s"], airtime_s, rate),
            "rounds": np.asarray(rounds),
        }


def _started(value: float) -> NDArray[np.float64]:
    return np.array([np.log(value), 1.0])


def _averaged(average: NDArray[np.float64], value: float, rate: float) -> NDArray[np.float64]:
    """A running average after one more value: the mean logarithm, and the mean ratio to it.

    A world that changes a thousandfold moves the logarithm by seven, so that it is forgotten as
    soon as any other; the ratio makes the average that of the values, not of their logarithms.
    """
    ratio = min(value / float(np.exp(average[0])), _MOST_RATIO)
    now = np.array([np.log(value), ratio])
    return average + rate * (now - average)


def _average(average: NDArray[np.float64]) -> float:
    return float(np.exp(average[0]) * average[1])


def _price_of_time(kappa: float, inverse: float, compute_s: float, airtime_s: float) -> float:
    return (kappa + inverse) / (compute_s + airtime_s)


def _probability(weight: PerDevice, price: PerDevice, floor: PerDevice) -> PerDevice:
    """The q that minimises weight / q + price q, from the floor to 1."""
    return np.clip(np.sqrt(weight / price), floor, 1.0)


def _saved(credit: PerDevice, spent: PerDevice | float) -> PerDevice:
    """An account after a round: what was spent goes, a round of the budget comes."""
    return np.minimum(np.maximum(credit - spent, 0.0) + 1.0, _MOST_CREDIT)
