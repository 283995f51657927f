"""What is made of a scenario."""

import pytest

from fedsched.errors import InputError
from fedsched.runs.assembly import policy_of, trainer_spec_of
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
