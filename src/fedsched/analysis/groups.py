"""Runs that differ in their seed alone belong together; what else differs names the groups."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedsched.analysis.arrival import ACCURACY, ARRIVAL, ArrivalProtocol, Measure, Reach
from fedsched.analysis.comparison import usage
from fedsched.analysis.curves import curve_of
from fedsched.analysis.speedup import Speedup, speedup
from fedsched.runs.manifest import common_computation_s
from fedsched.runs.runlog import RunLog
from fedsched.solve.uplink import PAPER_UPLINK

__all__ = [
    "Group",
    "baseline_of",
    "group_runs",
    "mean_of",
    "mean_reach",
    "paired_speedup",
    "seed_reaches",
    "summary_rows",
]

# How fields of a scenario are written in labels; others by their own names.
_SHORT = {
    "policy.kind": "{}",
    "policy.draws": "m={:g}",
    "policy.lam": "λ={:g}",
    "policy.v": "V={:g}",
    "policy.computation_s": "c={:g}",
    "policy.design": "{}",
    "policy.qmin": "qmin={:g}",
    "data.alpha": "α={:g}",
    "data.name": "{}",
    "channel.kind": "{}",
}
# What a configuration is exposed to rather than chooses: only within it are times comparable.
_ENVIRONMENT = (
    "budgets.", "channel.", "data.", "fleet.", "uplink.",
    "knowledge.error_db", "knowledge.late_rounds", "knowledge.loss",
)  # fmt: skip
# Policies that plan with the computation time, so that their rounds do depend on it.
_PLANNERS = frozenset({"auto", "fdma-energy", "incomplete-work"})
_COMPUTATION, _SPREAD = "uplink.computation_s", "uplink.computation_spread"
# Fields that do not tell configurations apart.
_IGNORED = frozenset(
    f"run.{name}"
    for name in ("seed", "rounds", "eval_every", "checkpoint_every", "stop_accuracy", "stop_after")
) | {_COMPUTATION}  # rounds do not depend on it but where a policy plans with it

_MARK = 12  # characters of a checksum that tell files apart

# Who names this size says what is so without it: 32 bits for each parameter.
_USUAL_SIZE = {
    "data.name": "cifar10",
    "training.model": "paper-cnn",
    "uplink.bits": float(PAPER_UPLINK.bits),
}

# Fields that came after the first logs were written, with what every run did before.
_LATER = {
    "training.aggregator": "sum",
    "training.bounds": "off",
    "training.average_rounds": 1,
    "training.compress": "none",
    "uplink.feedback_bits": 64.0,
    "uplink.computation_spread": 0.0,
    "uplink.blocks": 100,
    "budgets.circuit_w": 0.0,
    "budgets.compute_j": 0.0,
    "knowledge.late_rounds": 0,
    "knowledge.error_db": 0.0,
    "knowledge.resend": False,
    "knowledge.loss": 0.0,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """One configuration, with a run for each seed, in the order of seeds."""

    choice: str  # what differs between groups of the policy and the training
    environment: str  # what differs between groups of the channel, the data and the uplink
    fields: Mapping[str, Any]  # of the scenario that tell it from others, by dotted name
    unread: frozenset[str]  # fields its policy does not read
    logs: Sequence[RunLog]

    @property
    def label(self) -> str:
        """Tells it from the other groups."""
        return f"{self.choice} {self.environment}".rstrip()

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs."""
        return [log.manifest["scenario"]["run"]["seed"] for log in self.logs]


def _flat(log: RunLog) -> dict[str, Any]:
    scenario = log.manifest["scenario"]
    known = {*scenario, "budgets", "knowledge"}  # sections that early logs do not have
    later: dict[str, Any] = {
        name: value for name, value in _LATER.items() if name.partition(".")[0] in known
    }
    if "trace" in log.manifest:  # two files may have one name
        later["channel.trace"] = log.manifest["trace"]["sha256"][:_MARK]
    if scenario["policy"]["kind"] in _PLANNERS:
        later["policy.computation_s"] = common_computation_s(log.manifest)
    found = later | {
        f"{part}.{name}": tuple(value) if isinstance(value, list) else value
        for part, table in scenario.items()
        for name, value in table.items()
    }
    if _USUAL_SIZE.items() <= found.items():
        del found["uplink.bits"]
    if "fleet.sha256" in found:  # its numbers are fields; the name of the file tells nothing more
        found["fleet.sha256"] = found["fleet.sha256"][:_MARK]
        del found["fleet.file"]
    return found


def _reader(log: RunLog) -> tuple[Any, Any]:
    """What decides which fields of a scenario are read."""
    policy = log.manifest["scenario"]["policy"]
    return policy["kind"], policy.get("power")


def _unread(log: RunLog, said: Mapping[tuple[Any, Any], Sequence[str]]) -> frozenset[str]:
    """What its policy does not read; an early log does not say it, others of the policy may."""
    return frozenset(log.manifest.get("unread", said.get(_reader(log), ())))


def _key(log: RunLog, unread: frozenset[str]) -> tuple[tuple[str, Any], ...]:
    flat = _flat(log)
    left_out = _IGNORED | unread
    if isinstance(flat.get(_COMPUTATION), tuple) or flat.get(_SPREAD):
        left_out -= {_COMPUTATION}  # what is one device's own is in the rounds
    return tuple(sorted((k, v) for k, v in flat.items() if k not in left_out))


def group_runs(logs: Iterable[RunLog]) -> list[Group]:
    """Group logs by configuration; labels name only what differs between the groups."""
    logs = list(logs)
    said = {_reader(log): log.manifest["unread"] for log in logs if "unread" in log.manifest}
    groups: dict[tuple[tuple[str, Any], ...], list[RunLog]] = {}
    for log in logs:
        groups.setdefault(_key(log, _unread(log, said)), []).append(log)
    keys = [dict(key) for key in groups]
    names = sorted({name for key in keys for name in key})
    varying = [name for name in names if len({repr(k[name]) for k in keys if name in k}) > 1]
    order = [name for name in _SHORT if name in varying]
    order += [name for name in varying if name not in _SHORT]
    if "policy.kind" not in order:
        order = ["policy.kind", *order]
    result = []
    for key, members in groups.items():
        fields = dict(key)
        words: dict[bool, list[str]] = {True: [], False: []}
        for name in order:
            if name in fields:
                words[name.startswith(_ENVIRONMENT)].append(_written(name, fields[name]))
        if members[0].manifest.get("biased"):
            words[False].append("(biased)")
        members.sort(key=lambda log: int(log.manifest["scenario"]["run"]["seed"]))
        result.append(
            Group(
                choice=" ".join(words[False]),
                environment=" ".join(words[True]),
                fields=fields,
                unread=_unread(members[0], said),
                logs=tuple(members),
            )
        )
    return sorted(result, key=lambda group: [_sortable(group.fields.get(n)) for n in order])


def _sortable(value: Any) -> tuple[str, float, str]:
    """Numbers by size, texts by letter, whatever is compared with what."""
    if isinstance(value, int | float):
        return "number", float(value), ""
    return "text", 0.0, str(value)


def _written(name: str, value: Any) -> str:
    form = _SHORT.get(name, name.partition(".")[2] + "={}")
    value = "∞" if value in ("inf", math.inf) else value
    if isinstance(value, tuple):  # one for each device: their range, and a mark
        mark = hashlib.sha256(repr(value).encode()).hexdigest()[:6]
        value = f"{min(value):g}-{max(value):g}#{mark}"
    try:
        return form.format(value)
    except ValueError:
        return form.replace(":g", "").format(value)


def seed_reaches(
    group: Group,
    target: float,
    protocol: ArrivalProtocol = ARRIVAL,
    *,
    measure: Measure = ACCURACY,
) -> list[Reach]:
    """When each seed of the group reaches a target; none if one of them never does."""
    reached = [measure.reach(log, target, protocol) for log in group.logs]
    known = [each for each in reached if each is not None]
    return known if len(known) == len(reached) else []


def mean_of(reaches: Sequence[Reach]) -> Reach | None:
    """The mean of some arrivals; None if there are none."""
    if not reaches:
        return None
    return Reach(
        airtime_s=fmean(each.airtime_s for each in reaches),
        rounds=fmean(each.rounds for each in reaches),
    )


def mean_reach(
    group: Group,
    target: float,
    protocol: ArrivalProtocol = ARRIVAL,
    *,
    measure: Measure = ACCURACY,
) -> Reach | None:
    """When the group reaches a target on average; None if one of its seeds never does."""
    return mean_of(seed_reaches(group, target, protocol, measure=measure))


def summary_rows(
    groups: Sequence[Group],
    target: float,
    protocol: ArrivalProtocol = ARRIVAL,
    *,
    computation_s: float = 0.0,
) -> list[dict[str, Any]]:
    """One row a group, ready for a data frame; a group that never arrives has None.

    The speed-up is over the uniform group that has the same fields otherwise, seed by seed.
    """
    rows = []
    for group in groups:
        reached = mean_reach(group, target, protocol)
        base = baseline_of(group, groups)
        gain = None if base is None else paired_speedup(
            base, group, target, computation_s=computation_s, protocol=protocol
        )  # fmt: skip
        rows.append(
            {
                "configuration": group.label,
                "seeds": len(group.logs),
                "target": target,
                "computation_s": computation_s,
                "seconds_to_target": None if reached is None else reached.time_s(computation_s),
                "airtime_s_to_target": None if reached is None else reached.airtime_s,
                "rounds_to_target": None if reached is None else reached.rounds,
                "speedup": None if gain is None else gain.ratio,
                "speedup_low": None if gain is None else gain.low,
                "speedup_high": None if gain is None else gain.high,
                **usage(group.logs),
                "best_accuracy": fmean(float(curve_of(log).value.max()) for log in group.logs),
            }
        )
    return rows


def paired_speedup(
    slow: Group,
    fast: Group,
    *targets: float,
    computation_s: float = 0.0,
    protocol: ArrivalProtocol = ARRIVAL,
    measure: Measure = ACCURACY,
) -> Speedup | None:
    """How many times sooner ``fast`` reaches a target, over the seeds that both have.

    Of several targets it is the geometric mean: where a flat curve crosses one target is luck,
    which evens out over many. See :func:`fedsched.analysis.speedup.speedup` for its interval.

    None if they share no seed, or if one of these runs has not reached a target: a mean over
    those that have would be a mean over the quick ones.
    """

    def arrivals_s(log: RunLog) -> list[float]:
        """The times to the targets, of those that were reached after somebody sent."""
        reached = [measure.reach(log, target, protocol) for target in targets]
        times_s = [each.time_s(computation_s) for each in reached if each is not None]
        return [each for each in times_s if each > 0.0]  # of no time there is no ratio

    theirs = dict(zip(slow.seeds, slow.logs, strict=True))
    shared = [seed for seed in fast.seeds if seed in theirs]
    ours = dict(zip(fast.seeds, fast.logs, strict=True))
    baseline_s = [arrivals_s(theirs[seed]) for seed in shared]
    ours_s = [arrivals_s(ours[seed]) for seed in shared]
    if not shared or any(len(each) < len(targets) for each in (*baseline_s, *ours_s)):
        return None
    return speedup(baseline_s, ours_s)


def baseline_of(group: Group, groups: Sequence[Group]) -> Group | None:
    """The uniform group that is like this one in all that uniform reads."""
    if group.fields.get("policy.kind") == "uniform":
        return None
    for other in groups:
        # A field of the policy that one of the two does not have cannot tell them apart.
        shared = {
            n for n in group.fields.keys() | other.fields.keys() if not _one_sided(n, group, other)
        }
        names = shared - other.unread - {"policy.kind"}
        same = all(group.fields.get(n) == other.fields.get(n) for n in names)
        if other.fields.get("policy.kind") == "uniform" and same:
            return other
    return None


def _one_sided(name: str, group: Group, other: Group) -> bool:
    return name.startswith("policy.") and not (name in group.fields and name in other.fields)
