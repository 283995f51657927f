"""Pictures of the theory."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedsched.clock import elapsed_s
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
from fedsched.views.figures import plain_ticks, subplots

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


def advice_figure(rows: list[dict[str, Any]], about: dict[str, Any]) -> Any:
    """Time a round against rounds, with lines of equal time to the target; then what was measured.

    Args:
        rows: one a candidate, the best first, as ``fedsched advise --json`` prints them.
        about: the weight rho and the computation time; and the rank correlation, if compared.
    """

    def round_s(row: dict[str, Any]) -> float:
        return elapsed_s(float(row["airtime_s_per_round"]), 1.0, about["computation_s"])

    compared = about.get("rank_correlation") is not None
    panels = 2 if compared else 1
    kinds = list(dict.fromkeys((row["policy"], row["design"]) for row in rows))
    with subplots(1, panels, width=6.2 * panels, height=4.4) as (figure, axes):
        axis = axes[0][0]
        for kind in kinds:
            of_kind = [row for row in rows if (row["policy"], row["design"]) == kind]
            x = [round_s(row) for row in of_kind]
            y = [row["relative_rounds"] for row in of_kind]
            axis.set(xscale="log", yscale="log")
            axis.plot(x, y, linestyle="", marker="o", markersize=5, label=" ".join(kind))
        best = rows[0]
        at = (round_s(best), best["relative_rounds"])
        across = np.geomspace(axis.get_xlim()[0], axis.get_xlim()[1], 50)
        bottom, top = axis.get_ylim()
        for factor in 2.0 ** np.arange(8):
            axis.plot(across, factor * at[0] * at[1] / across, color="#999999", linewidth=0.7)
        axis.annotate(
            f"best: {best['label']}", at, textcoords="axes fraction", xytext=(0.03, 0.04),
            fontsize=8.5, arrowprops={"arrowstyle": "-", "color": "#555555", "linewidth": 0.8},
        )  # fmt: skip
        axis.set(
            xlim=across[[0, -1]], ylim=(bottom, top * 1.15), xlabel="time a round (s)",
            ylabel="rounds, relative to full participation",
            title="The trade-off (each grey line: twice the time)",
        )  # fmt: skip
        plain_ticks(axis)
        axis.legend(fontsize=8.5)
        if compared:
            axis = axes[0][1]
            for kind in kinds:
                of_kind = [
                    row for row in rows
                    if (row["policy"], row["design"]) == kind and row["measured_s"]
                ]  # fmt: skip
                axis.plot(
                    [row["relative_time"] for row in of_kind],
                    [row["measured_s"] for row in of_kind], linestyle="", marker="o", markersize=5,
                )  # fmt: skip
            axis.set(
                xscale="log", yscale="log", xlabel="predicted time, relative to the best",
                ylabel=f"measured time to {about['target']:g} (s)",
                title=f"Measured: rank correlation {about['rank_correlation']:.2f}",
            )  # fmt: skip
            plain_ticks(axis)
        return figure
