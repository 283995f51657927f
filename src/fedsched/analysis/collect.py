"""Find the runs below some folders: those that can be shown, and why the others cannot."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsched.analysis.curves import Curve, curve_of, training_loss
from fedsched.analysis.groups import group_runs
from fedsched.checks import positive_number
from fedsched.errors import FedschedError, InputError, MissingExtraError, RunLogError, require
from fedsched.radio.access import make_access
from fedsched.runs.manifest import MANIFEST, PACKED, ROUNDS
from fedsched.runs.runlog import RunLog, read_run

__all__ = [
    "Collection",
    "FoundRun",
    "GoodRun",
    "LeftOut",
    "collect_runs",
    "find_runs",
    "good_run",
    "slowed",
]

# Fields that may have a number for each device, and the section of which all may.
_LISTS = ("samples", "computation_s", "max_power_w", "budget_w")
_LISTED = "budgets"

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundRun:
    """A run that can be read."""

    name: str  # its folder, below what all runs have in common
    log: RunLog


@dataclass(frozen=True, kw_only=True, eq=False)
class GoodRun(FoundRun):
    """A run that can be shown, with what is counted over its rounds."""

    accuracy: Curve
    loss: Curve  # on the test set; empty where it was never measured
    training_loss: Curve  # likewise
    selected: Values  # rounds each device took part in, up to the last device seen
    sizes: Values  # share of rounds with 0, 1, 2, ... devices
    # Running average by round and group of devices; no groups where nobody knows the powers.
    power_w: Values


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A folder that is not in the report, and why."""

    name: str
    reason: str


Run = TypeVar("Run", bound=FoundRun)


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection(Generic[Run]):
    """What was found below the folders asked for."""

    runs: Sequence[Run]
    left_out: Sequence[LeftOut]


def collect_runs(paths: Sequence[str | Path], *, slower: float = 1.0) -> Collection[GoodRun]:
    """Read every run in and below some folders; what cannot be shown is named, with the reason.

    Of runs with one scenario and one seed the longest stays: counted twice, it would make
    intervals look narrower than they are. Devices that compute for times of their own do so
    ``slower`` times as long.
    """
    positive_number("slower", slower, allow_zero=True)

    def shown(name: str, log: RunLog) -> GoodRun:
        return good_run(name, slowed(log, slower))

    return _collected(paths, shown, without=None)


def find_runs(paths: Sequence[str | Path], *, without: Path | None = None) -> Collection[FoundRun]:
    """As :func:`collect_runs`, whether or not there is anything to show yet.

    Args:
        paths: folders of runs, or run folders.
        without: a folder to pass over where it lies below one of them.
    """

    def readable(name: str, log: RunLog) -> FoundRun:
        _check_manifest(log.manifest)
        return FoundRun(name=name, log=log)

    return _collected(paths, readable, without=without)


def _collected(
    paths: Sequence[str | Path], read: Callable[[str, RunLog], Run], *, without: Path | None
) -> Collection[Run]:
    folders: set[Path] = set()
    left_out: list[LeftOut] = []
    for given in map(Path, paths):
        if not given.is_dir():
            raise InputError(
                f"runs: there is no folder {str(given)!r}; name run folders, or folders of them"
            )
        below = {each.resolve() for each in _run_folders(given)}
        apart = None if without is None else without.resolve()
        if apart is not None and given.resolve() in apart.parents:
            below = {each for each in below if each != apart and apart not in each.parents}
        folders |= below
        if not below:
            left_out.append(LeftOut(name=str(given), reason="there is no run in this folder"))
    parents = [str(place.parent) for place in folders]
    top = Path(os.path.commonpath(parents)) if parents else Path()
    names = {place: place.relative_to(top).as_posix() for place in folders}
    runs: dict[str, Run] = {}
    for place in sorted(folders, key=names.__getitem__):
        try:
            run = read(names[place], read_run(place))
        except MissingExtraError:
            raise
        except Exception as error:  # whatever a foreign folder breaks, it is one line here
            said = str(error).replace(str(place), names[place])
            known = isinstance(error, FedschedError)
            reason = said if known else f"its log cannot be read ({type(error).__name__}: {said})"
            left_out.append(LeftOut(name=names[place], reason=" ".join(reason.split())))
            continue
        (group,) = group_runs([run.log])
        key = repr((sorted(group.fields.items()), group.seeds))
        kept, other = run, runs.get(key)
        if other is not None:
            kept, spare = (run, other) if _worth(run) > _worth(other) else (other, run)
            reason = f"it has the scenario and the seed of {kept.name}, which is as long or longer"
            left_out.append(LeftOut(name=spare.name, reason=reason))
        runs[key] = kept
    return Collection(
        runs=tuple(runs.values()),
        left_out=tuple(sorted(left_out, key=lambda each: each.name)),
    )


def _worth(run: FoundRun) -> tuple[int, bool]:
    """Longer is better, and of equals the one that is no packed copy."""
    return run.log.rounds, PACKED not in run.log.manifest


def _run_folders(root: Path) -> Iterable[Path]:
    for place, _, files in os.walk(root):
        if MANIFEST in files or ROUNDS in files:
            yield Path(place)


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    scenario, versions = manifest.get("scenario"), manifest.get("versions")
    tables = isinstance(scenario, dict) and all(isinstance(v, dict) for v in scenario.values())
    if not (tables and isinstance(scenario, dict) and isinstance(versions, dict)):
        raise RunLogError("its manifest lacks the scenario or the versions")
    seed = scenario.get("run", {}).get("seed")
    if not isinstance(seed, int):
        raise RunLogError(f"its manifest names no seed: run.seed is {seed!r}")
    for section, table in scenario.items():
        for name, value in table.items():
            listed = name in _LISTS or section == _LISTED
            if isinstance(value, dict) or (isinstance(value, list) and not listed):
                raise RunLogError(f"{section}.{name} of its scenario is not one value")


def _rectangle(log: RunLog) -> Values:
    """Power by round and group; where devices have joined, those not yet there have spent none."""
    column = log.table["group_power_w"].combine_chunks()
    lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    flat = column.flatten().to_numpy().astype(np.float64)
    rows = np.zeros((len(lengths), int(lengths.max(initial=0))))
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = flat
    return rows


def _has_no_watts(log: RunLog) -> bool:
    """Whether nobody knows the powers of a run: its channel has rates alone."""
    return log.has("worst_power_w") and bool(np.isnan(log.column("worst_power_w")[-1]))


def good_run(name: str, log: RunLog) -> GoodRun:
    """What the page shows of a run; raises if anything it needs is missing or senseless."""
    _check_manifest(log.manifest)
    accuracy, loss = curve_of(log), curve_of(log, "test_loss")
    if not len(accuracy.value):
        raise RunLogError("it has no measured accuracy yet")
    if not (np.isfinite(accuracy.value).all() and np.isfinite(log.column("airtime_s")).all()):
        raise RunLogError("its accuracy or airtime holds numbers that are not finite")
    device = log.table["device"].combine_chunks()
    count = np.bincount(device.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64))
    # A device out of reach has no power and spends none.
    spent_w = np.nan_to_num(_rectangle(log), nan=0.0, posinf=np.inf)
    if _has_no_watts(log):
        spent_w = spent_w[:, :0]
    elif not (spent_w.size and np.isfinite(spent_w).all()):
        raise RunLogError("its power by groups of devices is missing or not finite")
    return GoodRun(
        name=name,
        log=log,
        accuracy=accuracy,
        loss=loss.at(np.isfinite(loss.value)),
        training_loss=training_loss(log),
        selected=np.bincount(device.flatten().to_numpy().astype(np.int64)).astype(np.float64),
        sizes=count / log.rounds,
        power_w=np.cumsum(spent_w, axis=0) / np.arange(1, log.rounds + 1)[:, None],
    )


def slowed(log: RunLog, factor: float) -> RunLog:
    r"""The log with the clock it would have if each device computed ``factor`` times as long.

    .. math:: T_t(x) = w_t + f_t + T(\tau, x r)

    with the wait w, the reports' seconds f, the uploads :math:`\tau` and the computation times r of
    the members of round t, over the access T of the run: exact, as who takes part does not change.
    What all devices have in common is not in the log, so a run without times of their own stays as
    it is.
    """
    positive_number("slower", factor, allow_zero=True)
    if factor == 1.0 or not log.has("ready_s") or not log.sums("ready_s").any():
        return log
    arrow = require("pyarrow", extra="report", purpose="reading run logs")
    uplink = log.manifest["scenario"]["uplink"]
    access = make_access(
        uplink["access"], blocks=uplink["blocks"], unit_s=log.manifest.get("unit_s")
    )
    members = zip(log.lists("upload_s"), log.lists("ready_s"), strict=True)
    uploads_s = [access.uploads_s(np.array(u), factor * np.array(r)) for u, r in members]
    wait_s = log.column("wait_s") if log.has("wait_s") else 0.0
    seconds = wait_s + log.column("feedback_s") + np.array(uploads_s)
    place = log.table.column_names.index("airtime_s")
    return replace(log, table=log.table.set_column(place, "airtime_s", arrow.array(seconds)))
