r"""The policy that tunes itself: no m, no lambda, no V.

Rounds to a target grow as :math:`1 + Q / \kappa` with :math:`Q = \sum_n N p_n^2 / q_n`, and a round
takes c + tau seconds, c of computation and tau on air. So the time to a target is least where
:math:`(\kappa + Q)(c + \tau)` is. Its logarithm is concave in (Q, tau), so its tangent lies above
it, and to minimise the tangent is to minimise :math:`Q + \lambda \tau` with

.. math:: \lambda = \frac{\kappa + Q}{c + \tau}

at the averages so far: every such step lowers the time, whatever the radio.
"""

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import positive_number, whole_number
from fedsched.errors import InputError
from fedsched.policies.accounts import affordable, held, paid, wait_s
from fedsched.policies.averages import average, averaged, started
from fedsched.policies.base import AbstractPolicy, PolicyState, nobody
from fedsched.policies.budgets import AbstractBudget, AveragePower, Energy
from fedsched.policies.designs import Pivotal
from fedsched.policies.kappa import KAPPA_STATE, begin_kappa, kappa_of, learn_kappa
from fedsched.policies.least_cost import price_of_time, probability_of_least_cost, worth
from fedsched.policies.pricing import Pricing, Queues, check_size
from fedsched.policies.sizing import cheapest
from fedsched.policies.system import System, reachable_gains
from fedsched.values import Decision, Experience, Observation, PerDevice, over

__all__ = ["FIRST_CREDIT", "Auto"]

_WINDOW = 50.0  # rounds that averages look back; fewer while fewer have passed
_STEP = 0.05  # of a price, where a device spends nothing or twice its budget
_FIRST_STEP = 0.2
_LEAST_SHARE = 0.01  # of what a budget costs in what time costs
# At the best power a watt's share is below 1, and a joule's is 20 at an SNR of 0.1, below which
# less power saves hardly a joule and takes ever longer. What no power saves can only be had by
# taking part less often, and its price has no such bound.
_MOST_SHARE = {AveragePower.name: 10.0, Energy.name: 20.0}
_MOST_SHARE_OF_OTHERS = 1e6
FIRST_CREDIT = {"average": 10.0, "strict": 1.0}  # rounds of its budget that a device begins with
_MOST_CREDIT = 60.0  # rounds of its budget that a device may save up
_RESERVE, _RESERVE_ROUNDS = 30.0, 100.0  # what it aims to have saved, and how fast
_CUTS = 3  # passes over powers that an account cuts
_ITERATIONS = 100  # of the first round's fixed point, each half way in the logarithm


@final
@dataclass(frozen=True, kw_only=True)
class Auto(AbstractPolicy):
    r"""Minimises the time to a target for the radio it finds.

    Each round it minimises :math:`\sum_n N p_n^2 / q_n + b_n q_n`, where the price of a device is

    .. math:: b_n = \lambda \tau_n(P_n) + \sum_i \mu_{i,n} u_{i,n}(P_n) ,

    first over the powers (Theorem 2 where power is the budget), then over the probabilities, each
    by itself. The cohort is drawn by pivotal sampling: it has as many devices as the probabilities
    add up to, rounded up or down. Where updates are compressed, 1/q has the factor
    :math:`1 + \omega`, in Q as well; of several sizes each device has the one that makes its own
    part of the sum least.

    The price of a unit of budget i is :math:`\mu_{i,n} = \theta_{i,n} \lambda T_n / \bar u_i`,
    with :math:`T_n` an average of the device's :math:`\tau q`. At the best power, power costs
    :math:`\theta_n = \epsilon` times what time costs, where an upload is :math:`\epsilon` per cent
    shorter at one per cent more power. That lies between 0 and 1 on any radio, so it needs no
    units. It moves by :math:`\theta \leftarrow \theta e^{\eta (q u / \bar u - 1)}`, and a little
    further where the device has saved less than a reserve.

    Every device has an account of each budget, in rounds of it (or seconds, where the limit is of
    a second). It begins with ``credit``, takes in 1 a round and never goes below 0, so that after
    any T rounds the mean of q u is at most :math:`\bar u (1 + \text{credit} / T)`, however wrong
    the prices are. Where power would overdraw the account, less is sent; where another budget
    would, q is lower, even below the floor of ``weight_limit``: a budget is kept, and the update
    of a device that can seldom take part counts for more. For limits of a second the server waits
    until all devices in reach can afford that floor.

    Attributes:
        system: what is scheduled.
        kappa: of the law of rounds; if None it is N at first, and is learnt from training.
        weight_limit: no update counts for more than this: q is at least p / weight_limit. Whatever
            it is, the probabilities add up to one device a round or more, where all are reachable.
        budget_mode: "average": a credit of 10 rounds; "strict": of one round.
        fixed_lam: lambda itself, to compare; None: it tunes itself.
    """

    system: System
    kappa: float | None = None
    weight_limit: float = 2.0
    budget_mode: str = "average"
    fixed_lam: float | None = None

    name = "auto"
    # Averages over all devices.
    shared_state = frozenset({"inverse", "airtime_s", "rounds"}) | KAPPA_STATE

    def __post_init__(self) -> None:
        for name in ("kappa", "fixed_lam"):
            if getattr(self, name) is not None:
                positive_number(name, getattr(self, name))
        positive_number("weight_limit", self.weight_limit)
        if self.budget_mode not in FIRST_CREDIT:
            raise InputError(
                f"budget_mode must be 'average' or 'strict', got {self.budget_mode!r}; 'average' "
                "lets a device spend some rounds of its budget in advance"
            )

    def init(self, devices: int) -> PolicyState:
        """Accounts with their credit; all else begins with the first gains."""
        whole_number("devices", devices)
        unknown = np.full(devices, np.nan)
        accounts = {f"credit.{each.name}": unknown.copy() for each in self.system.budgets}
        shares = {f"share.{each.name}": unknown.copy() for each in self.system.budgets}  # theta
        return {
            **accounts,
            **shares,
            "device_airtime_s": unknown,  # of tau q, the mean logarithm
            "inverse": np.full(2, np.nan),  # Q, as an average
            "airtime_s": np.full(2, np.nan),  # tau, as an average
            "rounds": np.zeros(()),
            **begin_kappa(),
        }

    @property
    def sampling(self) -> Pivotal:
        """Pivotal sampling."""
        return Pivotal()

    @property
    def follows_course(self) -> bool:
        """Where kappa is not given."""
        return self.kappa is None

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """Kappa, if it is not given."""
        if self.kappa is not None:
            return state
        devices = len(state["device_airtime_s"])
        return learn_kappa(state, experience, devices, average(state["inverse"]))

    def tuning(self, state: PolicyState) -> dict[str, float]:
        """Lambda, kappa, Q and tau, by which it chooses."""
        if np.isnan(state["inverse"]).any():
            return {}
        devices = len(state["device_airtime_s"])
        return {
            "price_of_time": self.lam(state, devices),
            "kappa": kappa_of(state, self.kappa, devices),
            "average_inverse_probability": average(state["inverse"]),
            "average_airtime_s": average(state["airtime_s"]),
        }

    def lam(self, state: PolicyState, devices: int) -> float:
        """The price of a second, by the averages of a state."""
        if self.fixed_lam is not None:
            return self.fixed_lam
        inverse, airtime_s = average(state["inverse"]), average(state["airtime_s"])
        kappa = kappa_of(state, self.kappa, devices)
        return price_of_time(kappa, inverse, self._compute_s, airtime_s)

    def decide(self, observed: Observation, state: PolicyState) -> tuple[Decision, PolicyState]:
        """Prices by the averages so far, then powers, probabilities and a cohort."""
        gain, devices = observed.gain, len(observed.gain)
        check_size(gain, state["device_airtime_s"])
        reachable, known = reachable_gains(gain)
        if len(known) == 0:
            decision = nobody(devices)
            return decision, self._paid(state, decision)
        share, sizes = self.system.shares(devices), observed.sizes
        common = 1.0 if sizes is None else float(sizes.factor[sizes.best])
        state = self._begun(gain, reachable, share, state, common)
        weight = devices * share**2
        floor = np.where(reachable, np.minimum(1.0, share / self.weight_limit), 0.0)
        least = float(share[reachable].sum())  # a device a round, where all can be reached
        pricing = Pricing(system=self.system, v=1.0, lam=self.lam(state, devices))
        prices = self._prices(state, pricing.lam)
        offer = cheapest(pricing, gain, prices, sizes, partial(worth, weight, floor))
        sent, held_w = weight * offer.factor, self._held_w(state)
        solve = partial(probability_of_least_cost, sent, floor=floor, least=least)
        plan, price = pricing.in_force(offer.plan, prices, sent, solve, gain)
        wanted_w, q = plan.power_w, solve(price)
        for _ in range(_CUTS):  # what the account does not hold is not sent, and that has its price
            if not np.any(wanted_w * q > held_w):
                break
            plan = self.system.plan(gain, np.minimum(wanted_w, over(held_w, q)), like=plan)
            q = solve(pricing.in_force(plan, prices, sent, solve)[1])
        plan = self.system.plan(gain, np.minimum(wanted_w, over(held_w, q)), like=plan)
        wait = wait_s(self.system.budgets, state, plan, floor)
        q = affordable(self.system.budgets, state, plan, q, wait)
        decision = Decision(
            plan=plan,
            probability=q,
            wait_s=wait,
            cohort=self.sampling.draw(q, None, share, observed.luck.stream("sampling")),
        )
        averages = self._averages(state, decision, weight, offer.factor)
        return decision, self._paid(averages, decision)

    @property
    def _compute_s(self) -> float:
        return self.system.common_s

    def _mean_s(self, upload_s: PerDevice, probability: PerDevice) -> float:
        """The expected length of a round besides the computation that all have in common."""
        access, late_s = self.system.access, self.system.late_s
        return access.expected(upload_s, late_s, probability).mean_s

    def _held_w(self, state: PolicyState) -> PerDevice | float:
        """The power that accounts hold for this round."""
        power = self.system.power
        return np.inf if power is None else held(state, power)

    def _prices(self, state: PolicyState, lam: float) -> Queues:
        """The price of a unit of each budget, by the name of the budget."""
        time = lam * np.exp(state["device_airtime_s"])  # what the time of each device costs
        round_s = self._compute_s + average(state["airtime_s"])
        return {
            each.name: _known(state[f"share.{each.name}"] * time / each.allowance(round_s))
            for each in self.system.budgets
        }

    def _begun(
        self,
        gain: PerDevice,
        reachable: NDArray[np.bool_],
        share: PerDevice,
        state: PolicyState,
        factor: float,
    ) -> PolicyState:
        """The state, with a beginning for devices that are met for the first time."""
        new = reachable & np.isnan(state["device_airtime_s"])
        if not new.any():
            return state
        devices = len(gain)
        weight = devices * share**2
        floor = np.minimum(1.0, share / self.weight_limit)
        q, first, airtime_s = self._first(np.where(new, gain, np.nan), new, weight * factor, floor)
        begun = {**state, "device_airtime_s": state["device_airtime_s"].copy()}
        begun["device_airtime_s"][new] = np.log((q * airtime_s)[new])
        if np.isnan(state["inverse"]).any():
            whole = devices * float((share**2).sum()) / weight[new].sum()
            begun["inverse"] = started(float((weight * factor / q)[new].sum()) * whole)
            begun["airtime_s"] = started(self._mean_s(airtime_s, np.where(new, q, 0.0)))
        round_s = self._compute_s + average(begun["airtime_s"])
        for budget in self.system.budgets:
            credit = FIRST_CREDIT[self.budget_mode] * budget.rounds(round_s)
            for name, value in (("credit", credit), ("share", first[budget.name][new])):
                begun[f"{name}.{budget.name}"] = state[f"{name}.{budget.name}"].copy()
                begun[f"{name}.{budget.name}"][new] = value
        return begun

    def _first(
        self, gain: PerDevice, new: NDArray[np.bool_], weight: PerDevice, floor: PerDevice
    ) -> tuple[PerDevice, Queues, PerDevice]:
        """Probabilities, shares of the budgets and uploads that agree, at these gains."""
        devices, budgets = len(gain), self.system.budgets
        q = np.maximum(floor, 1.0 / np.sqrt(new.sum()))
        least = float(self.system.shares(devices)[new].sum())
        solve = partial(probability_of_least_cost, weight, floor=floor, least=least)
        plan = self.system.plan(gain, np.where(new, self.system.mean_power_w, 0.0))
        share = {budget.name: np.full(devices, 0.3) for budget in budgets}
        for _ in range(_ITERATIONS):
            upload_s = np.where(new, plan.upload_s, 0.0)
            inverse = float((weight / q)[new].sum())
            airtime_s = self._mean_s(plan.upload_s, np.where(new, q, 0.0))
            kappa, round_s = self.kappa or float(devices), self._compute_s + airtime_s
            lam = self.fixed_lam or price_of_time(kappa, inverse, self._compute_s, airtime_s)
            pricing = Pricing(system=self.system, v=1.0, lam=lam)
            prices = {
                each.name: share[each.name] * lam * q * upload_s / each.allowance(round_s)
                for each in budgets
            }
            plan, price = pricing.in_force(pricing.plan(gain, prices), prices, weight, solve, gain)
            for each in budgets:
                spent = each.spent(plan, np.where(new, q, 0.0)) / each.allowance(round_s)
                share[each.name] = self._bounded(
                    each, share[each.name] * np.sqrt(np.clip(spent, 0.25, 4.0))
                )
            q = np.sqrt(q * np.where(new, solve(price), q))
        return q, share, plan.upload_s

    def _averages(
        self, state: PolicyState, decision: Decision, weight: PerDevice, factor: PerDevice
    ) -> dict[str, NDArray[np.float64]]:
        """Averages and shares of the budgets after a round."""
        plan, q = decision.plan, decision.probability
        part = q > 0.0
        rounds = float(state["rounds"]) + 1.0
        rate = 1.0 / min(rounds + 1.0, _WINDOW)
        step = max(_STEP, _FIRST_STEP / (1.0 + rounds / 10.0))
        round_s = self._compute_s + average(state["airtime_s"])
        after = dict(state)
        for budget in self.system.budgets:
            usual = budget.rounds(round_s)
            saved = state[f"credit.{budget.name}"] / usual
            spent = budget.spent(plan, q) / budget.allowance(round_s)
            moved = np.exp(step * (spent - 1.0 + (_RESERVE - saved) / _RESERVE_ROUNDS))
            theta = state[f"share.{budget.name}"]
            after[f"share.{budget.name}"] = self._bounded(
                budget, np.where(part, theta * moved, theta)
            )
        on_air = q * np.where(part, plan.upload_s, 0.0)
        own = state["device_airtime_s"]
        after["device_airtime_s"] = np.where(
            part, own + rate * (np.log(np.where(part, on_air, 1.0)) - own), own
        )
        whole = float(weight.sum()) / float(weight[part].sum())
        inverse = float(((weight * factor)[part] / q[part]).sum()) * whole
        after["inverse"] = averaged(state["inverse"], inverse, rate)
        mean_s = self._mean_s(plan.upload_s, q) + decision.wait_s
        after["airtime_s"] = averaged(state["airtime_s"], mean_s, rate)
        after["rounds"] = np.asarray(rounds)
        return after

    def _paid(self, state: PolicyState, decision: Decision) -> PolicyState:
        """The state with its accounts after a round."""
        round_s = self.system.round_s(decision.plan, decision.cohort) + decision.wait_s
        met = not np.isnan(state["airtime_s"]).any()
        usual_s = self._compute_s + average(state["airtime_s"]) if met else round_s
        most = {each.name: _MOST_CREDIT * each.rounds(usual_s) for each in self.system.budgets}
        return paid(self.system.budgets, state, decision, round_s, most)

    @staticmethod
    def _bounded(budget: AbstractBudget, share: PerDevice) -> PerDevice:
        most = _MOST_SHARE.get(budget.name, _MOST_SHARE_OF_OTHERS)
        return np.clip(share, _LEAST_SHARE, most)


def _known(price: PerDevice) -> PerDevice:
    """Prices, 0 for devices that were never met."""
    return np.where(np.isnan(price), 0.0, price)
