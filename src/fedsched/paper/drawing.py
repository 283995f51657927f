"""The paper's figures, drawn from groups of runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedsched.analysis.arrival import ACCURACY, TRAINING_LOSS, Measure
from fedsched.analysis.curves import seed_band
from fedsched.analysis.groups import Group, seed_reaches
from fedsched.analysis.tally import ScheduleTally
from fedsched.paper.scales import Scale
from fedsched.views.figures import plot_cohort_sizes, plot_power, plot_selection, subplots
from fedsched.views.looks import hues, looks
from fedsched.views.plots import plot_bands, plot_times

__all__ = [
    "best_configurations",
    "convergence",
    "device_statistics",
    "effect_of_v",
    "heterogeneity",
    "homogeneous",
    "over_rounds",
    "time_to_target",
]

_POINTS = 200
_MEASURES = (ACCURACY, TRAINING_LOSS)


def convergence(scale: Scale, groups: Sequence[Group], computations_s: Sequence[float]) -> Any:
    """Accuracy and loss over time, a column for each computation time."""
    with subplots(2, len(computations_s), width=11.0, height=7.0) as (figure, axes):
        for column, computation_s in enumerate(computations_s):
            for row, measure in enumerate(_MEASURES):
                axis = axes[row][column]
                _draw(axis, scale, groups, measure, computation_s)
                axis.set(xlabel="simulated time (s)", ylabel=measure.name, xscale="log",
                         title=f"computation {computation_s:g} s a round")  # fmt: skip
        _finish(axes, scale, groups)
        return figure


def over_rounds(scale: Scale, groups: Sequence[Group]) -> Any:
    """Accuracy and loss against rounds."""
    with subplots(1, 2, width=11.0, height=4.0) as (figure, axes):
        for axis, measure in zip(axes[0], _MEASURES, strict=True):
            _draw(axis, scale, groups, measure, 0.0, over="rounds")
            axis.set(
                xlabel="round", ylabel=measure.name, title=f"{measure.name} by round".capitalize()
            )
        _finish(axes, scale, groups)
        return figure


def heterogeneity(scale: Scale, groups: Sequence[Group], computation_s: float) -> Any:
    """Accuracy and loss over time for different data heterogeneity."""
    return _pair_of_panels(scale, groups, computation_s,
                           title=f"computation {computation_s:g} s a round")  # fmt: skip


def homogeneous(scale: Scale, groups: Sequence[Group]) -> Any:
    """Accuracy and loss over time on homogeneous channels."""
    return _pair_of_panels(scale, groups, 0.0, title="homogeneous channels")


def _pair_of_panels(scale: Scale, groups: Sequence[Group], computation_s: float, title: str) -> Any:
    with subplots(1, 2, width=11.0, height=4.2) as (figure, axes):
        for axis, measure in zip(axes[0], _MEASURES, strict=True):
            _draw(axis, scale, groups, measure, computation_s)
            axis.set(xlabel="simulated time (s)", ylabel=measure.name, xscale="log", title=title)
        _finish(axes, scale, groups)
        return figure


def _draw(
    axis: Any, scale: Scale, groups: Sequence[Group], measure: Measure, computation_s: float,
    *, over: str = "time",
) -> None:  # fmt: skip
    """A curve and a band a group; accuracies that are asked for are thin lines across."""
    bands = {
        group.label: seed_band(
            [measure.curve(log) for log in group.logs], computation_s=computation_s,
            points=_POINTS, window=scale.window, over=over,
        )
        for group in groups
    }  # fmt: skip
    plot_bands(axis, bands, looks({group.label: group for group in groups}))
    if measure is ACCURACY:
        for target in sorted({scale.targets[float(g.fields["data.alpha"])] for g in groups}):
            axis.axhline(target, color="#555555", linestyle=":", linewidth=1, zorder=0)
            axis.annotate(f"{target:g}", (0.005, target), xycoords=("axes fraction", "data"),
                          fontsize=8, va="bottom", color="#555555")  # fmt: skip


def _finish(axes: Any, scale: Scale, groups: Sequence[Group]) -> None:
    smoothing = f", rolling mean of {scale.window} of {_POINTS} points" if scale.window > 1 else ""
    fewest, most = (extreme(len(group.logs) for group in groups) for extreme in (min, max))
    counted = f"{most}" if fewest == most else f"{fewest} to {most}"
    seeds = "one seed" if most == 1 else f"mean of {counted} seeds"
    axes.flat[0].figure.suptitle(
        f"{scale.dataset}, {scale.devices} devices, {seeds}{smoothing}", fontsize=9
    )
    for axis in axes.flat:
        axis.legend(fontsize=8)


def time_to_target(scale: Scale, groups: Sequence[Group]) -> Any:
    """Time to the target against computation time: straight lines and their lower envelope."""
    target = scale.targets[math.inf]
    reached = {group.label: seed_reaches(group, target, scale.protocol) for group in groups}
    with subplots(1, 1, width=6.4, height=4.4) as (figure, axes):
        axis = axes[0][0]
        plot_times(axis, reached, looks({group.label: group for group in groups}))
        axis.set(ylabel=f"seconds to {target:g}",
                 title="Which m is fastest depends on the computation time")  # fmt: skip
        if any(reached.values()):
            axis.legend(fontsize=8)
        return figure


def best_configurations(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The table of best configurations as bars over computation time, the paper's below ours."""
    cases = list(dict.fromkeys((r["policy"], r["alpha"], r["source"]) for r in rows))
    hue = hues(row["draws"] for row in rows)
    with subplots(1, 1, width=9.5, height=0.42 * len(cases) + 1.6) as (figure, axes):
        axis = axes[0][0]
        low, high = 0.05, 100.0  # seconds; the axis is logarithmic, so 0 is drawn at its edge
        for row in rows:
            at = len(cases) - 1 - cases.index((row["policy"], row["alpha"], row["source"]))
            begin, end = max(row["from_s"], low), min(row["to_s"], high)
            if end <= begin:
                continue
            axis.barh(at, end - begin, left=begin, height=0.7, edgecolor="white",
                      color=hue[row["draws"]],
                      alpha=0.9 if row["source"] == "ours" else 0.4)  # fmt: skip
            if math.log(end / begin) > 0.5:
                text = f"m={row['draws']}" + (f" λ={row['lambda']:g}" if row["lambda"] else "")
                axis.text(math.sqrt(begin * end), at, text, ha="center", va="center", fontsize=7.5,
                          color="white" if row["source"] == "ours" else "black")  # fmt: skip
        labels = [
            f"{policy}, α = {'∞' if alpha == math.inf else f'{alpha:g}'}"
            + (" (paper)" if source == "paper" else "")
            for policy, alpha, source in reversed(cases)
        ]
        axis.set_yticks(range(len(cases)), labels)
        paper = any(row["source"] == "paper" for row in rows)
        title = "Fastest configuration" + ("; paler bars are the paper's" if paper else "")
        axis.set(xscale="log", xlim=(low, high), xlabel="computation time a round (s)", title=title)
        axis.grid(visible=False, axis="y")
        return figure


def effect_of_v(tallies: Mapping[str, ScheduleTally]) -> Any:
    """Average power over rounds for several V."""
    with subplots(1, 1, width=6.4, height=4.2) as (figure, axes):
        plot_power(axes[0][0], tallies, budget_w=1.0)
        axes[0][0].set_title("Effect of V (bold: mean device, thin: worst)")
        return figure


def device_statistics(tallies: Mapping[str, ScheduleTally]) -> Any:
    """Selection frequency and devices a round."""
    with subplots(1, 2, width=11.0, height=4.2) as (figure, axes):
        plot_selection(axes[0][0], tallies)
        axes[0][0].set_xlabel("device (weakest channel first in the heterogeneous setting)")
        plot_cohort_sizes(axes[0][1], tallies)
        return figure
