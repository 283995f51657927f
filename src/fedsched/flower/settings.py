"""The policy a strategy was given, by name or as an object: checked, and put into words."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedsched.errors import InputError
from fedsched.scheduling.policies import AbstractPolicy

__all__ = ["described", "refuse_shares"]


def described(
    policy: str | AbstractPolicy, draws: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The section of a manifest that tells one policy from another."""
    if isinstance(policy, str):
        return {"kind": policy, "draws": draws, **options}
    return {"kind": policy.name, **_plain(policy)}


def _plain(policy: AbstractPolicy) -> dict[str, Any]:
    """The fields of a policy as a manifest can hold them, such as its design in words."""
    if not dataclasses.is_dataclass(policy):
        return {}
    fields = {each.name: getattr(policy, each.name) for each in dataclasses.fields(policy)}
    return {
        name: repr(value) if dataclasses.is_dataclass(value) else value
        for name, value in fields.items()
        if isinstance(value, str | int | float) or dataclasses.is_dataclass(value)
    }


def refuse_shares(policy: str | AbstractPolicy, options: Mapping[str, Any]) -> None:
    """Shares of the data belong to a fixed number of devices."""
    shares = options.get("data_weight", getattr(policy, "data_weight", None))
    if shares is not None:
        raise InputError(
            "data_weight must be None in a federation, where devices come and go and each that is "
            "present counts the same; leave it out"
        )
