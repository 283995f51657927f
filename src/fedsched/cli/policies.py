"""``fedsched policies``: what can be compared."""

from typing import Any

import click

from fedsched.cli.options import json_option
from fedsched.cli.output import print_json, print_table
from fedsched.policies import Need, policy_info, policy_names

__all__ = ["command"]


@click.command("policies")
@json_option
def command(as_json: bool) -> None:
    """List every policy, those of installed plug-ins included."""
    rows = [_row(name) for name in policy_names()]
    if as_json:
        print_json({"policies": rows})
        return
    print_table(
        "policies, by the names that scenarios and commands take",
        ["policy", "what it does", "reads", "unbiased", "weights", "power", "reference"],
        [
            [
                row["name"] + policy_info(row["name"]).mark,
                row["about"],
                ", ".join(row["needs"]) or "nothing",
                row["unbiased"],
                row["weights"],
                row["power"],
                row["reference"],
            ]
            for row in rows
        ],
    )


def _row(name: str) -> dict[str, Any]:
    info = policy_info(name)
    return {
        "name": name,
        "about": info.about,
        "needs": [need.value for need in Need if need in info.needs],
        "unbiased": info.unbiased,
        "biased": info.biased,
        "weights": info.weights,
        "power": info.power,
        "budgets": info.budgets,
        "options": sorted(info.reads),
        "reference": info.reference,
    }
