"""Policies by name: what each reads, where it comes from, and how it is made."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from importlib.metadata import entry_points
from typing import Any

from fedsched.core.uplink import Uplink
from fedsched.errors import InputError, UnknownNameError
from fedsched.policies.base import AbstractPolicy, Need
from fedsched.policies.clustered import Clustered
from fedsched.policies.designs import make_design
from fedsched.policies.loss_based import (
    ActiveFL,
    Oort,
    PowerOfChoice,
    StalePowerOfChoice,
)
from fedsched.policies.lyapunov import Lyapunov
from fedsched.policies.norm_based import (
    ImportanceChannel,
    NormThreshold,
    OptimalSampling,
)
from fedsched.policies.powers import AbstractPower, make_power
from fedsched.policies.uniform import AbstractAlike, Full, Uniform
from fedsched.policies.wireless_rules import (
    AdaptiveSampling,
    BestChannel,
    FairnessQueue,
    FedCS,
    ProportionalFair,
    RoundRobin,
)
from fedsched.values import PerDevice

__all__ = [
    "GROUP",
    "POLICIES",
    "PolicyInfo",
    "PolicyOptions",
    "make_policy",
    "policy_info",
    "policy_names",
    "reads_of",
]

GROUP = "fedsched.policies"  # of entry points in other packages


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyOptions:
    """Everything a policy may be made from; each takes what it reads."""

    uplink: Uplink
    draws: int
    design: str = "with-replacement"
    v: float = 100.0
    lam: float = 100.0
    budget_w: float = 1.0
    floor: float = 0.0
    data_weight: PerDevice | None = None
    as_printed: bool = False
    power: str | None = None  # None: the policy's own
    start: str = "empty"
    scale_v: bool = False
    candidates: int | None = None
    deadline_s: float | None = None
    rho: float = 0.5
    samples: float = 500.0  # the mean number of samples of a device


@dataclass(frozen=True, kw_only=True)
class PolicyInfo:
    """One line of the table of policies.

    Attributes:
        make: makes the policy.
        about: one line.
        needs: what it reads of a round.
        unbiased: "yes", "no", or under which condition.
        weights: how the updates of a cohort are added up.
        reference: where it was published.
        reads: the options, besides uplink and budget, that change what it does.
        power: the rule it has unless told otherwise.
    """

    make: Callable[[PolicyOptions], AbstractPolicy]
    about: str
    needs: frozenset[Need]
    unbiased: str
    weights: str
    reference: str
    reads: frozenset[str] = frozenset({"draws"})
    power: str = "constant"

    @property
    def biased(self) -> bool:
        """Whether tables mark it."""
        return not self.unbiased.startswith("yes")

    @property
    def mark(self) -> str:
        """What tables write behind its name."""
        return " (biased)" if self.biased else ""


def _rule(o: PolicyOptions, own: str) -> AbstractPower:
    return make_power(
        o.power or own, uplink=o.uplink, budget_w=o.budget_w, v=o.v, lam=o.lam, draws=o.draws
    )


def _lyapunov(o: PolicyOptions) -> AbstractPolicy:
    return Lyapunov(
        design=make_design(o.design, o.draws),
        uplink=o.uplink,
        v=o.v,
        lam=o.lam,
        budget_w=o.budget_w,
        floor=o.floor,
        data_weight=o.data_weight,
        as_printed=o.as_printed,
        start=o.start,
        scale_v=o.scale_v,
        power=None if o.power in (None, "queue") else _rule(o, "queue"),
    )


def _alike(kind: type[AbstractAlike], o: PolicyOptions, **own: Any) -> AbstractPolicy:
    return kind(
        uplink=o.uplink,
        budget_w=o.budget_w,
        data_weight=o.data_weight,
        power=None if o.power in (None, "constant") else _rule(o, "constant"),
        **own,
    )


def _uniform(o: PolicyOptions) -> AbstractPolicy:
    return _alike(Uniform, o, design=make_design(o.design, o.draws))


def _full(o: PolicyOptions) -> AbstractPolicy:
    # Everybody takes part, whatever m: queues begin at the budget itself.
    return _alike(Full, replace(o, draws=2**31))


def _choice(
    kind: Any,
    about: str,
    *options: str,
    reference: str,
    unbiased: str = "no",
    weights: str = "average over the cohort",
    needs: frozenset[Need] | None = None,
    of_data: tuple[str, ...] = (),
    **fixed: Any,
) -> PolicyInfo:
    """The line of a rule that takes options by their own names, besides those it is fixed at.

    Those ``of_data`` it takes too, but they describe the data and nobody chooses them.
    """

    def make(o: PolicyOptions) -> AbstractPolicy:
        given = {name: getattr(o, name) for name in (*options, *of_data)}
        policy: AbstractPolicy = kind(
            draws=o.draws, power=_rule(o, "constant"), data_weight=o.data_weight, **given, **fixed
        )
        return policy

    return PolicyInfo(
        make=make,
        about=about,
        needs=kind.needs if needs is None else needs,
        unbiased=unbiased,
        weights=weights,
        reference=reference,
        reads=frozenset({"draws", *options}),
    )


_HT, _HH, _COUNTED = "Horvitz-Thompson", "Hansen-Hurwitz", "count / m"
_YANG = "Yang, Liu, Quek, Poor 2020, arXiv 1908.06287"
_CHO = "Cho, Wang, Joshi 2020 ({}), arXiv 2010.01243"
_FRABONI = "Fraboni et al. 2021 (Algorithm {}), arXiv 2105.05883"
_CHEN = "Chen, Horvath, Richtarik 2022 ({}), arXiv 2010.13723"
_OWN: dict[str, PolicyInfo] = {
    "full": PolicyInfo(
        make=_full,
        about="everybody, in every round",
        needs=Full.needs,
        unbiased="yes",
        weights="shares of the data",
        reference="McMahan et al. 2017, FedAvg with C = 1",
        reads=frozenset(),
    ),
    "uniform": PolicyInfo(
        make=_uniform,
        about="all alike; designs with-replacement (the paper's), fixed-size, independent",
        needs=Uniform.needs,
        unbiased="yes",
        weights=_HT,
        reference="the paper's baseline; Li et al. 2019",
        reads=frozenset({"draws", "design"}),
    ),
    "lyapunov": PolicyInfo(
        make=_lyapunov,
        about="drift plus penalty; designs with-replacement (the paper's), independent, fixed-size",
        needs=Lyapunov.needs,
        unbiased="yes",
        weights=_HT,
        reference="the paper; INFOCOM 2022 (independent), arXiv 2201.07912",
        reads=frozenset({"draws", "design", "lam", "v", "qmin", "as_printed", "start", "scale_v"}),
        power="queue",
    ),
    "round-robin": _choice(
        RoundRobin,
        "the next m devices in turn",
        unbiased="over a cycle, not in a round",
        reference=_YANG,
    ),
    "proportional-fair": _choice(
        ProportionalFair,
        "the m gains largest against their own average",
        unbiased="over the fading, not given the channel",
        reference=_YANG,
    ),
    "best-channel": _choice(
        BestChannel,
        "the m largest gains",
        reference="Amiri, Gunduz, Kulkarni, Poor 2020 (BC)",
    ),
    "fedcs": _choice(
        FedCS,
        "as many as can upload before a deadline, fastest first",
        "deadline_s",
        "candidates",
        reference="Nishio, Yonetani 2019, arXiv 1804.08333",
    ),
    "fairness-queue": _choice(
        FairnessQueue,
        "fast devices and those that have waited",
        reference="Huang et al. 2020 (RBCS-F), in the style of",
    ),
    "adaptive-sampling": _choice(
        AdaptiveSampling,
        "m draws with replacement, by largest update / root of the mean upload time",
        needs=frozenset({Need.GAIN, Need.STALE}),
        unbiased="yes",
        weights=_HH,
        reference="Luo et al. 2022, arXiv 2112.11256",
    ),
    "power-of-choice": _choice(
        PowerOfChoice,
        "the m largest losses among d devices that are asked",
        "candidates",
        reference=_CHO.format("pow-d"),
    ),
    "power-of-choice-cheap": _choice(
        PowerOfChoice,
        "power-of-choice by the loss of one minibatch",
        "candidates",
        reference=_CHO.format("cpow-d"),
        measure="batch-loss",
    ),
    "power-of-choice-stale": _choice(
        StalePowerOfChoice,
        "power-of-choice by the loss of a device's last training; nobody is asked",
        "candidates",
        reference=_CHO.format("rpow-d"),
    ),
    "clustered-sizes": _choice(
        Clustered,
        "one draw from each of m strata by data size",
        needs=frozenset(),
        unbiased="yes",
        weights=_COUNTED,
        reference=_FRABONI.format(1),
    ),
    "clustered-similarity": _choice(
        Clustered,
        "one draw from each of m clusters of similar updates",
        needs=frozenset({Need.STALE}),
        unbiased="yes",
        weights=_COUNTED,
        reference=_FRABONI.format(2),
        similar=True,
    ),
    "active-fl": _choice(
        ActiveFL,
        "a softmax of the losses seen last, some at random",
        reference="Goetz et al. 2019, arXiv 1909.12641",
        of_data=("samples",),
    ),
    "importance-channel": _choice(
        ImportanceChannel,
        "draws by update norm over the root of upload time",
        "rho",
        unbiased="yes",
        weights="Des Raj",
        reference="Ren et al. 2020, arXiv 2004.00490",
    ),
    "norm-threshold": _choice(
        NormThreshold,
        "who has a large update sends it; the others count as the mean of those",
        reference="in the style of Ribero, Vikalo 2020, arXiv 2007.15197",
    ),
    "ocs": _choice(
        OptimalSampling,
        "independent coins by update norm, of least variance",
        unbiased="yes",
        weights=_HT,
        reference=_CHEN.format("OCS"),
    ),
    "aocs": _choice(
        OptimalSampling,
        "OCS from sums of norms alone",
        unbiased="yes",
        weights=_HT,
        reference=_CHEN.format("AOCS"),
        approximate=True,
    ),
    "oort": _choice(
        Oort,
        "loss seen last times speed, with exploration",
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
    """The line of that name, of this package or of one that plugs in."""
    if name in _OWN:
        return _OWN[name]
    point = _plugged().get(name)
    if point is None:
        raise UnknownNameError("policy", name, policy_names())
    found = point.load()
    if not isinstance(found, PolicyInfo):
        raise InputError(
            f"policy: {name!r} is announced as {point.value!r}, which is a "
            f"{type(found).__name__}; it must be a fedsched.policies.PolicyInfo"
        )
    return found


def reads_of(name: str, power: str | None) -> frozenset[str]:
    """The options a policy reads with that power rule; a sweep over another repeats the run."""
    info = policy_info(name)
    rule = power or info.power
    return info.reads | {"power"} | ({"lam", "v"} if rule == "queue" else frozenset())


def make_policy(name: str, *, uplink: Uplink, draws: int, **options: Any) -> AbstractPolicy:
    """The policy of that name; the defaults are the paper's.

    Args:
        name: one of :func:`policy_names`.
        uplink: the link that is shared.
        draws: m, draws or devices a round.
        options: the other fields of :class:`PolicyOptions`.

    Example:
        >>> from fedsched.core.uplink import PAPER_UPLINK
        >>> make_policy("uniform", uplink=PAPER_UPLINK, draws=10).name
        'uniform'
    """
    known = {each.name for each in fields(PolicyOptions)}
    for option in options:
        if option not in known:
            raise UnknownNameError("option", option, known)
    return policy_info(name).make(PolicyOptions(uplink=uplink, draws=draws, **options))
