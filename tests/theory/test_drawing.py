import numpy as np
import pytest

from fedsched.theory.bounds import ProblemConstants
from fedsched.theory.drawing import (
    advice_figure,
    bound_figure,
    counterexample_figure,
    counterexample_rows,
)
from fedsched.theory.runs import RunBound


def labels(figure):
    return [line.get_label() for axis in figure.axes for line in axis.get_lines()]


def test_the_counterexample_shows_truth_between_the_bounds():
    rows = counterexample_rows()
    figure = counterexample_figure(rows)
    assert [axis.get_title("left") for axis in figure.axes] == list(
        dict.fromkeys(row["case"] for row in rows)
    )
    for axis in figure.axes:
        lines = {line.get_label(): line.get_ydata() for line in axis.get_lines()}
        assert (lines["truth"] < lines["corrected bound"]).all()
        assert lines["truth"][0] > lines["printed bound"][0]


@pytest.mark.parametrize(("gamma", "own"), [(1e-4, True), (0.5, False)])
def test_a_bound_that_says_nothing_at_the_runs_step_is_drawn_for_the_largest_allowed(gamma, own):
    found = RunBound(
        rounds=50, learning_rate=gamma, kappa=2.0, inverse=np.full(50, 4.0), start_gap=2.0,
        constants=ProblemConstants(
            smoothness=3.0, noise_sq=1.0, divergence_sq=1.0, devices=20, steps=5
        ),
        intervals={}, least_probability=0.1, measured_round=np.array([0, 50]),
        measured_gradient_sq=np.array([2.0, 0.1]),
    )  # fmt: skip
    figure = bound_figure(found)
    (bound,) = [name for name in labels(figure) if name.startswith("corrected")]
    assert ("(the run's)" in bound) == own
    shown = gamma if own else found.corrected_step_limit
    line = figure.axes[0].get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(found.corrected(shown).total)


def test_the_trade_off_has_a_second_panel_if_there_is_something_to_compare():
    row = {
        "label": "uniform m=1", "policy": "uniform", "design": "fixed-size", "measured_s": 3.0,
        "airtime_s_per_round": 0.1, "relative_rounds": 2.0, "relative_time": 1.0,
    }  # fmt: skip
    rows = [row, {**row, "airtime_s_per_round": 0.5, "measured_s": None, "relative_time": 5.0}]
    about = {"weight": 0.1, "computation_s": 0.0}
    assert len(advice_figure(rows, about).axes) == 1
    both = advice_figure(rows, {**about, "rank_correlation": 0.5, "target": 0.9})
    assert len(both.axes) == 2
    assert both.axes[1].get_lines()[0].get_xdata() == [1.0]
