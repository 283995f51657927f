import pytest

from fedsched.radio import PRESETS
from fedsched.runs.scenario_file import load_scenario


@pytest.mark.parametrize("fleet", [[], pytest.param(["--fleet"], marks=pytest.mark.slow)])
@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_written_can_be_scheduled(fedsched, preset, fleet, tmp_path):
    code, out, err = fedsched("init", preset, *fleet, "--out", tmp_path / "new")
    assert code == 0, err
    assert f"next: fedsched run {tmp_path}/new/scenario.toml --out {tmp_path}/new/run" in out
    found = load_scenario(tmp_path / "new" / "scenario.toml")
    assert found.uplink.preset == found.channel.kind == preset
    assert found.channel.devices == 20
    assert found.uplink.noise_w == PRESETS[preset].noise_w
    assert isinstance(found.uplink.max_power_w, tuple) == bool(fleet)
    place = tmp_path / "new" / "scenario.toml"
    code, _, err = fedsched("schedule", place, "--rounds", 5, "--bits", 1e5)
    assert code == 0, err


@pytest.mark.slow
def test_it_runs(fedsched, tmp_path):
    assert fedsched("init", "lte", "--fleet", "--out", tmp_path)[0] == 0
    scenario = tmp_path / "scenario.toml"
    code, _, err = fedsched(
        "run", scenario, "--out", tmp_path / "run", "--workers", 1, "--set", "run.rounds=3"
    )
    assert code == 0, err
    # A fleet that has changed is another run.
    fleet = tmp_path / "fleet.csv"
    fleet.write_text(fleet.read_text().replace("40,40", "40,41"))
    code, _, err = fedsched(
        "run", scenario, "--out", tmp_path / "run", "--workers", 1, "--set", "run.rounds=3"
    )
    assert code == 2
    assert "holds a run with" in err


def test_nothing_is_written_over(fedsched, tmp_path):
    (tmp_path / "fleet.csv").write_text("mine")
    code, _, err = fedsched("init", "--fleet", "--out", tmp_path)
    assert code == 2
    assert "fleet.csv' is there already" in err
    assert not (tmp_path / "scenario.toml").exists()


def test_what_a_killed_command_left_is_no_obstacle(fedsched, tmp_path):
    for _ in range(2):
        assert fedsched("init", "lte", "--fleet", "--out", tmp_path)[0] == 0
        (tmp_path / "scenario.toml").unlink()
    assert fedsched("init", "wifi-6", "--fleet", "--out", tmp_path)[0] == 2  # another fleet


def test_an_unknown_preset_is_a_sentence(fedsched, tmp_path):
    code, _, err = fedsched("init", "wlan", "--out", tmp_path / "new")
    assert code == 2
    assert "preset: 'wlan' is not known" in err
    assert not (tmp_path / "new").exists()


def test_a_bad_fleet_on_the_command_line_writes_nothing(fedsched, tmp_path):
    (tmp_path / "fleet.csv").write_text("samples\n-5\n")
    out = tmp_path / "schedule.csv"
    code, _, err = fedsched("schedule", "--fleet", tmp_path / "fleet.csv", "--out", out)
    assert code == 2
    assert "samples must be a whole number of at least 1, got -5" in err
    assert not out.exists()
    (tmp_path / "fleet.csv").write_text("budget_w\n1\n2\n3\n")
    code, printed, err = fedsched("schedule", "--fleet", tmp_path / "fleet.csv", "--rounds", 5)
    assert code == 0, err
    assert "3 devices" in printed
