"""What the page of a report shows, as plain values for JSON.

What its sliders ask for (when was a target reached, for any target and any computation time) is
answered in the browser from ``reach_steps``, which keep every digit; only what is drawn is thinned.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.analysis.arrival import ARRIVAL, ArrivalProtocol, reach_steps
from fedsched.analysis.best import is_baseline, policy_name, suited_range_s
from fedsched.analysis.collect import Collection, GoodRun
from fedsched.analysis.curves import Curve, averaged, thinned
from fedsched.analysis.groups import Group, baseline_of, group_runs, summary_rows
from fedsched.analysis.speedup import student_975
from fedsched.analysis.times import scenario_times_s
from fedsched.analysis.wall import on_the_wall, walls_s
from fedsched.checks import number_within
from fedsched.errors import RunLogError
from fedsched.views.figures import PALETTE
from fedsched.views.looks import Look, looks, svg_dash

__all__ = ["report_payload"]

Values = NDArray[np.float64]

_DRAWN = 500  # points of a curve
_POWER_POINTS = 120
_STEPS = 1000  # of a run; where it has more, targets are answered to four decimals
_DEVICE_BINS = 400


def report_payload(
    found: Collection[GoodRun],
    *,
    target: float | None = None,
    protocol: ArrivalProtocol = ARRIVAL,
    title: str = "Time to accuracy",
    slower: float = 1.0,
) -> dict[str, Any]:
    """Everything the page shows, as plain values for JSON.

    Args:
        found: the runs, and what was left out.
        target: test accuracy the page opens with, in every environment where a configuration
            reaches it; elsewhere, or if None, the highest hundredth that every configuration of
            the environment reaches, but no lower than four fifths of the best.
        protocol: what counts as having reached a target.
        title: heading of the page.
        slower: devices compute for so many times as long; the page opens at as many times the
            computation time of the scenarios: that of most runs, where they differ.
    """
    if target is not None:
        number_within("target", target, "(0, 1]", "it is a test accuracy, such as 0.8 or 80%")
    if not found.runs:
        lines = "".join(f"\n  {each.name}: {each.reason}" for each in found.left_out)
        raise RunLogError(
            f"there is no run to report; name a folder that fedsched run or demo made{lines}"
        )
    run_of = {id(run.log): run for run in found.runs}
    logs = [run.log for run in found.runs]
    groups = sorted(group_runs(logs), key=lambda each: _natural(each.label))
    # Sliders move none of the three means that are taken from these rows.
    rows = summary_rows(groups, 1.0, protocol)
    parts = [
        {**_group(group, [run_of[id(log)] for log in group.logs], groups, row, protocol),
         "looks": drawn}
        for group, row, drawn in zip(groups, rows, _looks(groups), strict=True)
    ]  # fmt: skip
    environments = list(dict.fromkeys(str(part["environment"]) for part in parts))
    inside = {
        name: [part for part in parts if part["environment"] == name] for name in environments
    }
    first = groups[0].fields
    common = [k for k in first if all(k in g.fields and g.fields[k] == first[k] for g in groups)]
    return {
        "title": title,
        "protocol": {"name": protocol.name, "in_words": protocol.in_words},
        # Of Student's distribution, by the degrees of freedom from 1 on.
        "quantiles": [student_975(k) for k in range(1, max(len(g.logs) for g in groups))],
        # Where runs differ in it, the page opens at what most have, and of equals at the least.
        "computation_s": slower * max(sorted(own := scenario_times_s(logs)), key=own.__getitem__),
        "scenario_times_s": sorted(own),
        "environment": max(environments, key=lambda name: len(inside[name])),
        "environments": [
            {"name": name, "target": _target(inside[name], target)} for name in environments
        ],
        "target": _target(parts, target),  # where all environments are shown at once
        "asked_target": target,
        "common": sorted(common),
        "groups": parts,
        "left_out": [{"name": each.name, "reason": each.reason} for each in found.left_out],
    }


def _natural(label: str) -> list[tuple[bool, float, str]]:
    """An order in which m=5 comes before m=10."""
    words = re.split(r"(\d+(?:\.\d+)?)", label)
    return [(k % 2 == 0, float(w) if k % 2 else 0.0, w) for k, w in enumerate(words)]


def _target(parts: Sequence[Mapping[str, Any]], wanted: float | None) -> float:
    """The target wanted, if any of these configurations reaches it; else one that most do."""
    highest = [
        min((run["steps"][2][-1] if run["steps"][2] else 0.0) for run in part["runs"])
        for part in parts
    ]
    if wanted is not None and wanted <= max(highest):
        return wanted
    found = max(min(highest), 0.8 * max(highest))
    return max(math.floor(found * 100.0 + 1e-9), 1) / 100.0


def _looks(groups: Sequence[Group]) -> list[list[dict[str, Any]]]:
    """Of each group, how it is drawn in its environment, and where all are shown at once."""
    by_choice = looks({group.choice: group for group in groups})
    by_label = looks({group.label: group for group in groups})
    return [[_look(by_choice[group.choice]), _look(by_label[group.label])] for group in groups]


def _look(look: Look) -> dict[str, Any]:
    return {
        "hue": PALETTE.index(look.hue), "white": look.white, "marker": look.marker,
        "dash": svg_dash(look.dash),
    }  # fmt: skip


def _group(
    group: Group,
    runs: Sequence[GoodRun],
    groups: Sequence[Group],
    row: Mapping[str, Any],
    protocol: ArrivalProtocol,
) -> dict[str, Any]:
    uplink = group.logs[0].manifest["scenario"].get("uplink", {})
    names, power_w = _power(group, runs)
    rounds = min(len(run.power_w) for run in runs)
    at = np.unique(np.geomspace(1, rounds, _POWER_POINTS).round().astype(np.int64))
    versions = {
        ", ".join(f"{k} {v}" for k, v in sorted(run.log.manifest["versions"].items()))
        for run in runs
    }
    return {
        "label": group.label,
        "choice": group.choice,
        "environment": group.environment,
        "kind": str(group.fields.get("policy.kind", "")),
        "policy": policy_name(group, groups),
        "is_base": is_baseline(group),
        "made_for_s": group.fields.get("policy.computation_s"),  # None: for any time
        "suits_s": suited_range_s(group),
        "baseline": _uniform_of(group, groups),
        "airtime_s_per_round": row["airtime_s_per_round"],
        "feedback_s_per_round": row["feedback_s_per_round"],
        "devices_per_round": row["devices_per_round"],
        "upload_bits": row["upload_bits"],
        "omega": row["omega"],
        "budgets": row["budgets"],
        "best_accuracy": row["best_accuracy"],
        **on_the_wall(group.logs),
        "budget_w": _number(uplink.get("budget_w")) if names else None,
        "power": {
            "names": names,
            "rounds": at.tolist(),
            "mean_w": [_short(power_w[at - 1, k]) for k in range(power_w.shape[1])],
        },
        "selection": _selection(group, runs),
        "sizes": _short(_mean_padded([run.sizes for run in runs])),
        "fields": {name: _text(value) for name, value in sorted(group.fields.items())},
        "versions": sorted(versions),
        "runs": [_run(run, protocol) for run in runs],
    }


def _run(run: GoodRun, protocol: ArrivalProtocol) -> dict[str, Any]:
    steps = _to_four_decimals(reach_steps(run.accuracy, protocol))
    return {
        "name": run.name,
        "seed": int(run.log.manifest["scenario"]["run"]["seed"]),
        "rounds": run.log.rounds,
        "ended": _ended(run, steps),
        "steps": [
            steps.rounds.astype(np.int64).tolist(),
            steps.airtime_s.tolist(),
            steps.value.tolist(),
            walls_s(run.log, steps.rounds),
        ],
        "accuracy": _drawn(run.accuracy),
        "loss": _drawn(run.loss),
        "training": _drawn(run.training_loss),
    }


def _to_four_decimals(steps: Curve) -> Curve:
    """Of very many steps those that are the first at a target of four decimals, and the last."""
    if len(steps.value) <= _STEPS:
        return steps
    # On both sides of what rounding may do to a level that is such a target.
    levels = [np.floor(1e4 * steps.value + edge) for edge in (0.0, 1e-6)]
    first = [np.diff(each, prepend=-1.0) > 0.0 for each in levels]
    kept = first[0] | first[1]
    kept[-1] = True
    few = steps.at(kept)
    # Ten digits of a second, and levels of six decimals, none of them too high.
    airtime_s = np.array([float(f"{each:.10g}") for each in few.airtime_s])
    return replace(few, airtime_s=airtime_s, value=np.floor(1e6 * few.value + 1e-3) / 1e6)


def _ended(run: GoodRun, steps: Curve) -> str:
    """How a run came to its end: after all its rounds, at its target, or not yet."""
    asked = run.log.manifest["scenario"]["run"]
    planned, target = asked.get("rounds", run.log.rounds), asked.get("stop_accuracy")
    if run.log.finished and (target is None or run.log.rounds >= planned):
        return "finished"
    if target is not None and (run.log.finished or (steps.value >= target).any()):
        return f"stopped at its target {target:g}"
    return f"unfinished, after {run.log.rounds} of {planned} rounds"


def _drawn(curve: Curve) -> dict[str, list[list[float]] | None]:
    """Points of the thin line of a seed, and of what the mean over seeds is made from."""
    each = [
        [_short(part.rounds), _short(part.airtime_s), _short(part.value)]
        for part in (thinned(curve, _DRAWN), averaged(curve, _DRAWN))
    ]
    return {"each": each[0], "mean": None if each[0] == each[1] else each[1]}


def _uniform_of(group: Group, groups: Sequence[Group]) -> int | None:
    """The place of the uniform group that this one is compared with."""
    baseline = baseline_of(group, groups)
    return None if baseline is None else list(groups).index(baseline)


def _devices(group: Group, runs: Sequence[GoodRun]) -> int:
    given = group.fields.get("channel.devices")
    seen = max(len(run.selected) for run in runs)
    return max(given, seen) if isinstance(given, int) else seen


def _power(group: Group, runs: Sequence[GoodRun]) -> tuple[list[str], Values]:
    """Names of the groups of devices, and their running average power, mean over seeds.

    Both are empty where nobody knows the powers.
    """
    columns = min(run.power_w.shape[1] for run in runs)
    if columns == 0:  # nobody knows the powers
        return [], np.empty((len(runs[0].power_w), 0))
    rounds = min(len(run.power_w) for run in runs)
    mean_w = np.mean([run.power_w[:rounds, :columns] for run in runs], axis=0)
    parts = np.array_split(np.arange(max(_devices(group, runs), columns)), columns)
    names = [
        f"device {part[0]}" if len(part) == 1 else f"devices {part[0]} to {part[-1]}"
        for part in parts
    ]
    return names, np.asarray(mean_w)


def _selection(group: Group, runs: Sequence[GoodRun]) -> dict[str, list[float]]:
    """How often each device took part, mean over seeds; many devices in bins of neighbours."""
    devices = max(_devices(group, runs), 1)
    share = _mean_padded([run.selected / run.log.rounds for run in runs], devices)
    bins = np.array_split(np.arange(devices), min(devices, _DEVICE_BINS))
    return {
        "device": [float(part.mean()) for part in bins],
        "share": _short(np.array([share[part].mean() for part in bins])),
    }


def _mean_padded(rows: Sequence[Values], size: int = 0) -> Values:
    longest = max(size, *(len(row) for row in rows))
    return np.asarray(np.mean([np.pad(row, (0, longest - len(row))) for row in rows], axis=0))


def _short(values: Values) -> list[float]:
    """Six digits, enough to draw."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _text(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
