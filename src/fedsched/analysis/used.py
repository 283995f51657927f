"""Budgets as logs have them: limits, and what the worst device used of them."""

from collections.abc import Sequence
from typing import Any

from fedsched.runs.runlog import RunLog

__all__ = ["budget_uses"]


def budget_uses(logs: Sequence[RunLog]) -> list[dict[str, Any]]:
    """Every budget with the share of its limit that the worst device of any log used."""
    worst: dict[str, dict[str, Any]] = {}
    for log in logs:
        declared = log.manifest.get("budgets", [])
        shares = log.lists("worst_use")[-1] if declared and log.has("worst_use") else []
        for budget, share in zip(declared, shares, strict=False):
            before = worst.get(budget["name"], {"worst_use": -1.0})
            if share > before["worst_use"]:
                worst[budget["name"]] = {**budget, "worst_use": share}
    return list(worst.values())
