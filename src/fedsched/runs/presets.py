"""Presets in scenarios: one word stands for the link and the channel, and what is said besides."""

import math
from collections.abc import Mapping
from typing import Any

from fedsched.errors import InputError
from fedsched.radio.presets import PRESETS, Preset, find_preset

__all__ = ["with_preset"]

_OFF_DB = (-20.0, 10.0)  # from the peak of a preset: beyond, a power is in another unit than watts


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
    _check_peak(preset, uplink.get("max_power_w"))
    budgets = table.get("budgets", {})
    airtime = isinstance(budgets, Mapping) and not {"airtime_s", "duty_cycle"} & budgets.keys()
    if preset.duty_cycle is not None and airtime:
        table = {**table, "budgets": {"duty_cycle": preset.duty_cycle, **budgets}}
    return {
        **table,
        "uplink": {**preset.uplink(), **uplink},
        "channel": {"kind": preset.name, **channel},
    }


def _check_peak(preset: Preset, max_power_w: Any) -> None:
    """Refuse peaks that no device with such a link has: they are milliwatts or dBm, not watts."""
    for device, given in enumerate(max_power_w if isinstance(max_power_w, list) else [max_power_w]):
        if not isinstance(given, int | float) or not 0.0 < given < math.inf:
            continue  # whoever builds the scenario says what is wrong
        off_db = 10.0 * math.log10(given / preset.max_power_w)
        if not _OFF_DB[0] - 1e-9 <= off_db <= _OFF_DB[1] + 1e-9:
            whose = f" of device {device}" if isinstance(max_power_w, list) else ""
            raise InputError(
                f"uplink.max_power_w{whose} is {given:g} W, {abs(off_db):.0f} dB "
                f"{'above' if off_db > 0 else 'below'} the {preset.max_power_w:g} W "
                f"({preset.max_power_dbm:g} dBm) of the preset {preset.name!r}; give watts, or on "
                "the command line and in a fleet a number with its unit, such as 200mW or 23dBm; "
                "for another radio leave the preset out"
            )
