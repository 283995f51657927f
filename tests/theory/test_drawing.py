import numpy as np
import pytest

from fedsched.runs.scenario import scenario_from
from fedsched.theory.advice import Study, simulate
from fedsched.theory.bounds import ProblemConstants
from fedsched.theory.drawing import (
    advice_figure,
    bound_figure,
    counterexample_figure,
    counterexample_rows,
)
from fedsched.theory.runs import RunBound
from fedsched.theory.verdicts import point


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
        measured_gradient_sq=np.array([2.0, 0.1]), realised_drift_gap=None,
    )  # fmt: skip
    figure = bound_figure(found)
    (bound,) = [name for name in labels(figure) if name.startswith("corrected")]
    assert ("(the run's)" in bound) == own
    shown = gamma if own else found.corrected_step_limit
    line = figure.axes[0].get_lines()[0]
    assert line.get_ydata()[-1] == pytest.approx(found.corrected(shown).total)


def test_advice_is_drawn_by_computation_time_and_where_there_is_a_noise_by_snr():
    scenario = scenario_from({"run": {"rounds": 5, "seed": 1}, "channel": {"devices": 8},
                              "uplink": {"bits": 1e6}})  # fmt: skip
    study = Study.of([scenario], None, 2, 1)

    def at(computation_s, snr_db=0.0):
        cases = study.cases(computation_s, snr_db).values()
        costs = {case: simulate(study, case) for case in cases}
        return point(study, costs, computation_s, snr_db)

    timed, shifted = [at(0.01), at(0.1), at(1.0)], [at(0.1, -10.0)]
    assert len(advice_figure(timed, [], timed[1], 0.05).axes) == 1
    figure = advice_figure(timed, shifted, timed[1], 0.05)
    assert len(figure.axes) == 2
    for axis, shown in zip(figure.axes, (timed, [shifted[0], timed[1]]), strict=True):
        drawn = {tuple(line.get_ydata()) for line in axis.get_lines()}
        assert tuple(each.times["auto"] for each in shown) in drawn
        assert "auto" in {text.get_text() for text in axis.texts}
