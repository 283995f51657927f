"""What is made of a scenario."""

from itertools import islice

import pytest

from fedsched.analysis.tally import ScheduleTally
from fedsched.errors import InputError
from fedsched.runs.assembly import budgets_of, policy_of, schedule_of, trainer_spec_of
from fedsched.runs.scenario import scenario_from
from fedsched.solve.uplink import PAPER_UPLINK


@pytest.mark.parametrize(
    ("data", "mean"), [({}, 500.0), ({"samples": 80}, 80.0), ({"samples": [10, 20, 60]}, 30.0)]
)
def test_active_fl_knows_how_many_samples_devices_have(data, mean):
    scenario = scenario_from(
        {
            "run": {"rounds": 1, "seed": 1},
            "policy": {"kind": "active-fl", "draws": 2},
            "channel": {"devices": 3},
            "data": data,
        }
    )
    assert policy_of(scenario, PAPER_UPLINK).samples == mean


def test_samples_are_counted_against_the_devices():
    table = {"run": {"rounds": 1, "seed": 1}, "policy": {"kind": "uniform"}}
    scenario = scenario_from({**table, "data": {"samples": [1, 2]}})
    assert trainer_spec_of(scenario, 2, "cpu").size.tolist() == [1, 2]
    with pytest.raises(InputError, match=r"data\.samples has 2 numbers and there are 3 devices"):
        trainer_spec_of(scenario, 3, "cpu")


@pytest.mark.parametrize("mode", ["average", "strict"])
def test_a_battery_lasts_for_the_run(mode):
    scenario = scenario_from(
        {
            "run": {"rounds": 30, "seed": 1},
            "policy": {"kind": "auto", "budget_mode": mode},
            "channel": {"devices": 5},
            "uplink": {"preset": "lte", "bits": 1e6, "budget_w": "inf"},
            "budgets": {"battery_j": 0.3, "circuit_w": 0.5},
        }
    )
    tally = ScheduleTally(5, budgets_of(scenario, PAPER_UPLINK))
    for done in islice(schedule_of(scenario, 10), 30):
        tally.add(done)
    (use,) = tally.uses
    assert use.limit == pytest.approx(0.3 / 30)
    assert 0.5 < use.share <= 1.0 + 1e-12  # it is used, and not more than it holds
