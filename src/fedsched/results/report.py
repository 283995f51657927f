"""One page from run logs: curves, speed-ups and the envelope, redrawn in the browser.

The page is a pure function of the logs: the same logs give the same bytes. What its sliders ask
for (when was a target reached, for any target and any computation time) is answered in the
browser from :func:`reach_steps`, which keeps every digit; only what is drawn is thinned.
"""

import base64
import hashlib
import html
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.core.checks import whole_number
from fedsched.errors import InputError, MissingExtraError, RunLogError
from fedsched.results.analysis import Curve, curve_of
from fedsched.results.figures import PALETTE
from fedsched.results.files import atomic_path, output_path
from fedsched.results.groups import Group, group_runs, summary_rows
from fedsched.results.runlog import MANIFEST, ROUNDS, RunLog, read_run

__all__ = [
    "Collection",
    "GoodRun",
    "LeftOut",
    "Report",
    "collect_runs",
    "reach_steps",
    "report_page",
    "report_payload",
    "thinned",
    "write_report",
]

Values = NDArray[np.float64]

PATIENCE = 3  # measurements a crossing must last, unless asked otherwise
_DRAWN = 500  # points of a curve
_POWER_POINTS = 120
_DEVICE_BINS = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class GoodRun:
    """A run that can be shown, with what is counted over its rounds."""

    name: str  # its folder, below what all runs have in common
    log: RunLog
    accuracy: Curve
    loss: Curve  # empty where it was never measured
    selected: Values  # rounds each device took part in, up to the last device seen
    sizes: Values  # share of rounds with 0, 1, 2, ... devices
    power_w: Values  # running average by round and group of devices


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A folder that is not in the report, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """What was found below the folders asked for."""

    runs: Sequence[GoodRun]
    left_out: Sequence[LeftOut]


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report as it was written."""

    path: Path
    runs: int
    configurations: int
    left_out: Sequence[LeftOut]


def write_report(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    target: float | None = None,
    patience: int = PATIENCE,
    title: str = "Time to accuracy",
) -> Report:
    """Write the report of all runs in and below some folders; see :func:`report_payload`."""
    place = output_path("output", output, (".html", ".htm"))
    found = collect_runs(paths)
    payload = report_payload(found, target=target, patience=patience, title=title)
    with atomic_path(place) as aside:
        aside.write_bytes(report_page(payload))
    return Report(
        path=place,
        runs=sum(len(group["runs"]) for group in payload["groups"]),
        configurations=len(payload["groups"]),
        left_out=found.left_out,
    )


def collect_runs(paths: Sequence[str | Path]) -> Collection:
    """Read every run in and below some folders; what cannot be shown is named, with the reason.

    Of runs with one scenario and one seed the longest stays: counted twice, it would make
    intervals look narrower than they are.
    """
    folders: dict[Path, Path] = {}
    left_out: list[LeftOut] = []
    for given in map(Path, paths):
        if not given.is_dir():
            raise InputError(
                f"runs: there is no folder {str(given)!r}; name run folders, or folders of them"
            )
        below = list(_run_folders(given))
        folders.update((each.resolve(), each) for each in below)
        if not below:
            left_out.append(LeftOut(name=str(given), reason="there is no run in this folder"))
    parents = [str(place.parent) for place in folders]
    top = Path(os.path.commonpath(parents)) if parents else Path()
    names = {place: place.relative_to(top).as_posix() for place in folders}
    runs: dict[str, GoodRun] = {}
    for place in sorted(folders, key=names.__getitem__):
        try:
            run = _good_run(names[place], read_run(place))
        except MissingExtraError:
            raise
        except Exception as error:  # whatever a foreign folder breaks, it is one line here
            reason = str(error).replace(str(place), names[place]) or type(error).__name__
            left_out.append(LeftOut(name=names[place], reason=" ".join(reason.split())))
            continue
        (alone,) = group_runs([run.log])
        key = repr((sorted(alone.fields.items()), alone.seeds))
        kept, other = run, runs.get(key)
        if other is not None:
            kept, spare = (run, other) if run.log.rounds > other.log.rounds else (other, run)
            reason = f"it has the scenario and the seed of {kept.name}, which is as long or longer"
            left_out.append(LeftOut(name=spare.name, reason=reason))
        runs[key] = kept
    return Collection(
        runs=tuple(sorted(runs.values(), key=lambda each: each.name)),
        left_out=tuple(sorted(left_out, key=lambda each: each.name)),
    )


def _run_folders(root: Path) -> Iterable[Path]:
    for place, folders, files in os.walk(root):
        folders.sort()
        if MANIFEST in files or ROUNDS in files:
            yield Path(place)


def _good_run(name: str, log: RunLog) -> GoodRun:
    """What the page shows of a run; raises if anything it needs is missing or senseless."""
    int(log.manifest["scenario"]["run"]["seed"])
    {str(key): str(value) for key, value in log.manifest["versions"].items()}
    hash(tuple(group_runs([log])[0].fields.values()))
    accuracy, loss = curve_of(log), curve_of(log, "test_loss")
    if not len(accuracy.value):
        raise RunLogError("it has no measured accuracy yet")
    if not (np.isfinite(accuracy.value).all() and np.isfinite(log.column("airtime_s")).all()):
        raise RunLogError("its accuracy or airtime holds numbers that are not finite")
    finite = np.isfinite(loss.value)
    device = log.table["device"].combine_chunks()
    count = np.bincount(device.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64))
    spent_w = log.table["group_power_w"].combine_chunks().flatten().to_numpy()
    spent_w = np.asarray(spent_w, dtype=np.float64).reshape(log.rounds, -1)
    return GoodRun(
        name=name,
        log=log,
        accuracy=accuracy,
        loss=Curve(
            rounds=loss.rounds[finite], airtime_s=loss.airtime_s[finite], value=loss.value[finite]
        ),
        selected=np.bincount(device.flatten().to_numpy().astype(np.int64)).astype(np.float64),
        sizes=count / log.rounds,
        power_w=np.cumsum(spent_w, axis=0) / np.arange(1, log.rounds + 1)[:, None],
    )


def reach_steps(curve: Curve, patience: int) -> Curve:
    r"""The points of a curve that decide when it reached any target.

    With :math:`w_i = \min(v_i, \dots, v_{i+p-1})` for patience p, a target is reached at the first
    i with :math:`w_i` at or above it, and that is always a place where w is higher than ever
    before. These places, with w as their value, thus answer for every target without loss.

    Example:
        >>> curve = Curve(rounds=np.array([1.0, 2, 3, 4]), airtime_s=np.array([2.0, 4, 6, 8]),
        ...               value=np.array([0.5, 0.9, 0.7, 0.8]))
        >>> steps = reach_steps(curve, 2)
        >>> steps.rounds.tolist(), steps.value.tolist()
        ([1.0, 2.0], [0.5, 0.7])
    """
    whole_number("patience", patience)
    if len(curve.value) < patience:
        none = np.empty(0)
        return Curve(rounds=none, airtime_s=none, value=none)
    lasting = np.lib.stride_tricks.sliding_window_view(curve.value, patience).min(axis=1)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(lasting)[:-1]])
    steps = np.flatnonzero(lasting > before)
    return Curve(rounds=curve.rounds[steps], airtime_s=curve.airtime_s[steps], value=lasting[steps])


def thinned(curve: Curve, points: int = _DRAWN) -> Curve:
    """A curve of at most ``points`` points that looks the same.

    Of each stretch of neighbours the one stays that spans the largest triangle with the point kept
    before it and the mean of the stretch after it; the ends stay.
    """
    size = len(curve.value)
    if size <= points:
        return curve
    edges = np.linspace(1, size - 1, points - 1).astype(np.int64)
    kept = [0]
    for place in range(points - 2):
        begin, end = edges[place], edges[place + 1]
        after = slice(end, edges[place + 2] if place + 2 < len(edges) else size)
        x0, y0 = curve.rounds[kept[-1]], curve.value[kept[-1]]
        x2, y2 = curve.rounds[after].mean(), curve.value[after].mean()
        x1, y1 = curve.rounds[begin:end], curve.value[begin:end]
        area = np.abs((x0 - x2) * (y1 - y0) - (x0 - x1) * (y2 - y0))
        kept.append(int(begin + np.argmax(area)))
    chosen = np.array([*kept, size - 1])
    return Curve(
        rounds=curve.rounds[chosen], airtime_s=curve.airtime_s[chosen], value=curve.value[chosen]
    )


def report_payload(
    found: Collection,
    *,
    target: float | None = None,
    patience: int = PATIENCE,
    title: str = "Time to accuracy",
) -> dict[str, Any]:
    """Everything the page shows, as plain values for JSON.

    Args:
        found: the runs, and what was left out.
        target: test accuracy the page opens with; if None, the highest hundredth that every
            configuration reaches, but no lower than four fifths of the best.
        patience: measurements a crossing must last.
        title: heading of the page.
    """
    if target is not None and not 0.0 < target <= 1.0:
        raise InputError(f"target must lie in (0, 1], got {target}; it is a test accuracy")
    if not found.runs:
        lines = "".join(f"\n  {each.name}: {each.reason}" for each in found.left_out)
        raise RunLogError(
            f"there is no run to report; name a folder that fedsched run or demo made{lines}"
        )
    run_of = {id(run.log): run for run in found.runs}
    groups = sorted(
        group_runs(run.log for run in found.runs), key=lambda each: _natural(each.label)
    )
    # Sliders move none of the three means that are taken from these rows.
    rows = summary_rows(groups, target=1.0, patience=patience)
    parts = [
        _group(group, [run_of[id(log)] for log in group.logs], groups, row, patience)
        for group, row in zip(groups, rows, strict=True)
    ]
    texts = [part["fields"] for part in parts]
    common = {k: v for k, v in texts[0].items() if all(other.get(k) == v for other in texts)}
    return {
        "title": title,
        "patience": patience,
        "target": _first_target(parts) if target is None else target,
        "common": common,
        "groups": parts,
        "left_out": [{"name": each.name, "reason": each.reason} for each in found.left_out],
    }


def _natural(label: str) -> list[tuple[bool, float, str]]:
    """An order in which m=5 comes before m=10."""
    words = re.split(r"(\d+(?:\.\d+)?)", label)
    return [(k % 2 == 0, float(w) if k % 2 else 0.0, w) for k, w in enumerate(words)]


def _first_target(parts: Sequence[Mapping[str, Any]]) -> float:
    highest = [
        min((run["steps"][2][-1] if run["steps"][2] else 0.0) for run in part["runs"])
        for part in parts
    ]
    wanted = max(min(highest), 0.8 * max(highest))
    return max(math.floor(wanted * 100.0 + 1e-9), 1) / 100.0


def _group(
    group: Group,
    runs: Sequence[GoodRun],
    groups: Sequence[Group],
    row: Mapping[str, Any],
    patience: int,
) -> dict[str, Any]:
    uplink = group.logs[0].manifest["scenario"].get("uplink", {})
    names, power_w = _power(group, runs)
    rounds = min(len(run.power_w) for run in runs)
    at = np.unique(np.geomspace(1, rounds, _POWER_POINTS).round().astype(np.int64))
    versions = Counter(
        ", ".join(f"{k} {v}" for k, v in sorted(run.log.manifest["versions"].items()))
        for run in runs
    )
    return {
        "label": group.label,
        "kind": str(group.fields.get("policy.kind", "")),
        "baseline": _uniform_of(group, groups),
        "airtime_s_per_round": row["airtime_s_per_round"],
        "devices_per_round": row["devices_per_round"],
        "best_accuracy": row["best_accuracy"],
        "budget_w": _number(uplink.get("budget_w")),
        "power": {
            "names": names,
            "rounds": at.tolist(),
            "mean_w": [_short(power_w[at - 1, k]) for k in range(power_w.shape[1])],
        },
        "selection": _selection(group, runs),
        "sizes": _short(_mean_padded([run.sizes for run in runs])),
        "fields": {name: _text(value) for name, value in sorted(group.fields.items())},
        "versions": sorted(versions),
        "runs": [_run(run, patience) for run in runs],
    }


def _run(run: GoodRun, patience: int) -> dict[str, Any]:
    steps = reach_steps(run.accuracy, patience)
    return {
        "name": run.name,
        "seed": int(run.log.manifest["scenario"]["run"]["seed"]),
        "rounds": run.log.rounds,
        "finished": run.log.finished,
        "steps": [each.tolist() for each in (steps.rounds, steps.airtime_s, steps.value)],
        "accuracy": _drawn(run.accuracy),
        "loss": _drawn(run.loss),
    }


def _drawn(curve: Curve) -> list[list[float]]:
    thin = thinned(curve)
    return [thin.rounds.tolist(), _short(thin.airtime_s), _short(thin.value)]


def _uniform_of(group: Group, groups: Sequence[Group]) -> int | None:
    """The place of the uniform group with the same fields otherwise, as ``summary_rows`` pairs."""
    if group.fields.get("policy.kind") == "uniform":
        return None
    for place, other in enumerate(groups):
        left_out = other.unread | {"policy.kind"}
        ours, theirs = (
            {name: value for name, value in each.fields.items() if name not in left_out}
            for each in (group, other)
        )
        if other.fields.get("policy.kind") == "uniform" and ours == theirs:
            return place
    return None


def _devices(group: Group, runs: Sequence[GoodRun]) -> int:
    given = group.fields.get("channel.devices")
    seen = max(len(run.selected) for run in runs)
    return max(given, seen) if isinstance(given, int) else seen


def _power(group: Group, runs: Sequence[GoodRun]) -> tuple[list[str], Values]:
    """Names of the groups of devices, and their running average power, mean over seeds."""
    columns = min(run.power_w.shape[1] for run in runs)
    rounds = min(len(run.power_w) for run in runs)
    mean_w = np.mean([run.power_w[:rounds, :columns] for run in runs], axis=0)
    parts = np.array_split(np.arange(1, max(_devices(group, runs), columns) + 1), columns)
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
        "device": [float(part.mean()) + 1.0 for part in bins],
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
    return value if isinstance(value, str) else json.dumps(value)


def report_page(payload: Mapping[str, Any]) -> bytes:
    """The page: one file, which loads nothing and runs no script but its own."""
    assets = resources.files("fedsched.results") / "assets"
    script = (assets / "report.js").read_text(encoding="utf-8")
    colours = "".join(f"--p{place}:{colour};" for place, colour in enumerate(PALETTE))
    data = json.dumps(payload, allow_nan=False, sort_keys=True, separators=(",", ":"))
    parts = {
        "title": html.escape(str(payload["title"])),
        "script-hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": f":root{{{colours}}}\n" + (assets / "report.css").read_text(encoding="utf-8"),
        "script": script,
        # Within a script element only "<" can end it, and JSON may write any letter by its number.
        "data": data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    }
    template = (assets / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{([a-z-]+)\}\}", lambda found: parts[found[1]], template)
    return page.encode("utf-8", errors="replace")
