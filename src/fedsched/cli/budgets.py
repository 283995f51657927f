"""Budgets in tables: the limit, the worst device, how far; and a mark on whoever is above."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from fedsched.cli.output import print_table
from fedsched.policies import POLICIES, AveragePower, policy_info

__all__ = ["ABOVE", "mean_power", "print_budgets"]

ABOVE = " !"  # after a number that is above its budget
_FULL = 1.0 + 1e-9  # what is used exactly is not above, whatever its last digits

Budgets = Sequence[Mapping[str, Any]]


def mean_power(value: float | None, budgets: Budgets) -> str:
    """A mean power in watts, and a mark where it is above its budget; a dash where none is known.

    Example:
        >>> mean_power(1.0625, []), mean_power(0.0101, [{"name": "power", "worst_use": 1.01}])
        ('1.062', '0.0101 !')
    """
    if value is None:
        return "-"
    shares = [each["worst_use"] for each in budgets if each["name"] == AveragePower.name]
    above = any(share > _FULL for share in shares)
    return format(value, ".3f" if value >= 0.1 else ".3g") + (ABOVE if above else "")


def print_budgets(rows: Iterable[tuple[str, Budgets]]) -> None:
    """All budgets of all policies, where one is no power or is not kept; what marks mean."""
    known = list(rows)
    all_budgets = [each for _, budgets in known for each in budgets]
    others = {each["name"]: None for each in all_budgets if each["name"] != AveragePower.name}
    above = any(each["worst_use"] > _FULL for each in all_budgets)
    if others or above:
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
    if above:
        click.echo("!: the mean so far is above the budget of the device that uses most of it")
    if others:
        keep = [name for name in POLICIES if policy_info(name).budgets == "all"]
        click.echo(
            f"{', '.join(others)}: known to the policies {' and '.join(keep)} alone; the rules of "
            "the others know no budget but the power"
        )
