"""Policies: from what was observed of a round to who takes part. State in, state out."""

from fedsched.policies.auto import Auto
from fedsched.policies.base import AbstractPolicy, Need, PolicyState, decided
from fedsched.policies.budgets import (
    AbstractBudget,
    Airtime,
    AveragePower,
    Energy,
    Participation,
    Traffic,
)
from fedsched.policies.choice import AbstractChoicePolicy, AbstractTossedPolicy, Choice, Context
from fedsched.policies.designs import (
    AbstractDesign,
    FixedSize,
    Independent,
    WithReplacement,
    make_design,
)
from fedsched.policies.lyapunov import Lyapunov
from fedsched.policies.options import PolicyOptions
from fedsched.policies.powers import POWERS, AbstractPower, QueuePower, TrackedPower, make_power
from fedsched.policies.registry import (
    POLICIES,
    PolicyInfo,
    build_policy,
    make_policy,
    policy_info,
    policy_names,
    reads_of,
)
from fedsched.policies.system import System
from fedsched.policies.uniform import Full, Uniform

__all__ = [
    "POLICIES",
    "POWERS",
    "AbstractBudget",
    "AbstractChoicePolicy",
    "AbstractDesign",
    "AbstractPolicy",
    "AbstractPower",
    "AbstractTossedPolicy",
    "Airtime",
    "Auto",
    "AveragePower",
    "Choice",
    "Context",
    "Energy",
    "FixedSize",
    "Full",
    "Independent",
    "Lyapunov",
    "Need",
    "Participation",
    "PolicyInfo",
    "PolicyOptions",
    "PolicyState",
    "QueuePower",
    "System",
    "TrackedPower",
    "Traffic",
    "Uniform",
    "WithReplacement",
    "build_policy",
    "decided",
    "make_design",
    "make_policy",
    "make_power",
    "policy_info",
    "policy_names",
    "reads_of",
]
