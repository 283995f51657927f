"""The ledger of budgets against sums by hand."""

import numpy as np

from fedsched.policies import Airtime, AveragePower, Energy, make_policy
from fedsched.policies.ledger import entered, first_entries, uses
from fedsched.radio import make_channel
from fedsched.rounds import Air, scheduled_rounds
from fedsched.solve.uplink import PAPER_UPLINK

BUDGETS = (AveragePower(1.0), Energy(np.linspace(0.5, 2.0, 20)), Airtime(0.01, per="second"))


def test_the_worst_device_of_every_budget_is_found():
    policy = make_policy("uniform", uplink=PAPER_UPLINK, draws=5)
    air = Air(channel=make_channel("heterogeneous", 20), policy=policy, uplink=PAPER_UPLINK,
              seed=1, budgets=BUDGETS)  # fmt: skip
    running, entries = scheduled_rounds(air), first_entries(BUDGETS, 20)
    joules, seconds, clock_s = np.zeros(20), np.zeros(20), 0.0
    for _ in range(50):
        done, _ = next(running)
        entries = entered(entries, done)
        plan, q = done.decision.plan, done.decision.probability
        joules += q * plan.power_w * plan.upload_s
        seconds += q * plan.upload_s
        clock_s += done.airtime_s
    power, energy, airtime = uses(entries, BUDGETS)
    np.testing.assert_allclose(power.share, 1.0)
    share = joules / 50 / BUDGETS[1].limit
    assert energy.device == np.argmax(share)
    np.testing.assert_allclose(
        [energy.share, energy.mean], [share.max(), (joules / 50)[energy.device]]
    )
    np.testing.assert_allclose(airtime.share, (seconds / clock_s / 0.01).max())
