"""Runs that differ in their seed alone belong together; what else differs names the groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedsched.results.analysis import Reach, curve_of, reach, speedup
from fedsched.results.runlog import RunLog

__all__ = ["Group", "group_runs", "mean_reach", "summary_rows"]

# How fields of a scenario are written in labels; others by their own names.
_SHORT = {
    "policy.kind": "{}",
    "policy.draws": "m={:g}",
    "policy.lam": "λ={:g}",
    "policy.v": "V={:g}",
    "policy.design": "{}",
    "policy.qmin": "qmin={:g}",
    "data.alpha": "α={}",
    "data.name": "{}",
    "channel.kind": "{}",
}
# Fields that do not tell configurations apart.
_IGNORED = frozenset({"run.seed", "run.rounds", "run.eval_every", "run.checkpoint_every"})
# Fields a policy does not read, so that a sweep over them does not name it.
_UNREAD = {
    "uniform": frozenset({"policy.lam", "policy.v", "policy.as_printed", "policy.qmin"}),
    "full": frozenset({"policy.lam", "policy.v", "policy.as_printed", "policy.qmin",
                       "policy.draws", "policy.design"}),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """One configuration, with a run for each seed, in the order of seeds."""

    label: str
    fields: Mapping[str, Any]  # of the scenario, by dotted name
    logs: Sequence[RunLog]

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs."""
        return [log.manifest["scenario"]["run"]["seed"] for log in self.logs]


def _flat(log: RunLog) -> dict[str, Any]:
    scenario = log.manifest["scenario"]
    return {f"{part}.{name}": v for part, table in scenario.items() for name, v in table.items()}


def _key(fields: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    unread = _UNREAD.get(fields.get("policy.kind", ""), frozenset())
    return tuple(sorted((k, v) for k, v in fields.items() if k not in _IGNORED and k not in unread))


def group_runs(logs: Iterable[RunLog]) -> list[Group]:
    """Group logs by configuration; labels name only what differs between the groups."""
    groups: dict[tuple[tuple[str, Any], ...], list[RunLog]] = {}
    for log in logs:
        groups.setdefault(_key(_flat(log)), []).append(log)
    keys = [dict(key) for key in groups]
    names = sorted({name for key in keys for name in key})
    varying = [name for name in names if len({repr(key.get(name)) for key in keys}) > 1]
    order = [name for name in _SHORT if name in varying]
    order += [name for name in varying if name not in _SHORT]
    if "policy.kind" not in order:
        order = ["policy.kind", *order]
    result = []
    for key, members in groups.items():
        fields = dict(key)
        label = " ".join(_written(name, fields[name]) for name in order if name in fields)
        members.sort(key=lambda log: int(log.manifest["scenario"]["run"]["seed"]))
        result.append(Group(label=label, fields=fields, logs=tuple(members)))
    return sorted(result, key=lambda group: group.label)


def _written(name: str, value: Any) -> str:
    form = _SHORT.get(name, name.partition(".")[2] + "={}")
    try:
        return form.format(value)
    except ValueError:
        return form.replace(":g", "").format(value)


def mean_reach(group: Group, target: float, *, patience: int = 1) -> Reach | None:
    """When the group reaches a target on average; None if one of its seeds never does."""
    reached = [reach(curve_of(log), target, patience=patience) for log in group.logs]
    known = [each for each in reached if each is not None]
    if len(known) < len(reached) or not known:
        return None
    return Reach(
        airtime_s=fmean(each.airtime_s for each in known),
        rounds=fmean(each.rounds for each in known),
    )


def summary_rows(
    groups: Sequence[Group], target: float, *, computation_s: float = 0.0, patience: int = 1
) -> list[dict[str, Any]]:
    """One row a group, ready for a data frame; a group that never arrives has None.

    The speed-up is over the uniform group that has the same fields otherwise, seed by seed.
    """
    rows = []
    for group in groups:
        reached = mean_reach(group, target, patience=patience)
        gain = _against_uniform(group, groups, target, computation_s, patience)
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
                "airtime_s_per_round": fmean(log.column("airtime_s").mean() for log in group.logs),
                "devices_per_round": fmean(
                    fmean(len(devices) for devices in log.lists("device")) for log in group.logs
                ),
                "best_accuracy": fmean(float(curve_of(log).value.max()) for log in group.logs),
            }
        )
    return rows


def _against_uniform(
    group: Group, groups: Sequence[Group], target: float, computation_s: float, patience: int
) -> Any:
    if group.fields.get("policy.kind") == "uniform":
        return None
    unread = _UNREAD["uniform"] | {"policy.kind"}
    wanted = {name: value for name, value in group.fields.items() if name not in unread}
    for other in groups:
        rest = {name: value for name, value in other.fields.items() if name != "policy.kind"}
        if other.fields.get("policy.kind") == "uniform" and rest == wanted:
            pairs = [
                (reach(curve_of(theirs), target, patience=patience),
                 reach(curve_of(ours), target, patience=patience))
                for seed, ours in zip(group.seeds, group.logs, strict=True)
                for other_seed, theirs in zip(other.seeds, other.logs, strict=True)
                if seed == other_seed
            ]  # fmt: skip
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            if not known or len(known) < len(pairs):
                return None
            return speedup(
                [a.time_s(computation_s) for a, _ in known],
                [b.time_s(computation_s) for _, b in known],
            )
    return None
