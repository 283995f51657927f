"""The ledger: what each device has used of each budget, and how far the worst one is.

It is kept by the loop and not by policies, so it holds for all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.policies.budgets import AbstractBudget
from fedsched.values import ScheduledRound, Use

__all__ = ["entered", "first_entries", "uses"]

Entries = Mapping[str, NDArray[Any]]


def first_entries(budgets: Sequence[AbstractBudget], devices: int) -> dict[str, NDArray[Any]]:
    """Nothing used, nothing allowed."""
    kinds = ("spent", "allowed")
    return {f"{kind}.{each.name}": np.zeros(devices) for kind in kinds for each in budgets}


def entered(entries: Entries, done: ScheduledRound) -> dict[str, NDArray[Any]]:
    """The entries with one more round."""
    changed: dict[str, NDArray[Any]] = {}
    for name, spent in done.spent.items():
        changed[f"spent.{name}"] = entries.get(f"spent.{name}", 0.0) + spent
        allowed = entries.get(f"allowed.{name}", 0.0) + done.allowed[name]
        changed[f"allowed.{name}"] = np.asarray(allowed)
    return {**entries, **changed}


def uses(entries: Entries, budgets: Sequence[AbstractBudget]) -> tuple[Use, ...]:
    """Each budget, with the device that used most of what it was allowed.

    Example:
        >>> from fedsched.policies.budgets import Participation
        >>> entries = {"spent.participation": np.array([1.0, 3.0]),
        ...            "allowed.participation": np.array([2.0, 2.0])}
        >>> (use,) = uses(entries, [Participation(0.5)])
        >>> use.device, use.share, use.mean
        (1, 1.5, 0.75)
    """
    found = []
    for each in budgets:
        spent, allowed = entries[f"spent.{each.name}"], entries[f"allowed.{each.name}"]
        share = np.divide(spent, allowed, out=np.zeros(len(spent)), where=allowed > 0.0)
        worst = int(np.argmax(share))
        limit = float(np.broadcast_to(each.limit, share.shape)[worst])
        found.append(
            Use(
                name=each.name,
                unit=each.unit,
                per=each.per,
                limit=limit,
                mean=float(share[worst]) * limit,
                device=worst,
            )
        )
    return tuple(found)
