"""Policies: from the gains of one round to probabilities and powers. State in, state out."""

from fedsched.policies.base import (
    CHANCES,
    AbstractChoicePolicy,
    AbstractPolicy,
    Choice,
    Need,
    PolicyState,
    Seen,
)
from fedsched.policies.lyapunov import STARTS, Lyapunov
from fedsched.policies.powers import (
    POWERS,
    AbstractPower,
    QueuePower,
    TrackedPower,
    make_power,
)
from fedsched.policies.registry import (
    POLICIES,
    PolicyInfo,
    PolicyOptions,
    make_policy,
    policy_info,
    policy_names,
    reads_of,
)
from fedsched.policies.uniform import Full, Uniform

__all__ = [
    "CHANCES",
    "POLICIES",
    "POWERS",
    "STARTS",
    "AbstractChoicePolicy",
    "AbstractPolicy",
    "AbstractPower",
    "Choice",
    "Full",
    "Lyapunov",
    "Need",
    "PolicyInfo",
    "PolicyOptions",
    "PolicyState",
    "QueuePower",
    "Seen",
    "TrackedPower",
    "Uniform",
    "make_policy",
    "make_power",
    "policy_info",
    "policy_names",
    "reads_of",
]
