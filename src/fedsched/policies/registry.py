"""Policies by name: the table of them, and those of other packages."""

import dataclasses
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from fedsched.checks import one_of
from fedsched.errors import InputError, UnknownNameError
from fedsched.imports import import_object
from fedsched.policies.auto import Auto
from fedsched.policies.base import AbstractPolicy
from fedsched.policies.budgets import AveragePower
from fedsched.policies.clustered import Clustered
from fedsched.policies.info import SAMPLES, PolicyInfo, build_policy, option_fields
from fedsched.policies.loss_based import ActiveFL, Oort, PowerOfChoice, StalePowerOfChoice
from fedsched.policies.lyapunov import Lyapunov
from fedsched.policies.norm_based import ImportanceChannel, NormThreshold, OptimalSampling
from fedsched.policies.options import PolicyOptions
from fedsched.policies.system import System
from fedsched.policies.uniform import Full, Uniform
from fedsched.policies.whole_fleet import FdmaEnergy, IncompleteWork
from fedsched.policies.wireless_rules import (
    AdaptiveSampling,
    BestChannel,
    FairnessQueue,
    FedCS,
    ProportionalFair,
    RoundRobin,
)
from fedsched.policies.wireless_systems import FedAU, ResourceBlocks, SinrThreshold
from fedsched.radio.access import TDMA, AbstractAccess
from fedsched.solve.uplink import AbstractLink
from fedsched.values import PerDevice

__all__ = [
    "GROUP",
    "POLICIES",
    "PolicyInfo",
    "build_policy",
    "make_policy",
    "policy_info",
    "policy_names",
    "reads_of",
]

GROUP = "fedsched.policies"  # of entry points in other packages

_HT, _HH, _COUNTED = "Horvitz-Thompson", "Hansen-Hurwitz", "count / m"
_ARRIVED = "average over those that arrive"
_YANG = "Yang, Liu, Quek, Poor 2020, arXiv 1908.06287"
_CHO = "Cho, Wang, Joshi 2020 ({}), arXiv 2010.01243"
_FRABONI = "Fraboni et al. 2021 (Algorithm {}), arXiv 2105.05883"
_CHEN = "Chen, Horvath, Richtarik 2022 ({}), arXiv 2010.13723"
_OWN: dict[str, PolicyInfo] = {
    "full": PolicyInfo(
        policy=Full,
        about="everybody, in every round",
        unbiased="yes",
        weights="shares of the data",
        reference="McMahan et al. 2017, FedAvg with C = 1",
    ),
    "uniform": PolicyInfo(
        policy=Uniform,
        about="all alike; designs with-replacement (the paper's), fixed-size, independent",
        unbiased="yes",
        weights=_HT,
        reference="the paper's baseline; Li et al. 2019",
    ),
    "lyapunov": PolicyInfo(
        policy=Lyapunov,
        about="drift plus penalty; designs with-replacement (the paper's), independent, fixed-size",
        unbiased="yes",
        weights=_HT,
        reference="the paper; INFOCOM 2022 (independent), arXiv 2201.07912",
        power="queue",
        budgets="all",
    ),
    "auto": PolicyInfo(
        policy=Auto,
        about="tunes itself: least predicted time to a target, on any radio",
        unbiased="yes",
        weights=_HT,
        reference="docs/auto.md",
        power="queue",
        budgets="all",
    ),
    "round-robin": PolicyInfo(
        policy=RoundRobin,
        about="the next m devices in turn",
        unbiased="over a cycle, not in a round",
        reference=_YANG,
    ),
    "proportional-fair": PolicyInfo(
        policy=ProportionalFair,
        about="the m gains largest against their own average",
        unbiased="over the fading, not given the channel",
        reference=_YANG,
    ),
    "best-channel": PolicyInfo(
        policy=BestChannel,
        about="the m largest gains",
        reference="Amiri, Gunduz, Kulkarni, Poor 2020 (BC)",
    ),
    "fedcs": PolicyInfo(
        policy=FedCS,
        about="as many as can upload before a deadline, fastest first",
        reference="Nishio, Yonetani 2019, arXiv 1804.08333",
    ),
    "resource-blocks": PolicyInfo(
        policy=ResourceBlocks,
        about="m blocks by assignment, with packet errors and limits on delay and energy",
        weights=_ARRIVED,
        reference="Chen et al. 2020, arXiv 1909.07972",
    ),
    "fdma-energy": PolicyInfo(
        policy=FdmaEnergy,
        about="everybody, on shares of the band, with the least energy within a deadline",
        unbiased="yes",
        weights="shares of the data",
        reference="Yang, Chen, Saad, Hong, Shikh-Bahaei 2020, arXiv 1911.02417",
    ),
    "incomplete-work": PolicyInfo(
        policy=IncompleteWork,
        about="everybody, with the local steps that fit into a deadline",
        unbiased="for small steps",
        weights="shares of the data x steps planned / steps done",
        reference="Ruan, Zhang, Liang, Joe-Wong 2021 (scheme C), arXiv 2006.06954",
    ),
    "sinr-random": PolicyInfo(
        policy=SinrThreshold,
        about="m random devices; who is heard below a threshold is lost",
        weights=_ARRIVED,
        reference=_YANG,
    ),
    "sinr-round-robin": PolicyInfo(
        policy=SinrThreshold,
        about="round-robin; who is heard below a threshold is lost",
        weights=_ARRIVED,
        reference=_YANG,
        fixed={"rule": "round-robin"},
    ),
    "sinr-proportional-fair": PolicyInfo(
        policy=SinrThreshold,
        about="proportional-fair; who is heard below a threshold is lost",
        weights=_ARRIVED,
        reference=_YANG,
        fixed={"rule": "proportional-fair"},
    ),
    "fedau": PolicyInfo(
        policy=FedAU,
        about="m random devices, weighted by the mean interval between their turns",
        unbiased="once the intervals are learned",
        weights="mean interval",
        reference="Wang, Ji 2024 (FedAU), arXiv 2306.03401",
    ),
    "fairness-queue": PolicyInfo(
        policy=FairnessQueue,
        about="fast devices and those that have waited",
        reference="Huang et al. 2020 (RBCS-F), in the style of",
    ),
    "adaptive-sampling": PolicyInfo(
        policy=AdaptiveSampling,
        about="m draws with replacement, by largest update / root of the mean upload time",
        unbiased="yes",
        weights=_HH,
        reference="Luo et al. 2022, arXiv 2112.11256",
    ),
    "power-of-choice": PolicyInfo(
        policy=PowerOfChoice,
        about="the m largest losses among d devices that are asked",
        reference=_CHO.format("pow-d"),
    ),
    "power-of-choice-cheap": PolicyInfo(
        policy=PowerOfChoice,
        about="power-of-choice by the loss of one minibatch",
        reference=_CHO.format("cpow-d"),
        fixed={"measure": "batch-loss"},
    ),
    "power-of-choice-stale": PolicyInfo(
        policy=StalePowerOfChoice,
        about="power-of-choice by the loss of a device's last training; nobody is asked",
        reference=_CHO.format("rpow-d"),
    ),
    "clustered-sizes": PolicyInfo(
        policy=Clustered,
        about="one draw from each of m strata by data size",
        unbiased="yes",
        weights=_COUNTED,
        reference=_FRABONI.format(1),
    ),
    "clustered-similarity": PolicyInfo(
        policy=Clustered,
        about="one draw from each of m clusters of similar updates",
        unbiased="yes",
        weights=_COUNTED,
        reference=_FRABONI.format(2),
        fixed={"similar": True},
    ),
    "active-fl": PolicyInfo(
        policy=ActiveFL,
        about="a softmax of the losses seen last, some at random",
        reference="Goetz et al. 2019, arXiv 1909.12641",
    ),
    "importance-channel": PolicyInfo(
        policy=ImportanceChannel,
        about="draws by update norm over the root of upload time",
        unbiased="yes",
        weights="Des Raj",
        reference="Ren et al. 2020, arXiv 2004.00490",
    ),
    "norm-threshold": PolicyInfo(
        policy=NormThreshold,
        about="who has a large update sends it; the others count as the mean of those",
        reference="in the style of Ribero, Vikalo 2020, arXiv 2007.15197",
    ),
    "ocs": PolicyInfo(
        policy=OptimalSampling,
        about="independent coins by update norm, of least variance",
        unbiased="yes",
        weights=_HT,
        reference=_CHEN.format("OCS"),
    ),
    "aocs": PolicyInfo(
        policy=OptimalSampling,
        about="OCS from sums of norms alone",
        unbiased="yes",
        weights=_HT,
        reference=_CHEN.format("AOCS"),
        fixed={"approximate": True},
    ),
    "oort": PolicyInfo(
        policy=Oort,
        about="loss seen last times speed, with exploration",
        reference="Lai et al. 2021, OSDI",
    ),
}
POLICIES = tuple(_OWN)


def _plugged() -> dict[str, Any]:
    """Entry points of other packages by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def policy_names() -> Iterator[str]:
    """All names: this package's own, then those of other packages."""
    yield from _OWN
    yield from sorted(name for name in _plugged() if name not in _OWN)


def policy_info(name: str) -> PolicyInfo:
    """The line of that name: of this package, of one that plugs in, or of an import path."""
    if name in _OWN:
        return _OWN[name]
    if ":" in name:
        return _described(name, import_object("policy", name))
    point = _plugged().get(name)
    if point is None:
        raise UnknownNameError("policy", name, policy_names())
    return _described(name, point.load(), announced=point.value)


def _described(name: str, found: Any, announced: str = "") -> PolicyInfo:
    """What was found under a name, as a line of the table; a class alone describes itself."""
    if isinstance(found, PolicyInfo):
        return found
    if isinstance(found, type) and issubclass(found, AbstractPolicy):
        option_fields(found)  # refuses what is no dataclass
        about = (found.__doc__ or "").strip().partition("\n")[0]
        return PolicyInfo(policy=found, about=about, unbiased="not stated", weights="its own")
    where = f"announced as {announced!r}, which is " if announced else ""
    what = "class that is no policy" if isinstance(found, type) else type(found).__name__
    raise InputError(
        f"policy: {name!r} is {where}a {what}; it must be a class derived from "
        "fedsched.policies.AbstractPolicy, or a fedsched.policies.PolicyInfo"
    )


def reads_of(name: str, power: str | None) -> frozenset[str]:
    """The options a policy reads with that power rule; a sweep over another repeats the run."""
    info = policy_info(name)
    if "power" not in option_fields(info.policy):
        return info.reads
    rule = power or info.power
    return info.reads | {"power"} | ({"lam", "v"} if rule == "queue" else frozenset())


def make_policy(
    name: str,
    *,
    uplink: AbstractLink,
    draws: int = 10,
    budget_w: float = 1.0,
    access: AbstractAccess = TDMA(),
    data_weight: PerDevice | None = None,
    samples: float = SAMPLES,
    **options: Any,
) -> AbstractPolicy:
    """The policy of that name; the defaults are the paper's.

    Args:
        name: one of :func:`policy_names`, or the import path of a class.
        uplink: the link that is shared.
        draws: m, draws or devices a round.
        budget_w: the average power each device may spend.
        access: how a cohort shares the link.
        data_weight: each device's share of the data; equal shares if None.
        samples: the mean number of samples of a device.
        options: the other fields of :class:`PolicyOptions`.

    Example:
        >>> from fedsched.solve.uplink import PAPER_UPLINK
        >>> make_policy("uniform", uplink=PAPER_UPLINK, draws=10).name
        'uniform'
    """
    known = {each.name for each in dataclasses.fields(PolicyOptions)} - {"kind"}
    for option in options:
        one_of("option", option, known)
    system = System(
        link=uplink, budgets=(AveragePower(budget_w),), access=access, data_weight=data_weight
    )
    chosen = PolicyOptions(kind=name, draws=draws, **options)
    return build_policy(policy_info(name), chosen, system, samples)
