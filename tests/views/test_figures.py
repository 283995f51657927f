from itertools import islice
from xml.etree import ElementTree

import numpy as np
import pytest

from fedsched.analysis.curves import Curve
from fedsched.analysis.tally import ScheduleTally
from fedsched.errors import InputError
from fedsched.policies import make_policy
from fedsched.radio import Trace, make_channel
from fedsched.rounds import schedule
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.views.figures import PALETTE, accuracy_figure, save_figure, schedule_figure


def tally(policy="lyapunov", *, v=100.0, channel=None, rounds=30):
    channel = channel or make_channel("heterogeneous", 6)
    made = make_policy(policy, uplink=PAPER_UPLINK, draws=2, v=v)
    counted = ScheduleTally(channel.devices)
    running = schedule(channel=channel, policy=made, uplink=PAPER_UPLINK, seed=1)
    for done, _ in islice(running, rounds):
        counted.add(done)
    return counted


BY_V = {"V = 1": tally(v=1.0), "V = 1000": tally(v=1000.0)}
BY_POLICY = {"lambda = 1": tally(), "lambda = 10": tally(), "uniform": tally("uniform")}


def legend(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def curve(values):
    count = np.arange(1.0, len(values) + 1)
    return Curve(rounds=count, airtime_s=2.0 * count, value=np.array(values))


CURVES = {
    1: {"uniform": [curve([0.1, 0.5]), curve([0.2, 0.6])], "lyapunov": [curve([0.3, 0.9])] * 2},
    5: {"uniform": [curve([0.1, 0.5])] * 2, "lyapunov": [curve([0.3, 0.9])] * 2},
    10: {"uniform": [curve([0.1, 0.5])] * 2, "lyapunov": [curve([0.3, 0.9])] * 2},
}


def test_the_schedule_figure_has_a_curve_for_each_v_policy_and_cohort_size():
    figure = schedule_figure(BY_V, BY_POLICY, budget_w=1.0)
    power, selection, size = figure.axes
    assert legend(power) == ["V = 1", "V = 1000", "budget"]
    assert len(power.lines) == 2 * len(BY_V) + 1  # mean and worst device, and the budget
    assert legend(selection) == legend(size) == list(BY_POLICY)
    assert len(selection.lines) == len(size.containers) == len(BY_POLICY)


def test_the_schedule_figure_draws_the_tallied_numbers():
    figure = schedule_figure(BY_V, BY_POLICY, budget_w=0.7)
    power, selection, size = figure.axes
    mean, worst = power.lines[:2]
    np.testing.assert_array_equal(mean.get_xdata(), np.arange(1, 31))
    np.testing.assert_array_equal(mean.get_ydata(), BY_V["V = 1"].mean_power_w)
    np.testing.assert_array_equal(worst.get_ydata(), BY_V["V = 1"].worst_power_w)
    assert set(power.lines[-1].get_ydata()) == {0.7}
    uniform = BY_POLICY["uniform"]
    np.testing.assert_array_equal(selection.lines[2].get_ydata(), uniform.selection_frequency)
    heights = [bar.get_height() for bar in size.containers[2]]
    assert heights == uniform.size_distribution.tolist()
    assert sum(heights) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_schedule_in_which_nobody_is_ever_chosen_can_be_drawn(tmp_path):
    nobody = tally(channel=Trace(np.full((3, 2), np.nan)))
    figure = schedule_figure({"V = 1": nobody}, {"lyapunov": nobody}, budget_w=1.0)
    save_figure(figure, tmp_path / "nobody.png")  # warnings are errors here


def test_the_accuracy_figure_has_a_panel_for_each_m_and_a_line_for_each_seed():
    figure = accuracy_figure(CURVES, target=0.8)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        f"m = {draws} draws a round" for draws in CURVES
    ]
    for axis in figure.axes:
        assert legend(axis) == ["uniform", "lyapunov", "target 0.8"]
        assert len(axis.lines) == 2 * 2 + 1
        assert [line.get_color() for line in axis.lines[:4]] == [
            *PALETTE[:1] * 2,
            *PALETTE[1:2] * 2,
        ]
        assert set(axis.lines[-1].get_ydata()) == {0.8}


def test_the_accuracy_figure_is_drawn_over_the_clock():
    first = accuracy_figure(CURVES, target=0.8, computation_s=10.0).axes[0].lines[1]
    assert first.get_xdata().tolist() == [12.0, 24.0]
    assert first.get_ydata().tolist() == [0.2, 0.6]


@pytest.mark.slow
def test_a_figure_is_saved_in_the_format_of_its_ending(tmp_path):
    figure = accuracy_figure(CURVES, target=0.8)
    png, svg, pdf, page = (
        save_figure(figure, tmp_path / f"a.{kind}") for kind in ("png", "svg", "pdf", "html")
    )
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") == text.count("</svg>") == text.count("</html>") == 1
    assert "m = 5 draws a round" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.pdf", "a.png", "a.svg"]


@pytest.mark.slow
def test_the_title_of_a_page_is_escaped(tmp_path):
    page = save_figure(accuracy_figure(CURVES, target=0.8), tmp_path / "a<b.html")
    assert "<title>a&lt;b</title>" in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    one, other = (
        save_figure(accuracy_figure(CURVES, target=0.8), tmp_path / name / f"a.{suffix}")
        for name in ("1", "2")
        if (tmp_path / name).mkdir() is None
    )
    assert one.read_bytes() == other.read_bytes()


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"plot must end in one of \.png, \.svg, \.pdf, \.html"):
        save_figure(accuracy_figure(CURVES, target=0.8), tmp_path / "a.gif")
