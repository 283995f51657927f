"""Accuracy over time in one picture, with the name of each policy on its line."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedsched.analysis.curves import Curve, seed_band
from fedsched.views.figures import subplots
from fedsched.views.looks import DASHES, hues

__all__ = ["accuracy_figure"]


def accuracy_figure(
    curves: Mapping[str, Sequence[Curve]],
    *,
    draws: Mapping[str, int | None],
    target: float,
    computation_s: float = 0.0,
) -> Any:
    """Accuracy over simulated time: the mean of the seeds as a line with a name on it.

    Hue is m, dash the policy. A policy without an m is drawn bold.

    Args:
        curves: of the seeds, by name.
        draws: m of each.
        target: a line across.
        computation_s: of a round.
    """
    colors = hues(draws.values())
    with subplots(1, 1, width=8.4, height=4.6) as (figure, axes):
        axis = axes[0][0]
        for place, (name, seeds) in enumerate(curves.items()):
            band = seed_band(seeds, computation_s=computation_s, points=120, window=5,
                             spaced=np.geomspace)  # fmt: skip
            color, bold = colors[draws[name]], draws[name] is None
            axis.plot(band.where, band.mean, color=color, linewidth=2.6 if bold else 1.4,
                      linestyle=DASHES[name.split()[0]], zorder=3 if bold else 2)  # fmt: skip
            # Each name at an accuracy of its own, so that no two meet.
            level = band.mean[0] + (target - band.mean[0]) * (0.25 + 0.6 * place / len(curves))
            at = int(np.argmax(band.mean >= level))
            axis.annotate(name, (band.where[at], band.mean[at]), color=color, fontsize=8.5,
                          fontweight="bold", xytext=(3, -4), textcoords="offset points", zorder=4,
                          bbox={"color": "white", "pad": 0.4, "alpha": 0.75})  # fmt: skip
        axis.axhline(target, color="#555555", linestyle=":", linewidth=1.0)
        axis.annotate(f"{target:g}", (1.0, target), xycoords=("axes fraction", "data"),
                      xytext=(-24, 3), textcoords="offset points", fontsize=8.5)  # fmt: skip
        axis.set(
            xlabel="simulated time (s)",
            ylabel="test accuracy",
            xscale="log",
            title=f"{computation_s:g} s of computation a round",
        )
        return figure
