"""Claims of docs/errata.md that no other test shows."""

from itertools import islice
from pathlib import Path

import pytest

from fedsched.analysis.tally import ScheduleTally
from fedsched.policies import make_policy
from fedsched.radio import make_channel
from fedsched.rounds import schedule
from fedsched.solve.uplink import PAPER_UPLINK

ROOT = Path(__file__).parent.parent
ROUNDS = 300


def play(name, **settings):
    """The tally of a schedule over the paper's heterogeneous channel, and its least probability."""
    tally, least = ScheduleTally(100), 1.0
    policy = make_policy(name, uplink=PAPER_UPLINK, **settings)
    rounds = schedule(
        channel=make_channel("heterogeneous", 100), policy=policy, uplink=PAPER_UPLINK, seed=1
    )
    for done, _ in islice(rounds, ROUNDS):
        tally.add(done)
        least = min(least, float(done.decision.probability.min()))
    return tally.summary(), least


def test_a_small_lambda_needs_a_large_v():
    uniform, _ = play("uniform", draws=1)
    printed, _ = play("lyapunov", draws=1, lam=1.0, v=100.0)
    scaled, _ = play("lyapunov", draws=1, lam=1.0, v=1e4)
    assert printed.airtime_s_per_round > 2.0 * uniform.airtime_s_per_round
    assert scaled.airtime_s_per_round < 1.05 * uniform.airtime_s_per_round


def test_the_papers_main_setting_has_probabilities_below_one_over_n():
    _, least = play("lyapunov", draws=10, lam=100.0, v=100.0)
    assert least < 1.0 / 100


@pytest.mark.parametrize("page", ["errata.md", "theory.md"])
def test_every_test_named_on_the_page_exists(page):
    words = (ROOT / "docs" / page).read_text(encoding="utf-8").split("`")
    named = [word for word in words if word.startswith("tests/")]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
