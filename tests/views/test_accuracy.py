import numpy as np

from fedsched.analysis.curves import Curve
from fedsched.views.accuracy import accuracy_figure
from fedsched.views.figures import PALETTE


def curve(values):
    rounds = np.arange(1.0, len(values) + 1.0)
    return Curve(rounds=rounds, airtime_s=2.0 * rounds, value=np.array(values))


RISING = [0.1 * k for k in range(1, 9)]
CURVES = {"uniform m=5": [curve(RISING)] * 2, "lyapunov m=10": [curve(RISING)],
          "auto": [curve(RISING)]}  # fmt: skip
DRAWS = {"uniform m=5": 5, "lyapunov m=10": 10, "auto": None}


def test_every_policy_has_a_line_with_its_name_on_one_axis():
    (axis,) = accuracy_figure(CURVES, draws=DRAWS, target=0.7).axes
    assert [line.get_color() for line in axis.lines[:3]] == [PALETTE[1], PALETTE[2], PALETTE[-1]]
    assert [line.get_linestyle() for line in axis.lines[:3]] == ["--", "-", "-."]
    assert axis.lines[2].get_linewidth() > axis.lines[0].get_linewidth()
    assert [text.get_text() for text in axis.texts] == [*CURVES, "0.7"]
    assert set(axis.lines[3].get_ydata()) == {0.7}
    for text, line in zip(axis.texts, axis.lines, strict=False):
        assert text.xy[0] in line.get_xdata()
    assert len({text.xy[1] for text in axis.texts[:3]}) == 3  # no two names meet


def test_it_is_drawn_over_the_clock():
    (axis,) = accuracy_figure(CURVES, draws=DRAWS, target=0.7, computation_s=10.0).axes
    np.testing.assert_allclose(axis.lines[0].get_xdata()[[0, -1]], [12.0, 96.0])
