"""Figures: one look for all, readable in print and by colour-blind readers."""

import html
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.analysis.tally import ScheduleTally
from fedsched.errors import require
from fedsched.files import atomic_path, output_path

__all__ = [
    "FIGURE_SUFFIXES",
    "PALETTE",
    "plain_ticks",
    "plot_cohort_sizes",
    "plot_power",
    "plot_selection",
    "save_figure",
    "schedule_figure",
    "subplots",
]

FIGURE_SUFFIXES = (".png", ".svg", ".pdf", ".html")

# Okabe and Ito's colours, told apart with any common colour blindness; the order avoids yellow
# beside white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_UNSAID = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}
_STYLE = {
    "figure.dpi": 110,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "svg.hashsalt": "fedsched",  # the same figure gives the same bytes
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # letters stay letters, which journals ask for
}


@contextmanager
def subplots(
    rows: int,
    columns: int,
    *,
    width: float,
    height: float,
    style: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[tuple[Any, NDArray[Any]]]:
    """A figure and its axes, shape (rows, columns), in the house style; size in inches.

    ``style`` has what differs from the house style.
    """
    matplotlib = require("matplotlib", extra="report", purpose="drawing figures")
    figure_module = require("matplotlib.figure", extra="report", purpose="drawing figures")
    cycle = {"axes.prop_cycle": matplotlib.cycler(color=PALETTE)}
    with matplotlib.rc_context({**_STYLE, **cycle, **style}):
        figure = figure_module.Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False)


def plain_ticks(
    axis: Any, which: str = "xy", subs: Sequence[float] = (1.2, 1.5, 2.0, 3.0, 5.0)
) -> None:
    """Numbers such as 0.5 and 200 on logarithmic axes, not powers of ten."""
    ticker = require("matplotlib.ticker", extra="report", purpose="drawing figures")
    plain = ticker.FuncFormatter(lambda value, _: f"{value:g}")
    for each in (getattr(axis, f"{name}axis") for name in which):
        each.set_major_formatter(plain)
        each.set_minor_locator(ticker.LogLocator(subs=subs))
        each.set_minor_formatter(plain)


def save_figure(figure: Any, path: str | Path) -> Path:
    """Write a figure as PNG, SVG, PDF, or a page that holds the SVG; the ending chooses."""
    matplotlib = require("matplotlib", extra="report", purpose="drawing figures")
    target = output_path("plot", path, FIGURE_SUFFIXES)
    kind = target.suffix.lower().removeprefix(".").replace("html", "svg")
    # Without what changes from day to day, or from one version of the library to the next.
    metadata = {_UNSAID[kind]: None}
    with atomic_path(target) as aside, matplotlib.rc_context(_STYLE):
        figure.savefig(aside, format=kind, metadata=metadata)
        if target.suffix.lower() == ".html":
            svg = aside.read_text(encoding="utf-8")
            aside.write_text(
                '<!doctype html><html lang="en"><meta charset="utf-8">'
                '<meta name="viewport" content="width=device-width">'
                f"<title>{html.escape(target.stem)}</title>"
                "<style>svg{max-width:100%;height:auto}body{margin:1rem}</style>"
                f"{svg[svg.index('<svg') :]}</html>\n",
                encoding="utf-8",
            )
    return target


def schedule_figure(tallies: Mapping[str, ScheduleTally], *, budget_w: float) -> Any:
    """What some schedules come to: power over rounds, selection by device, cohort size."""
    with subplots(1, 3, width=13.5, height=4.2) as (figure, axes):
        power, selection, size = axes[0]
        plot_power(power, tallies, budget_w=budget_w)
        plot_selection(selection, tallies)
        plot_cohort_sizes(size, tallies)
        return figure


def plot_power(axis: Any, tallies: Mapping[str, ScheduleTally], *, budget_w: float) -> None:
    """Time-average power over rounds, of the mean device (bold) and of the worst (thin)."""
    if all(np.isnan(tally.mean_power_w).all() for tally in tallies.values()):
        axis.set(xticks=[], yticks=[], title="Powers are not known: the channel has rates")
        return
    for label, tally in tallies.items():
        rounds = np.arange(1, tally.rounds + 1)
        (line,) = axis.plot(rounds, tally.mean_power_w, label=label)
        axis.plot(rounds, tally.worst_power_w, color=line.get_color(), linewidth=0.8, alpha=0.6)
    axis.axhline(budget_w, color="#555555", linestyle="--", linewidth=1.0, label="budget")
    axis.set(xscale="log", yscale="log", xlabel="round", ylabel="time-average power P q (W)",
             title="Power (bold: mean device, thin: worst)")  # fmt: skip
    axis.legend(fontsize=8.5)


def plot_selection(axis: Any, tallies: Mapping[str, ScheduleTally]) -> None:
    """How often each device takes part."""
    for label, tally in tallies.items():
        frequency = tally.selection_frequency
        axis.plot(np.arange(1, len(frequency) + 1), frequency, label=label, linewidth=1.2)
    axis.set(xlabel="device",
             ylabel="selections per round", title="Selection frequency")  # fmt: skip
    if any(tally.selection_frequency.any() for tally in tallies.values()):
        axis.set_yscale("log")
    axis.legend(fontsize=8.5)


def plot_cohort_sizes(axis: Any, tallies: Mapping[str, ScheduleTally]) -> None:
    """How often a round has how many devices."""
    width = 0.8 / max(len(tallies), 1)
    for place, (label, tally) in enumerate(tallies.items()):
        share = tally.size_distribution
        at = np.arange(len(share)) + (place - (len(tallies) - 1) / 2) * width
        axis.bar(at, share, width=width, label=label)
    axis.set(xlabel="devices in a round", ylabel="share of rounds", title="Devices a round")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(fontsize=8.5)
