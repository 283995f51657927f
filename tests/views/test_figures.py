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
from fedsched.views.figures import save_figure, schedule_figure


def tally(policy="lyapunov", *, v=100.0, channel=None, rounds=30):
    channel = channel or make_channel("heterogeneous", 6)
    made = make_policy(policy, uplink=PAPER_UPLINK, draws=2, v=v)
    counted = ScheduleTally(channel.devices)
    running = schedule(channel=channel, policy=made, uplink=PAPER_UPLINK, seed=1)
    for done, _ in islice(running, rounds):
        counted.add(done)
    return counted


BY_POLICY = {"lambda = 1": tally(), "lambda = 10": tally(), "uniform": tally("uniform")}


def legend(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def curve(values):
    count = np.arange(1.0, len(values) + 1)
    return Curve(rounds=count, airtime_s=2.0 * count, value=np.array(values))


def test_the_schedule_figure_has_a_curve_for_each_schedule():
    figure = schedule_figure(BY_POLICY, budget_w=1.0)
    power, selection, size = figure.axes
    assert legend(power) == [*BY_POLICY, "budget"]
    assert len(power.lines) == 2 * len(BY_POLICY) + 1  # mean and worst device, and the budget
    assert legend(selection) == legend(size) == list(BY_POLICY)
    assert len(selection.lines) == len(size.containers) == len(BY_POLICY)


def test_the_schedule_figure_draws_the_tallied_numbers():
    figure = schedule_figure(BY_POLICY, budget_w=0.7)
    power, selection, size = figure.axes
    mean, worst = power.lines[:2]
    first = next(iter(BY_POLICY.values()))
    np.testing.assert_array_equal(mean.get_xdata(), np.arange(1, 31))
    np.testing.assert_array_equal(mean.get_ydata(), first.mean_power_w)
    np.testing.assert_array_equal(worst.get_ydata(), first.worst_power_w)
    assert set(power.lines[-1].get_ydata()) == {0.7}
    uniform = BY_POLICY["uniform"]
    np.testing.assert_array_equal(selection.lines[2].get_ydata(), uniform.selection_frequency)
    heights = [bar.get_height() for bar in size.containers[2]]
    assert heights == uniform.size_distribution.tolist()
    assert sum(heights) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_schedule_in_which_nobody_is_ever_chosen_can_be_drawn(tmp_path):
    nobody = tally(channel=Trace(np.full((3, 2), np.nan)))
    figure = schedule_figure({"lyapunov": nobody}, budget_w=1.0)
    save_figure(figure, tmp_path / "nobody.png")  # warnings are errors here


@pytest.mark.slow
def test_a_figure_is_saved_in_the_format_of_its_ending(tmp_path):
    figure = schedule_figure(BY_POLICY, budget_w=1.0)
    png, svg, pdf, page = (
        save_figure(figure, tmp_path / f"a.{kind}") for kind in ("png", "svg", "pdf", "html")
    )
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") == text.count("</svg>") == text.count("</html>") == 1
    assert "Selection frequency" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.pdf", "a.png", "a.svg"]


@pytest.mark.slow
def test_the_title_of_a_page_is_escaped(tmp_path):
    page = save_figure(schedule_figure(BY_POLICY, budget_w=1.0), tmp_path / "a<b.html")
    assert "<title>a&lt;b</title>" in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    one, other = (
        save_figure(schedule_figure(BY_POLICY, budget_w=1.0), tmp_path / name / f"a.{suffix}")
        for name in ("1", "2")
        if (tmp_path / name).mkdir() is None
    )
    assert one.read_bytes() == other.read_bytes()


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"plot must end in one of \.png, \.svg, \.pdf, \.html"):
        save_figure(schedule_figure(BY_POLICY, budget_w=1.0), tmp_path / "a.gif")
