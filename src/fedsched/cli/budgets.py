"""Budgets in tables: the limit, the worst device, how far; and a mark on whoever is above."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from fedsched.cli.output import print_table
from fedsched.policies import AveragePower

__all__ = ["ABOVE", "power_mark", "print_budgets"]

ABOVE = " !"  # after a number that is above its budget
_FULL = 1.0 + 1e-9  # what is used exactly is not above, whatever its last digits

Budgets = Sequence[Mapping[str, Any]]


def power_mark(budgets: Budgets) -> str:
    """After a mean power: whether it is above its budget."""
    shares = [each["worst_use"] for each in budgets if each["name"] == AveragePower.name]
    return ABOVE if any(share > _FULL for share in shares) else ""


def print_budgets(rows: Iterable[tuple[str, Budgets]]) -> None:
    """All budgets of all policies, where one is of another kind than the power; what marks mean."""
    known = list(rows)
    if any(each["name"] != AveragePower.name for _, budgets in known for each in budgets):
        header = ["policy", "budget", "limit", "worst device's mean", "of the limit"]
        table = [
            [
                policy,
                each["name"],
                f"{each['limit']:g} {each['unit']} a {each['per']}",
                f"{each['worst_use'] * each['limit']:.4g} {each['unit']}",
                f"{each['worst_use']:.3f}" + (ABOVE if each["worst_use"] > _FULL else ""),
            ]
            for policy, budgets in known
            for each in budgets
        ]
        print_table("budgets", header, table)
    if any(each["worst_use"] > _FULL for _, budgets in known for each in budgets):
        click.echo("!: the mean so far is above the budget of the device that uses most of it")
