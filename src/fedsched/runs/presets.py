"""Presets in scenarios: one word stands for the link and the channel, and what is said besides."""

from collections.abc import Mapping
from typing import Any

from fedsched.errors import InputError
from fedsched.radio.presets import PRESETS, find_preset

__all__ = ["with_preset"]


def with_preset(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with the fields that its ``uplink.preset`` stands for; those it names itself stay.

    Example:
        >>> filled = with_preset({"uplink": {"preset": "lte", "budget_w": 0.1}})
        >>> filled["channel"], filled["uplink"]["budget_w"], filled["uplink"]["bandwidth_hz"]
        ({'kind': 'lte'}, 0.1, 3600000.0)
    """
    uplink, channel = table.get("uplink", {}), table.get("channel", {})
    if not (isinstance(uplink, Mapping) and isinstance(channel, Mapping)):
        return table  # whoever builds the scenario says what is wrong
    name = uplink.get("preset")
    if not isinstance(name, str):
        if channel.get("kind") in PRESETS and "noise_w" not in uplink:
            kind = channel["kind"]
            raise InputError(
                f"channel.kind: {kind!r} has the gains of a real cell, and uplink.noise_w is not "
                f"given; set uplink.preset to {kind!r}, which has both, or name the link's fields"
            )
        return table
    preset = find_preset(name, "uplink.preset")
    budgets = table.get("budgets", {})
    airtime = isinstance(budgets, Mapping) and not {"airtime_s", "duty_cycle"} & budgets.keys()
    if preset.duty_cycle is not None and airtime:
        table = {**table, "budgets": {"duty_cycle": preset.duty_cycle, **budgets}}
    return {
        **table,
        "uplink": {**preset.uplink(), **uplink},
        "channel": {"kind": preset.name, **channel},
    }
