"""What is known of a policy, and how it is made of options."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsched.checks import one_of
from fedsched.errors import InputError
from fedsched.policies.base import AbstractPolicy, Need
from fedsched.policies.designs import make_design
from fedsched.policies.options import PolicyOptions
from fedsched.policies.powers import make_power
from fedsched.policies.system import System
from fedsched.solve.uplink import Uplink

__all__ = ["SAMPLES", "PolicyInfo", "build_policy", "option_fields"]

SAMPLES = 500.0  # of a device, unless the data are known


@dataclass(frozen=True, kw_only=True)
class PolicyInfo:
    """One line of the table of policies.

    Attributes:
        policy: its class, a dataclass. Its fields say which options it takes: ``system`` is what
            is scheduled, ``design`` and ``power`` are the objects that the options name, and all
            others are options by their own names.
        fixed: fields that are set, whatever the options.
        about: one line.
        unbiased: "yes", "no", or under which condition.
        weights: how the updates of a cohort are added up.
        reference: where it was published.
        power: the rule it has unless told otherwise.
        budgets: "all" where it plans by every budget, "power" where it knows that one alone.
    """

    policy: type[AbstractPolicy]
    about: str
    unbiased: str = "no"
    weights: str = "average over the cohort"
    reference: str = ""
    power: str = "constant"
    budgets: str = "power"
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> frozenset[Need]:
        """What it reads of a round."""
        option = PolicyOptions(kind="")
        return build_policy(self, option, System(link=_ANY_LINK)).needs

    @property
    def biased(self) -> bool:
        """Whether tables mark it."""
        return not self.unbiased.startswith("yes")

    @property
    def mark(self) -> str:
        """What tables write behind its name."""
        return " (biased)" if self.biased else ""

    @property
    def reads(self) -> frozenset[str]:
        """The options that change what it does, besides those of its power rule."""
        options = {each.name for each in dataclasses.fields(PolicyOptions)}
        taken = option_fields(self.policy).keys() - self.fixed.keys()
        also = {"draws": "design" in taken, "options": bool(own_fields(self.policy))}
        return frozenset((options & taken) - {"power"}) | {
            name for name, is_ in also.items() if is_
        }


_ANY_LINK = Uplink(bits=1.0, bandwidth_hz=1.0, noise_w=1.0, max_power_w=1.0)


def option_fields(policy: type[AbstractPolicy]) -> dict[str, Any]:
    """The fields of a policy's class by name."""
    if not dataclasses.is_dataclass(policy):
        raise InputError(
            f"policy: {policy.__name__} is no dataclass; its fields say which options it takes, "
            "so write @dataclass(frozen=True, kw_only=True) above the class"
        )
    return {each.name: each for each in dataclasses.fields(policy) if each.init}


def own_fields(policy: type[AbstractPolicy]) -> set[str]:
    """The fields of a policy of one's own that are no option of this package's."""
    if policy.__module__.startswith("fedsched."):
        return set()
    given = {"system", "samples", *(each.name for each in dataclasses.fields(PolicyOptions))}
    return option_fields(policy).keys() - given


def build_policy(
    info: PolicyInfo, options: PolicyOptions, system: System, samples: float = SAMPLES
) -> AbstractPolicy:
    """The policy of a line of the table, with these options, for this system.

    Args:
        info: which policy.
        options: what people set.
        system: what is scheduled.
        samples: the mean number of samples of a device.
    """
    fields = option_fields(info.policy)
    # Whoever has neither draws nor a design takes everybody.
    draws = options.draws if {"draws", "design"} & fields.keys() else None
    rule = options.power or info.power
    ready: dict[str, Any] = {
        **{each.name: getattr(options, each.name) for each in dataclasses.fields(options)},
        "system": system,
        "samples": samples,
        "design": make_design(options.design, options.draws),
        "power": make_power(rule, system=system, v=options.v, lam=options.lam, draws=draws),
    }
    if "power" in fields and fields["power"].default is None and rule == info.power:
        del ready["power"]  # the rule is its own
    for name, value in options.options or ():
        ready[one_of("policy.options", name, own_fields(info.policy))] = value
    ready |= info.fixed
    return info.policy(**{name: ready[name] for name in fields if name in ready})
