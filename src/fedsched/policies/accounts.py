r"""Accounts of budgets: what a device holds, in limits, and therefore how often it may take part.

An account takes in one limit a round (or as many as the round has seconds, where the limit is of a
second), pays :math:`q u / \bar u` for a round, and never goes below 0. So the sum of q u is at most
what the account began with and what came in, after every round.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsched.policies.budgets import AbstractBudget, AveragePower
from fedsched.values import Decision, PerDevice, Plan

__all__ = ["affordable", "held", "paid", "wait_s"]

State = Mapping[str, NDArray[np.float64]]


def held(state: State, budget: AbstractBudget, wait_s: float = 0.0) -> PerDevice:
    """What each device holds of a budget, after a wait of so many seconds."""
    credit = state[f"credit.{budget.name}"]
    return (credit + (wait_s if budget.per == "second" else 0.0)) * budget.limit


def wait_s(budgets: Sequence[AbstractBudget], state: State, plan: Plan, least: PerDevice) -> float:
    """How long to wait until all devices in reach can afford the least probability.

    Only limits of a second are worth waiting for. Without a wait, and without computation, nobody
    who may send so seldom could ever send again: no time would pass.
    """
    wanted = [
        np.max(budget.spent(plan, least) / budget.limit - state[f"credit.{budget.name}"],
               where=least > 0.0, initial=0.0)
        for budget in budgets
        if budget.per == "second"
    ]  # fmt: skip
    return float(max(wanted, default=0.0))


def affordable(
    budgets: Sequence[AbstractBudget], state: State, plan: Plan, probability: PerDevice, wait: float
) -> PerDevice:
    """The probabilities within what accounts hold; power is cut elsewhere, as it may be lower."""
    part = probability > 0.0
    for budget in budgets:
        if budget.name != AveragePower.name:
            use = np.where(part, budget.use(plan), 1.0)
            probability = np.minimum(probability, held(state, budget, wait) / use)
    return np.where(part, probability, 0.0)


def paid(
    budgets: Sequence[AbstractBudget],
    state: State,
    decision: Decision,
    round_s: float,
    most: Mapping[str, float],
) -> dict[str, NDArray[np.float64]]:
    """The accounts after a round: what was spent goes, what the round allows comes, up to most."""
    after = dict(state)
    for budget in budgets:
        spent = budget.spent(decision.plan, decision.probability) / budget.limit
        left = state[f"credit.{budget.name}"] - spent + budget.rounds(round_s)
        after[f"credit.{budget.name}"] = np.clip(left, 0.0, most[budget.name])
    return after
