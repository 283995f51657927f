"""Figures of anybody's runs, in the column widths of papers."""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.analysis.arrival import (
    ACCURACY,
    ARRIVAL,
    TRAINING_LOSS,
    ArrivalProtocol,
    Measure,
    Reach,
    reach_steps,
)
from fedsched.analysis.curves import Band, Curve, seed_band
from fedsched.analysis.envelope import lower_envelope
from fedsched.analysis.groups import Group, mean_of, seed_reaches
from fedsched.analysis.times import Row as Times
from fedsched.analysis.times import times_to_targets
from fedsched.errors import InputError
from fedsched.views.figures import plain_ticks, subplots
from fedsched.views.looks import Look, looks

__all__ = [
    "KINDS", "WIDTHS_IN", "Asked", "Kind", "check_reached", "plot_bands", "plot_times", "time_rows",
]  # fmt: skip

WIDTHS_IN = {"one": 3.5, "two": 7.16}  # columns of most journals, in inches
_PANEL_IN = 2.1  # height of a panel
_LEGEND_LINE_IN = 0.155
_LETTER_IN = 0.066
_HANDLE_IN = 0.45  # the line in front of a name, and the gap behind it
_STYLE = {
    "figure.dpi": 300,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.6,
}
_POINTS = 200
_GREY = "#555555"
_FAR_S = 10.0  # of computation a round; crossings beyond it would press the others together

Row = dict[str, Any]
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a figure is to show of its runs."""

    targets: Sequence[float] = ()  # test accuracies
    computation_s: float = 0.0  # a round
    protocol: ArrivalProtocol = ARRIVAL
    window: int = 1  # points of the rolling mean, of 200 on each curve
    width_in: float = WIDTHS_IN["one"]
    until_s: float | None = None  # where an axis of computation times ends


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of figure, with the numbers behind it."""

    name: str
    about: str
    figure: Callable[[Sequence[Group], Asked], Any]
    rows: Callable[[Sequence[Group], Asked], list[Row]]
    of_targets: bool  # whether it needs targets; then its numbers are few enough for a page


def plot_bands(axis: Any, bands: Mapping[str, Band], shown: Mapping[str, Look]) -> None:
    """The mean of the seeds as a line, from the lowest to the highest of them as a band."""
    for name, band in bands.items():
        look = shown[name]
        axis.fill_between(band.where, band.low, band.high, color=look.color, alpha=0.2, linewidth=0)
        axis.plot(band.where, band.mean, label=name, **look.line())


def plot_times(
    axis: Any,
    reached: Mapping[str, Sequence[Reach]],
    shown: Mapping[str, Look],
    *,
    until_s: float | None = None,
) -> None:
    """Time to a target against the computation time: lines, bands of seeds, and the fastest.

    ``reached`` has the arrivals of the seeds by configuration; where there are none, it is named as
    one that did not arrive. The axis ends at ``until_s``, or behind the last crossing within 10 s.
    """
    means = {name: mean for name, seeds in reached.items() if (mean := mean_of(seeds)) is not None}
    most_s = _FAR_S if until_s is None else until_s
    breaks = [piece.end_s for piece in lower_envelope(means) if piece.end_s < most_s]
    end_s = max([2.0, *(1.6 * each for each in breaks)]) if until_s is None else until_s
    grid = np.linspace(0.0, end_s, _POINTS)
    lines = {name: _over(mean, grid) for name, mean in means.items()}
    if lines:
        axis.plot(grid, np.min([*lines.values()], axis=0), color="#888888", linewidth=4, alpha=0.35,
                  label="fastest")  # fmt: skip
    for name, line in lines.items():
        look, each = shown[name], [_over(seed, grid) for seed in reached[name]]
        axis.fill_between(grid, np.min(each, axis=0), np.max(each, axis=0), color=look.color,
                          alpha=0.2, linewidth=0)  # fmt: skip
        axis.plot(grid, line, label=name, **look.line())
    labelled_s = -math.inf
    for at_s in breaks:
        axis.axvline(at_s, color=_GREY, linestyle=":", linewidth=0.8)
        if at_s - labelled_s < 0.12 * end_s:  # its label would cover the one before
            continue
        labelled_s = at_s
        axis.annotate(f"{at_s:.2f} s", (at_s, 0.02), xycoords=("data", "axes fraction"),
                      fontsize="small", ha="left")  # fmt: skip
    if late := [name for name in reached if name not in means]:
        text = textwrap.fill(f"not reached: {', '.join(late)}", 56)
        axis.text(0.02, 0.98, text, transform=axis.transAxes, va="top", fontsize="small",
                  color=_GREY)  # fmt: skip
    axis.set(xlabel="computation time a round (s)", xlim=(0.0, end_s))


def _over(reached: Reach, computations_s: Values) -> Values:
    return np.array([reached.time_s(float(each)) for each in computations_s])


def check_reached(groups: Sequence[Group], asked: Asked) -> None:
    """Refuse a target that no configuration reached: there would be nothing to draw."""
    for target in asked.targets:
        if any(seed_reaches(group, target, asked.protocol) for group in groups):
            continue
        protocol = asked.protocol
        highest = max(
            min(_highest(ACCURACY.curve(log), protocol) for log in each.logs) for each in groups
        )
        why = (
            "the highest that one reached with all its seeds is "
            f"{math.floor(1e4 * highest) / 1e4:g}, so name a lower one"
            if highest > 0.0
            else f"each has a seed with fewer than {protocol.fewest} measurements, so measure more "
            "often (run.eval_every), or ask for --protocol row --patience 1"
        )
        raise InputError(f"targets: no configuration reached {target:g} {protocol.in_words}; {why}")


def _highest(curve: Curve, protocol: ArrivalProtocol) -> float:
    return float(reach_steps(curve, protocol).value.max(initial=0.0))


@contextmanager
def _panels(
    titles: Sequence[str], names: Sequence[str], width_in: float
) -> Iterator[tuple[Any, list[Any]]]:
    """A figure with a panel for each title, and below them one legend of all that they have.

    The legend has as many columns as its names leave room for.
    """
    columns = min(len(titles), max(1, round(width_in / WIDTHS_IN["one"])))
    rows = math.ceil(len(titles) / columns)
    abreast = max(1, int(width_in / (_HANDLE_IN + _LETTER_IN * max(map(len, names)))))
    lines = math.ceil((len(names) + 1) / abreast)
    height = rows * _PANEL_IN + lines * _LEGEND_LINE_IN + 0.1
    with subplots(rows, columns, width=width_in, height=height, style=_STYLE) as (figure, axes):
        panels = list(axes.flat)
        for axis, title in zip(panels, titles, strict=False):
            axis.set_title(title)
        for axis in panels[len(titles) :]:
            axis.remove()
        yield figure, panels[: len(titles)]
        handles = {
            label: handle
            for axis in panels[: len(titles)]
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        ordered = sorted(handles, key=[*names, *handles].index)
        figure.legend([handles[each] for each in ordered], ordered, loc="outside lower center",
                      ncols=min(abreast, len(ordered)))  # fmt: skip


def _looks(groups: Sequence[Group]) -> dict[str, Look]:
    """A configuration has the same look in every environment."""
    return looks({group.choice: group for group in groups})


def _by_environment(groups: Sequence[Group]) -> dict[str, list[Group]]:
    names = dict.fromkeys(group.environment for group in groups)
    return {name: [group for group in groups if group.environment == name] for name in names}


@dataclass(frozen=True, kw_only=True)
class _Curves:
    """A measure over time or rounds, a panel for each environment."""

    measure: Measure
    over: str = "time"

    def bands(self, groups: Sequence[Group], asked: Asked) -> dict[str, Band]:
        """The band of each configuration that has been measured."""
        curves = {g.choice: [self.measure.curve(log) for log in g.logs] for g in groups}
        return {
            name: seed_band(
                each, computation_s=asked.computation_s, points=_POINTS, window=asked.window,
                over=self.over, spaced=_spaced if self.over == "time" else np.linspace,
            )
            for name, each in curves.items()
            if all(len(curve.value) for curve in each)
        }  # fmt: skip

    def figure(self, groups: Sequence[Group], asked: Asked) -> Any:
        """Lines and bands; accuracies asked for are thin lines across."""
        panels, shown = _by_environment(groups), _looks(groups)
        with _panels([*panels], [*shown], asked.width_in) as (figure, axes):
            for axis, here in zip(axes, panels.values(), strict=True):
                plot_bands(axis, self.bands(here, asked), shown)
                timed = self.over == "time"
                axis.set(ylabel=self.measure.name, xscale="log" if timed else "linear",
                         xlabel="simulated time (s)" if timed else "round")  # fmt: skip
                for target in asked.targets if self.measure is ACCURACY else ():
                    axis.axhline(target, color=_GREY, linestyle=":", linewidth=0.8, zorder=0)
            return figure

    def rows(self, groups: Sequence[Group], asked: Asked) -> list[Row]:
        """The points that are drawn."""
        return [
            {"environment": environment, "configuration": name,
             "seconds" if self.over == "time" else "rounds": float(where),
             "mean": float(mean), "lowest_seed": float(low), "highest_seed": float(high)}
            for environment, here in _by_environment(groups).items()
            for name, band in self.bands(here, asked).items()
            for where, mean, low, high in zip(
                band.where, band.mean, band.low, band.high, strict=True
            )
        ]  # fmt: skip


def _spaced(begin: float, end: float, points: int) -> Values:
    """Places that are equally far apart on a logarithmic axis."""
    first = max(begin, 1e-4 * end)  # nobody may have sent before the first measurement
    return np.geomspace(first, end, points) if first > 0.0 else np.linspace(begin, end, points)


def _times_figure(groups: Sequence[Group], asked: Asked) -> Any:
    """Time to target against computation time, a panel for each environment and target."""
    panels = {
        (environment, target): {g.choice: seed_reaches(g, target, asked.protocol) for g in here}
        for environment, here in _by_environment(groups).items()
        for target in asked.targets
    }
    shown = _looks(groups)
    with _panels([each for each, _ in panels], [*shown], asked.width_in) as (figure, axes):
        for axis, ((_, target), reached) in zip(axes, panels.items(), strict=True):
            plot_times(axis, reached, shown, until_s=asked.until_s)
            axis.set(ylabel=f"seconds to {target:g}")
            if any(reached.values()):
                axis.set_yscale("log")
            else:
                axis.set_yticks([])
        return figure


def _times(groups: Sequence[Group], asked: Asked) -> list[Times]:
    return times_to_targets(
        groups, asked.targets, computation_s=asked.computation_s, protocol=asked.protocol
    )


def _speedup_figure(groups: Sequence[Group], asked: Asked) -> Any:
    """How many times sooner than uniform, by target, with intervals.

    The axis is made for the ratios: of two seeds an interval may be a thousand times as wide.
    """
    panels, shown = _by_environment(groups), _looks(groups)
    if not any(any(row.sooner) for row in _times(groups, asked)):
        raise InputError(
            "kind: speedup compares with runs of uniform that have the same m, the same seeds and "
            "reach the targets, and there are none; add such runs, or name lower targets"
        )
    step = 0.02 * ((max(asked.targets) - min(asked.targets)) or 1.0)
    with _panels([*panels], [*shown], asked.width_in) as (figure, axes):
        for axis, here in zip(axes, panels.values(), strict=True):
            compared = [row for row in _times(here, asked) if any(row.sooner)]
            ratios = [1.0, *(gain.ratio for row in compared for gain in row.sooner if gain)]
            for place, row in enumerate(compared):
                known = [(t, s) for t, s in zip(asked.targets, row.sooner, strict=True) if s]
                ratio = np.array([gain.ratio for _, gain in known])
                ends = [gain.interval or (gain.ratio, gain.ratio) for _, gain in known]
                low, high = np.array(ends).T
                at = np.array([t for t, _ in known]) + step * (place - (len(compared) - 1) / 2)
                axis.errorbar(at, ratio, yerr=(ratio - low, high - ratio), capsize=2,
                              elinewidth=0.8, label=row.configuration,
                              **{"marker": "o", "markersize": 3, **shown[row.configuration].line(),
                                 "markevery": 1})  # fmt: skip
            axis.axhline(1.0, color=_GREY, linestyle="--", linewidth=1.0, label="uniform")
            axis.set(xlabel="test accuracy to reach", ylabel="times sooner than uniform",
                     yscale="log", ylim=(min(ratios) / 2.0, 2.0 * max(ratios)))  # fmt: skip
            axis.set_xticks(asked.targets, [f"{each:g}" for each in asked.targets])
            plain_ticks(axis, "y", subs=(2.0, 5.0))
        return figure


def time_rows(groups: Sequence[Group], asked: Asked) -> list[Row]:
    """When each configuration reached each target, and how many times sooner than uniform."""
    rows = []
    for group, found in zip(groups, _times(groups, asked), strict=True):
        for target, reached, gain in zip(asked.targets, found.reached, found.sooner, strict=True):
            seeds_s = [
                each.time_s(asked.computation_s)
                for each in seed_reaches(group, target, asked.protocol)
            ]
            rows.append(
                {
                    "environment": found.environment, "configuration": found.configuration,
                    "seeds": len(found.seeds), "target": target,
                    "computation_s": asked.computation_s,
                    "seconds": reached and reached.time_s(asked.computation_s),
                    "lowest_seed": min(seeds_s, default=None),
                    "highest_seed": max(seeds_s, default=None),
                    "rounds": reached and reached.rounds, "than": found.against,
                    "sooner": gain and gain.ratio, "sooner_low": gain and gain.low,
                    "sooner_high": gain and gain.high,
                }
            )  # fmt: skip
    return rows


def _kind(name: str, about: str, curves: _Curves) -> Kind:
    return Kind(name=name, about=about, figure=curves.figure, rows=curves.rows, of_targets=False)


KINDS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        _kind("convergence", "test accuracy over simulated time", _Curves(measure=ACCURACY)),
        _kind("rounds", "test accuracy over rounds", _Curves(measure=ACCURACY, over="rounds")),
        _kind("loss", "training loss over simulated time", _Curves(measure=TRAINING_LOSS)),
        Kind(name="time-to-target", about="seconds to a target against the computation time",
             figure=_times_figure, rows=time_rows, of_targets=True),
        Kind(name="speedup", about="how many times sooner than uniform, by target",
             figure=_speedup_figure, rows=time_rows, of_targets=True),
    )
}  # fmt: skip
