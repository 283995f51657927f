"""Fleet files: what they fill, by hand, and every way in which one can be wrong."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsched.errors import InputError
from fedsched.runs.assembly import schedule_of
from fedsched.runs.fleet import COLUMNS
from fedsched.runs.scenario import scenario_from
from fedsched.runs.scenario_file import load_scenario

RUN = {"run": {"rounds": 5, "seed": 1}}
GOOD = """\
# three phones
name,max_power_dbm,budget_w,steps_per_s,samples,battery_j,duty_cycle
anna,30,0.1,40,50,100,0.5
ben,20,0.1,20,60,200,0.25
cleo,10,0.1,10,70,300,0.125
"""


def scenario(path, **sections):
    return scenario_from({**RUN, "fleet": {"file": str(path)}, **sections})


def test_columns_are_fields_with_a_number_for_each_device(tmp_path):
    (tmp_path / "fleet.csv").write_text(GOOD)
    found = scenario(tmp_path / "fleet.csv", training={"steps": 20})
    assert found.uplink.max_power_w == pytest.approx((1.0, 0.1, 0.01))
    assert found.uplink.budget_w == 0.1  # the same for all
    assert found.uplink.computation_s == (0.5, 1.0, 2.0)  # 20 steps at 40, 20 and 10 a second
    assert found.data.samples == (50, 60, 70)
    assert found.budgets.battery_j == (100.0, 200.0, 300.0)
    assert found.budgets.duty_cycle == (0.5, 0.25, 0.125)
    assert found.channel.devices == 3


def test_parquet_says_the_same(tmp_path):
    columns = {"name": ["a", "b"], "max_power_w": [0.1, 0.2], "samples": [5, 6]}
    pq.write_table(pa.table(columns), tmp_path / "fleet.parquet")
    found = scenario(tmp_path / "fleet.parquet")
    assert (found.uplink.max_power_w, found.data.samples) == ((0.1, 0.2), (5, 6))


@pytest.mark.slow
def test_no_device_sends_above_its_own_peak_and_all_keep_their_own_budget(tmp_path):
    peaks, budgets = [0.05, 0.1, 0.2, 0.4], [0.004, 0.01, 0.02, 0.03]
    rows = [f"{peak},{budget}" for peak, budget in zip(peaks, budgets, strict=True)]
    (tmp_path / "fleet.csv").write_text("\n".join(["max_power_w,budget_w", *rows]))
    found = scenario(tmp_path / "fleet.csv", uplink={"preset": "lte", "bits": 1e5})
    spent = np.zeros(4)
    for done in itertools.islice(schedule_of(found, 0), 400):
        assert (done.decision.power_w <= np.array(peaks) * (1.0 + 1e-12)).all()
        spent += done.decision.power_w * done.decision.probability
    assert (spent / 400 <= np.array(budgets) * 1.05).all()


def test_the_scenario_has_the_numbers_and_the_checksum_and_needs_the_file_no_more(tmp_path):
    file = tmp_path / "fleet.csv"
    file.write_text(GOOD)
    found = scenario(file)
    table = json.loads(json.dumps(found.as_dict()))
    file.unlink()
    assert scenario_from(table) == found
    file.write_text(GOOD.replace("50", "51"))
    assert scenario(file).fleet.sha256 != found.fleet.sha256


def test_a_preset_gives_what_the_fleet_leaves_out(tmp_path):
    (tmp_path / "fleet.csv").write_text("samples\n5\n6\n")
    found = scenario(tmp_path / "fleet.csv", uplink={"preset": "lte"})
    assert found.uplink.max_power_w == pytest.approx(0.19953, rel=1e-4)
    assert (found.channel.kind, found.channel.devices) == ("lte", 2)


BAD = {
    "budget_W\n1\n": "column: 'budget_W' is not known; did you mean 'budget_w'?",
    "max_power\n1\n": "column: 'max_power' is not known; did you mean 'max_power_",
    "name,samples\na,5\na,6\n": "device 1 has the name 'a' of device 0; names tell devices apart",
    "name,samples\na,5\n,6\n": "device 1 has no name",
    "samples\n": "has no devices",
    "": "has no devices",
    "name,budget_w\nann,-1\n": "ann: budget_w must be a positive finite number, got -1",
    "budget_w\n1\n0\n": "device 1: budget_w must be a positive finite number, got 0",
    "budget_w\nnan\n": "budget_w must be a positive finite number, got nan",
    "budget_w\ninf\n": "budget_w must be a positive finite number, got inf",
    "budget_w,samples\n,5\n": "budget_w must be a positive finite number, got nothing",
    "budget_w\nlots\n": "device 0: budget_w must be a number, got 'lots'",
    "samples\n5.5\n": "samples must be a whole number of at least 1, got 5.5",
    "max_power_dbm\n200\n": "max_power_dbm must be a number from -60 to 60, got 200",
    "duty_cycle\n1.5\n": "duty_cycle must be a number above 0 to 1, got 1.5",
    "max_power_w,max_power_dbm\n1,30\n": "columns 'max_power_w' and 'max_power_dbm' say the same",
    "samples,samples\n1,2\n": "columns 'samples' and 'samples' say the same",
    "samples,budget_w\n1\n": "row 1: it has 1 values and the header names 2 columns",
    "samples;budget_w\n1;2\n": "its only column is 'samples;budget_w'; separate cells by commas",
    "name\tbudget_w\nann\t2\n": "separate cells by commas",
    "name,budget_w\nann,2 mX\n": "fleet.csv, ann: budget_w: '2 mX' has the unit 'mX', which is not",
    "name,budget_w\nann,1_000\n": "unit '_000', which is not known",
    "participation\ntrue\n": "device 0: participation must be a number, got 'true'",
    "name,max_power_dbm,budget_w\nann,23,13\n": "ann: the budget is 13 W and the peak 0.199526 W",
    "max_power_w,budget_w\n0.2,0.1\n0.2,20\n": "device 1: the budget is 20 W and the peak 0.2 W",
    "energy_j,battery_j\n1,2\n": "budgets.energy_j and budgets.battery_j limit the same",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_fleet_is_a_sentence(text, tmp_path):
    (tmp_path / "fleet.csv").write_text(text)
    with pytest.raises(InputError) as raised:
        scenario(tmp_path / "fleet.csv")
    assert BAD[text] in str(raised.value)


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("max_power_w", "200 mW", 0.2),
        ("max_power_dbm", "23 dBm", 0.19952623149688797),
        ("duty_cycle", "1%", 0.01),
        ("compute_s", "500 ms", 0.5),
        ("battery_j", "2 Wh", 7200.0),
        ("bytes_per_day", "10 MB", 1e7),
    ],
)
def test_a_cell_may_carry_its_unit(column, cell, value, tmp_path):
    (tmp_path / "fleet.csv").write_text(f"{column}\n{cell}\n")
    section, _, field = COLUMNS[column].field.partition(".")
    assert getattr(getattr(scenario(tmp_path / "fleet.csv"), section), field) == value


@pytest.mark.parametrize("text", ["max_power_w\n200\n", "max_power_w\n0.2\n23\n"])
def test_a_peak_that_no_device_with_the_preset_has_is_in_another_unit(text, tmp_path):
    (tmp_path / "fleet.csv").write_text(text)
    with pytest.raises(
        InputError, match=r"uplink.max_power_w of device|uplink.max_power_w is 200 W"
    ):
        scenario(tmp_path / "fleet.csv", uplink={"preset": "lte"})
    with pytest.raises(InputError, match=r"uplink.max_power_w is 23 W, 21 dB above the 0.199526 W"):
        scenario_from({**RUN, "uplink": {"preset": "lte", "max_power_w": 23.0}})
    with pytest.raises(InputError, match=r"33 dB below the 0.199526 W"):
        scenario_from({**RUN, "uplink": {"preset": "lte", "max_power_w": 1e-4}})
    assert scenario(tmp_path / "fleet.csv").uplink.preset is None  # another radio may have them


def test_what_is_said_twice_or_does_not_fit_is_refused(tmp_path):
    (tmp_path / "fleet.csv").write_text(GOOD)
    with pytest.raises(
        InputError, match=r"uplink.budget_w is set, and so is the column 'budget_w'"
    ):
        scenario(tmp_path / "fleet.csv", uplink={"budget_w": 1.0})
    with pytest.raises(InputError, match=r"channel.devices is 4 and the fleet .* has 3 devices"):
        scenario(tmp_path / "fleet.csv", channel={"devices": 4})
    with pytest.raises(InputError, match=r"fleet.csv' cannot be read: No such file"):
        scenario(tmp_path / "away" / "fleet.csv")
    with pytest.raises(InputError, match=r"suffix '.xlsx'; a fleet ends in one of .csv, .parquet"):
        scenario(tmp_path / "fleet.xlsx")
    (tmp_path / "fleet.parquet").write_text("no")
    with pytest.raises(InputError, match="is not a Parquet file"):
        scenario(tmp_path / "fleet.parquet")
    with pytest.raises(InputError, match=r"uplink.max_power_w has 2 numbers and there are 100"):
        next(schedule_of(scenario_from({**RUN, "uplink": {"max_power_w": [1.0, 2.0]}}), 10))


def test_files_are_found_beside_the_scenario(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "fleet.csv").write_text(GOOD)
    (tmp_path / "there" / "rates.csv").write_text("# unit: mbit/s\n1,2,3\n")
    (tmp_path / "there" / "scenario.toml").write_text(
        '[run]\nrounds = 5\nseed = 1\n[fleet]\nfile = "fleet.csv"\n[channel]\nkind = "rates.csv"\n'
    )
    monkeypatch.chdir(tmp_path)
    found = load_scenario("there/scenario.toml")
    assert found.fleet.file == "there/fleet.csv"
    assert found.channel.kind == "there/rates.csv"
