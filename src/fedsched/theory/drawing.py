"""Pictures of the theory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsched.theory.bounds import (
    corrected_bound,
    corrected_step_limit,
    printed_bound,
    printed_step_limit,
)
from fedsched.theory.quadratics import (
    TWO_QUADRATICS,
    Participation,
    Quadratics,
    stationary_gradient_norm,
    with_replacement,
)
from fedsched.theory.verdicts import Point
from fedsched.views.figures import plain_ticks, subplots
from fedsched.views.looks import hues

if TYPE_CHECKING:
    from fedsched.theory.runs import RunBound

__all__ = ["advice_figure", "bound_figure", "counterexample_figure", "counterexample_rows"]

_TRUE, _CORRECTED, _PRINTED = "#000000", "#0072B2", "#D55E00"
_POINTS = 60


def _cases() -> dict[str, tuple[Quadratics, Participation, int, float]]:
    """Title -> problem, design, local steps, and the range of steps in decades."""
    camps = Quadratics(curvature=np.ones(1), minimum=np.repeat([[1.0], [-1.0]], 50, axis=0))
    return {
        "2 devices, 1 draw, K = 1": (TWO_QUADRATICS, with_replacement([0.5, 0.5], 1), 1, 4.0),
        "100 devices, 10 draws, K = 10": (camps, with_replacement(np.full(100, 0.01), 10), 10, 3.0),
    }


def counterexample_rows() -> list[dict[str, Any]]:
    """Truth and both bounds over step sizes, for devices in two camps that pull apart.

    Rounds have gone on for ever, all alike, so nothing is left of the start.
    """
    rows: list[dict[str, Any]] = []
    for title, (problem, each, steps, decades) in _cases().items():
        constants, inverse = problem.constants(steps), [float((1.0 / each.probability).mean())]
        least = float(each.probability.min())
        limit = min(printed_step_limit(constants, least), corrected_step_limit(constants, inverse))
        for gamma in limit * np.logspace(-decades, 0.0, _POINTS):
            asked: dict[str, Any] = {"learning_rate": float(gamma), "start_gap": 0.0}
            true = stationary_gradient_norm(problem, each, learning_rate=gamma, steps=steps)
            rows.append(
                {
                    "case": title,
                    "learning_rate": float(gamma),
                    "true": true,
                    "printed": printed_bound(constants, inverse, **asked).total,
                    "corrected": corrected_bound(constants, inverse, **asked).total,
                }
            )
    return rows


def counterexample_figure(rows: list[dict[str, Any]]) -> Any:
    """True gradient norm, printed bound and corrected bound over the step size."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    with subplots(1, len(cases), width=5.2 * len(cases), height=3.9) as (figure, axes):
        for axis, case in zip(axes[0], cases, strict=True):
            of_case = [row for row in rows if row["case"] == case]
            step = np.array([row["learning_rate"] for row in of_case])
            columns = {
                name: np.array([row[name] for row in of_case])
                for name in ("true", "printed", "corrected")
            }
            axis.plot(step, columns["corrected"], color=_CORRECTED, label="corrected bound")
            axis.plot(step, columns["true"], color=_TRUE, label="truth")
            axis.plot(
                step, columns["printed"], color=_PRINTED, linestyle="--", label="printed bound"
            )
            axis.fill_between(
                step, columns["printed"], columns["true"], color=_PRINTED, alpha=0.13,
                where=columns["true"] > columns["printed"], linewidth=0,
                label="truth above the printed bound",
            )  # fmt: skip
            axis.set(
                xscale="log", yscale="log", title=case, xlabel="step size γ",
                ylabel="mean E‖∇f‖² in the long run",
            )  # fmt: skip
        axes[0][0].legend(fontsize=8.5, loc="lower right")
        return figure


def bound_figure(found: "RunBound") -> Any:
    """Measured gradients over rounds, and the corrected bound on their mean until then.

    Where the bound says nothing at the run's own step it is drawn for the largest it allows.
    """
    own = found.corrected()
    gamma = found.learning_rate if own.conditions_met else found.corrected_step_limit
    rounds = np.unique(np.geomspace(1, found.rounds, 80).round().astype(np.int64))
    terms = [found.corrected(gamma, rounds=int(t)) for t in rounds]
    label = f"corrected bound on the mean so far, γ = {gamma:.2g}" + (
        " (the run's)" if own.conditions_met else ""
    )
    with subplots(1, 1, width=6.4, height=4.0) as (figure, axes):
        axis = axes[0][0]
        axis.plot(rounds, [each.total for each in terms], color=_CORRECTED, label=label)
        axis.plot(
            rounds, [each.heterogeneity for each in terms], color=_CORRECTED, linewidth=0.9,
            linestyle=":", label="of it: unlike devices that stay away",
        )  # fmt: skip
        axis.plot(
            found.measured_round + 1, found.measured_gradient_sq, color=_TRUE, marker="o",
            markersize=3.5, linewidth=0.9, label=f"measured ‖∇f‖², γ = {found.learning_rate:.2g}",
        )  # fmt: skip
        axis.set(
            xscale="log", yscale="log", xlabel="round", ylabel="squared gradient norm",
            title="What the theory allows and what was measured",
        )  # fmt: skip
        axis.legend(fontsize=8.5)
        return figure


def advice_figure(
    timed: Sequence[Point], shifted: Sequence[Point], here: Point, upload_s: float
) -> Any:
    """Predicted time over that of the best uniform cohort: against computation time, and SNR."""
    least = min(each.times["auto"] for each in (*timed, *shifted))
    panels = [(sorted(timed, key=lambda each: each.computation_s), "computation_s")]
    if shifted:
        panels.append((sorted([*shifted, here], key=lambda each: each.snr_db), "snr_db"))
    with subplots(1, len(panels), width=5.6 * len(panels), height=4.2) as (figure, axes):
        for axis, (points, name) in zip(axes[0], panels, strict=True):
            timed_here = name == "computation_s"
            shown = [each for each in points if not timed_here or each.computation_s > 0.0]
            _plot_points(axis, np.array([getattr(each, name) for each in shown]), shown)
            axis.set(xscale="log" if timed_here else "linear", yscale="log")
            axis.set(ylim=(min(0.5, 0.75 * least), _MOST_FACTOR))
            plain_ticks(axis, "y", subs=(1.5, 2.0, 3.0, 5.0))
            if timed_here:
                plain_ticks(axis, "x", subs=(3.0,))
        axes[0][0].set(
            xlabel=f"computation a round (s); an upload takes {upload_s:.3g} s",
            ylabel="predicted time, to that of the best uniform",
            title="By computation time",
        )
        if shifted:
            axes[0][1].set(
                xlabel="SNR against this link's (dB)",
                title=f"By SNR, at {here.computation_s:.3g} s of computation",
            )
        return figure


_MOST_FACTOR = 4.0  # of the best uniform's time, that is shown


def _plot_points(axis: Any, x: NDArray[np.float64], points: Sequence[Point]) -> None:
    """A line for each schedule, named where it is best; hue is m, dash the policy."""
    common = set.intersection(*({*each.times} for each in points))
    uniform = {
        int(label.removeprefix("uniform m=")): label
        for label in common
        if label.startswith("uniform m=")
    }
    best = {each.best for each in points} & uniform.keys()
    drawn = sorted(best | {m for m in uniform if str(m).rstrip("0") == "1"})
    colors = hues([None, *drawn])
    axis.axhline(1.0, color="#999999", linewidth=4.0, alpha=0.4, zorder=0)
    lines = {f"m = {m}": (uniform[m], colors[m], "--") for m in drawn}
    lines |= {
        label: (label, "#777777", "-")
        for label in common
        if label != "auto" and label not in uniform.values()
    }
    lines["auto"] = ("auto", colors[None], "-.")
    for name, (label, color, dash) in lines.items():
        y = np.array([each.times[label] for each in points])
        inside = np.flatnonzero(y <= 0.9 * _MOST_FACTOR)
        if not len(inside):
            continue  # off the picture
        at = int(inside[0])
        axis.plot(x, y, color=color, linestyle=dash, linewidth=2.4 if name == "auto" else 1.3)
        auto, last = name == "auto", at == len(x) - 1
        axis.annotate(name, (x[at], y[at]),
                      xytext=(-3 if last else 3, -14 if auto else 6),
                      textcoords="offset points", ha="right" if last else "left", color=color,
                      fontsize=8.5, fontweight="bold",
                      bbox={"color": "white", "pad": 0.5, "alpha": 0.8})  # fmt: skip
    low, high = ([getattr(each, name) for each in points] for name in ("high", "low"))
    axis.fill_between(x, 1.0 / np.array(low), 1.0 / np.array(high), color=colors[None], alpha=0.15,
                      linewidth=0)  # fmt: skip
