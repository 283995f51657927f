import math

import numpy as np
import pytest
from tests.runs.report_runs import manifest, run_log, table

from fedsched.analysis.arrival import InARow, Reach
from fedsched.analysis.curves import Curve, mean_curve, seed_band
from fedsched.analysis.groups import group_runs, mean_reach
from fedsched.errors import InputError
from fedsched.views.figures import PALETTE, subplots
from fedsched.views.looks import hues
from fedsched.views.looks import looks as looks_by_name
from fedsched.views.plots import KINDS, WIDTHS_IN, Asked, check_reached, plot_times, time_rows
from fedsched.views.tables import csv_table, latex_text, latex_times

CASES = [("lyapunov", 1, 100.0), ("lyapunov", 10, 1.0), ("lyapunov", 10, 100.0)]
CASES += [("uniform", 1, 100.0), ("uniform", 10, 100.0)]
AIRTIME_S = {1: 0.1, 10: 2.0}


def logs(cases=CASES, seeds=(1, 2, 3), **changes):
    return [
        run_log(
            manifest(kind, draws, seed, policy__lam=lam, **changes),
            table(seed=seed, airtime_s=AIRTIME_S[draws] * (1.0 if kind == "uniform" else 0.5)),
        )
        for kind, draws, lam in cases
        for seed in seeds
    ]


GROUPS = group_runs(logs())


def looks(groups):
    return looks_by_name({group.choice: group for group in groups})


def labels(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def line_of(axis, label):
    return next(line for line in axis.lines if line.get_label() == label)


def test_hue_is_m_dash_is_the_policy_and_shade_is_lambda():
    shown = looks(GROUPS)
    ours, theirs = shown["lyapunov m=10 λ=100"], shown["uniform m=10"]
    assert ours.color == theirs.color == PALETTE[2].lower()
    assert shown["lyapunov m=1 λ=100"].color == shown["uniform m=1"].color == PALETTE[0].lower()
    assert {ours.dash, shown["lyapunov m=10 λ=1"].dash} == {"-"} and theirs.dash == "--"
    pale = shown["lyapunov m=10 λ=1"].color
    assert all(int(pale[k : k + 2], 16) >= int(ours.color[k : k + 2], 16) for k in (1, 3, 5))
    assert pale != ours.color
    assert not any(look.marker for look in shown.values())


def test_a_look_does_not_depend_on_who_else_is_shown():
    alone = looks(group_runs(logs([("lyapunov", 10, 100.0), ("uniform", 10, 100.0)])))
    assert alone["lyapunov"] == looks(GROUPS)["lyapunov m=10 λ=100"]
    assert alone["uniform"] == looks(GROUPS)["uniform m=10"]


def test_no_two_configurations_look_the_same():
    more = logs(policy__v=100.0) + logs([("lyapunov", 10, 100.0)], policy__v=7.0)
    others = ["auto", "greedy", "round-robin", "norm", "age", "power-of-choice", "oort"]
    more += logs([(each, 10, 100.0) for each in others], policy__v=100.0)
    groups = group_runs(more)
    shown = looks(groups)
    assert len(shown) == len(groups) == len(set(map(repr, shown.values())))


def test_hues_of_other_numbers_of_draws_are_none_of_the_papers():
    found = hues([2, 10, 3, None])
    assert found[10] == hues([10])[10]
    assert found[None] == PALETTE[-1]
    assert len({*found.values(), *hues([1, 5]).values()}) == 6


def test_the_band_goes_from_the_lowest_to_the_highest_seed():
    count = np.arange(1.0, 5.0)
    curves = [
        Curve(rounds=count, airtime_s=2 * count, value=np.array(value))
        for value in ([0.1, 0.5, 0.3, 0.9], [0.3, 0.1, 0.5, 0.7])
    ]
    band = seed_band(curves, points=4)
    assert band.where.tolist() == [2, 4, 6, 8]
    np.testing.assert_allclose(band.low, [0.1, 0.1, 0.3, 0.7])
    np.testing.assert_allclose(band.high, [0.3, 0.5, 0.5, 0.9])
    np.testing.assert_allclose(band.mean, [0.2, 0.3, 0.4, 0.8])
    smooth = seed_band(curves, points=4, window=2)
    np.testing.assert_allclose(smooth.low, [0.1, 0.2, 0.3, 0.6])
    np.testing.assert_array_equal(mean_curve(curves, points=4, window=2)[1], smooth.mean)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width_in", WIDTHS_IN.values())
def test_every_kind_has_the_width_of_a_column_and_300_dpi(kind, width_in):
    figure = KINDS[kind].figure(GROUPS, Asked(targets=[0.6, 0.7], width_in=width_in))
    assert figure.get_size_inches()[0] == pytest.approx(width_in)
    assert figure.dpi == 300
    assert any("uniform" in label for label in labels(figure))


@pytest.mark.parametrize("kind", ["convergence", "rounds", "loss"])
def test_curves_draw_the_numbers_of_their_table(kind):
    asked = Asked(targets=[0.7], computation_s=2.0)
    (axis,) = KINDS[kind].figure(GROUPS, asked).axes
    rows = [r for r in KINDS[kind].rows(GROUPS, asked) if r["configuration"] == "uniform m=10"]
    where = "rounds" if kind == "rounds" else "seconds"
    line = line_of(axis, "uniform m=10")
    np.testing.assert_array_equal(line.get_xdata(), [row[where] for row in rows])
    np.testing.assert_array_equal(line.get_ydata(), [row["mean"] for row in rows])
    assert len(axis.collections) == len(GROUPS)  # a band each
    assert all(row["lowest_seed"] <= row["mean"] <= row["highest_seed"] for row in rows)
    assert (kind != "loss") == any(set(line.get_ydata()) == {0.7} for line in axis.lines)
    if where == "seconds":  # 60 rounds of 2 s of computation and about 2 s of airtime
        assert 120 < rows[-1]["seconds"] < 300


def test_time_to_target_draws_the_means_and_the_fastest():
    (axis,) = KINDS["time-to-target"].figure(GROUPS, Asked(targets=[0.7], until_s=4.0)).axes
    grid = line_of(axis, "fastest").get_xdata()
    assert (grid[0], grid[-1]) == (0.0, 4.0)
    drawn = {group.choice: line_of(axis, group.choice).get_ydata() for group in GROUPS}
    for group in GROUPS:
        reached = mean_reach(group, 0.7)
        assert drawn[group.choice][-1] == pytest.approx(reached.time_s(4.0))
    best = np.min([*drawn.values()], axis=0)
    np.testing.assert_array_equal(line_of(axis, "fastest").get_ydata(), best)


def test_crossings_are_marked_and_far_ones_are_left_out():
    lines = {
        "a": [Reach(airtime_s=0.0, rounds=100.0)],
        "b": [Reach(airtime_s=100.0, rounds=50.0)],
        "c": [Reach(airtime_s=1000.0, rounds=40.0)],
        "d": [],
    }
    shown = dict.fromkeys(lines, looks(GROUPS)["uniform m=1"])
    with subplots(1, 1, width=3.5, height=2.0) as (_, axes):
        axis = axes[0][0]
        plot_times(axis, lines, shown)
        texts = [text.get_text() for text in axis.texts]
    assert texts == ["2.00 s", "not reached: d"]  # b and c meet at 90 s
    assert axis.get_xlim() == (0.0, 3.2)


def test_speedups_are_drawn_beside_uniform_with_their_intervals():
    asked = Asked(targets=[0.6, 0.7])
    (axis,) = KINDS["speedup"].figure(GROUPS, asked).axes
    rows = [r for r in time_rows(GROUPS, asked) if r["configuration"] == "lyapunov m=10 λ=100"]
    container = next(c for c in axis.containers if c.get_label() == "lyapunov m=10 λ=100")
    np.testing.assert_allclose(container[0].get_ydata(), [row["sooner"] for row in rows])
    ends = [segment[:, 1] for segment in container[2][0].get_segments()]
    np.testing.assert_allclose(ends, [(row["sooner_low"], row["sooner_high"]) for row in rows])
    assert set(line_of(axis, "uniform").get_ydata()) == {1.0}
    with pytest.raises(InputError, match="speedup compares with runs of uniform"):
        KINDS["speedup"].figure(group_runs(logs(CASES[:3])), asked)


def test_environments_have_panels_of_their_own():
    groups = group_runs(logs() + logs(CASES[3:], channel__kind="homogeneous"))
    for kind, panels in (("convergence", 2), ("time-to-target", 4)):
        figure = KINDS[kind].figure(groups, Asked(targets=[0.5, 0.6]))
        titles = [axis.get_title(loc="left") for axis in figure.axes]
        assert sorted(set(titles)) == ["heterogeneous", "homogeneous"] and len(titles) == panels
        assert len(labels(figure)) == len(set(labels(figure)))


def test_a_target_that_nobody_reached_is_refused_with_the_highest_that_was():
    protocol = InARow(1)
    highest = max(min(log.column("test_accuracy").max() for log in g.logs) for g in GROUPS)
    check_reached(GROUPS, Asked(targets=[highest], protocol=protocol))
    with pytest.raises(InputError, match=rf"no configuration reached 0\.999 .* is {highest:g},"):
        check_reached(GROUPS, Asked(targets=[0.5, 0.999], protocol=protocol))


def test_a_table_in_latex_has_a_line_a_configuration_and_the_least_time_in_bold():
    rows = time_rows(GROUPS, Asked(targets=[0.5, 0.7]))
    text = latex_times(rows)
    lines = [line for line in text.splitlines() if line.startswith(("lyapunov", "uniform"))]
    assert len(lines) == len(GROUPS)
    assert {line.count("&") for line in lines} == {5}
    assert text.count(r"\textbf") == 2
    fastest = min(rows, key=lambda row: math.inf if row["target"] == 0.5 else row["seconds"])
    bold = next(line for line in lines if r"\textbf" in line)
    assert bold.startswith(latex_text(fastest["configuration"]))
    never = latex_times(time_rows(GROUPS, Asked(targets=[0.999])))
    assert r"uniform m=1 & 3 & -- & -- \\" in never


def test_a_table_for_programs_has_all_digits():
    rows = time_rows(GROUPS, Asked(targets=[0.5]))
    header, first, *_ = csv_table(rows).splitlines()
    assert header.split(",")[:3] == ["environment", "configuration", "seeds"]
    assert repr(rows[0]["seconds"]) in first.split(",")
