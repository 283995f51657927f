"""Best against best: every policy with the configuration that suits it, by computation time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from fedsched.analysis.arrival import ACCURACY, ARRIVAL, ArrivalProtocol, Measure, Reach
from fedsched.analysis.groups import Group, mean_reach, paired_speedup
from fedsched.analysis.speedup import Speedup

__all__ = [
    "Best",
    "OtherTimes",
    "best_against_best",
    "is_baseline",
    "made_for_other_times",
    "policy_name",
    "suited_range_s",
]

_BASELINE = ("uniform", "none")  # devices are drawn uniformly, and send all their bits
Arrivals = Mapping[Group, tuple[Reach, ...] | None]  # a place for each target, if all are reached


@dataclass(frozen=True, kw_only=True)
class Best:
    """The configuration of a policy that is the quickest at a computation time."""

    environment: str
    computation_s: float
    configuration: str
    seeds: tuple[int, ...]
    reached: tuple[Reach, ...]  # a place for each target
    sooner: tuple[Speedup | None, ...]  # than the best of uniform; None for that one itself
    sooner_overall: Speedup | None  # the geometric mean over the targets


@dataclass(frozen=True, kw_only=True)
class OtherTimes:
    """A policy that plans with the computation time, and times that no run of it was made for."""

    environment: str
    policy: str
    computations_s: tuple[float, ...]
    made_for_s: tuple[float, ...]  # what its runs were made for


def best_against_best(
    groups: Sequence[Group],
    targets: Sequence[float],
    computations_s: Sequence[float],
    *,
    protocol: ArrivalProtocol = ARRIVAL,
    measure: Measure = ACCURACY,
) -> list[Best]:
    """The best configuration of each policy, with hindsight, in every environment.

    It has the least geometric mean of the times to the targets. Updates that are compressed in
    another way make another policy. A configuration that plans with the computation time takes part
    where it was made for at least half and at most twice that time. Of those of a policy that are
    left, the ones with the most seeds take part, if they reach all targets with all of them.
    """
    policies: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        policies.setdefault((group.environment, *_policy(group)), []).append(group)
    arrivals = {each: _reached(each, targets, protocol, measure) for each in groups}
    found = []
    for computation_s in computations_s:
        firsts = {
            group: reached
            for each in policies.values()
            for group, reached in _first(each, arrivals, computation_s)
        }
        for group, reached in firsts.items():
            here = [each for each in firsts if each.environment == group.environment]
            base = next(filter(is_baseline, here), None)
            gain = partial(
                _gain, base, group, computation_s=computation_s, protocol=protocol, measure=measure
            )
            found.append(
                Best(
                    environment=group.environment,
                    computation_s=computation_s,
                    configuration=group.choice,
                    seeds=tuple(group.seeds),
                    reached=reached,
                    sooner=tuple(map(gain, targets)),
                    sooner_overall=gain(*targets),
                )
            )
    return found


def made_for_other_times(
    groups: Sequence[Group], computations_s: Sequence[float]
) -> list[OtherTimes]:
    """The policies that have runs, but none that was made for about some of these times."""
    policies: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        policies.setdefault((group.environment, policy_name(group, groups)), []).append(group)
    return [
        OtherTimes(
            environment=environment,
            policy=policy,
            computations_s=missed_s,
            made_for_s=tuple(sorted({each.fields["policy.computation_s"] for each in own})),
        )
        for (environment, policy), own in policies.items()
        if (missed_s := tuple(c for c in computations_s if not any(_suits(g, c) for g in own)))
    ]


def policy_name(group: Group, groups: Sequence[Group]) -> str:
    """What tells its policy from others: its kind and, where that differs, the compression."""
    kind, sent = _policy(group)
    alike = {_policy(each) for each in groups if _policy(each)[0] == kind}
    return kind if len(alike) == 1 else f"{kind} compress={sent}"


def is_baseline(group: Group) -> bool:
    """Whether it is one of those that the best of all policies are compared with."""
    return _policy(group) == _BASELINE


def suited_range_s(group: Group) -> tuple[float, float] | None:
    """The least and the greatest computation time that it suits; None if it suits any."""
    made_for_s = group.fields.get("policy.computation_s")
    return None if made_for_s is None else (0.5 * made_for_s, 2.0 * made_for_s)


def _policy(group: Group) -> tuple[str, str]:
    """Its kind, and how updates are compressed."""
    sent = group.fields.get("training.compress", "none")
    return str(group.fields.get("policy.kind")), str(sent)


def _reached(
    group: Group, targets: Sequence[float], protocol: ArrivalProtocol, measure: Measure
) -> tuple[Reach, ...] | None:
    """When all its seeds reach each of the targets; None if one does not."""
    reached = [mean_reach(group, goal, protocol, measure=measure) for goal in targets]
    known = tuple(each for each in reached if each is not None)
    return known if len(known) == len(targets) else None


def _suits(group: Group, computation_s: float) -> bool:
    """Whether it was made for about that computation time, or for any."""
    suited_s = suited_range_s(group)
    return suited_s is None or suited_s[0] <= computation_s <= suited_s[1]


def _first(
    groups: Sequence[Group], arrivals: Arrivals, computation_s: float
) -> list[tuple[Group, tuple[Reach, ...]]]:
    """The quickest of those that suit and have the most seeds; none if no such one arrives."""
    suited = [each for each in groups if _suits(each, computation_s)]
    most = max((len(each.logs) for each in suited), default=0)
    known = [
        (each, reached)
        for each in suited
        if len(each.logs) == most and (reached := arrivals[each]) is not None
    ]
    known.sort(key=lambda each: prod(one.time_s(computation_s) for one in each[1]))
    return known[:1]


def _gain(base: Group | None, group: Group, *targets: float, **asked: Any) -> Speedup | None:
    """How many times sooner than another; None if it is that one, or if there is none."""
    if base is None or base is group:
        return None
    return paired_speedup(base, group, *targets, **asked)
