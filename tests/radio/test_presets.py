"""Presets against link budgets worked out by hand."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.radio import PRESETS, make_channel, record
from fedsched.runs.scenario import scenario_from

RUN = {"run": {"rounds": 5, "seed": 1}}


@pytest.mark.parametrize(
    ("name", "noise_dbm", "peak_w", "bandwidth_hz"),
    [
        # -173.98 dBm/Hz at 290 K, 10 log10 of the band, the noise figure.
        ("wifi", -173.975 + 73.010 + 10.0, 0.1, 6.2e6),
        ("lte", -173.975 + 69.542 + 5.0, 0.19953, 3.6e6),
        ("5g", -173.975 + 79.925 + 5.0, 0.19953, 39.312e6),
        ("nb-iot", -173.975 + 52.553 + 3.0, 0.19953, 72e3),
        ("lorawan", -173.975 + 50.969 + 6.0, 0.025119, 18.75e3),
    ],
)
def test_the_link_of_a_preset_is_the_one_worked_out_by_hand(name, noise_dbm, peak_w, bandwidth_hz):
    preset = PRESETS[name]
    assert 10.0 * math.log10(preset.noise_w / 1e-3) == pytest.approx(noise_dbm, abs=2e-3)
    assert preset.max_power_w == pytest.approx(peak_w, rel=1e-4)
    assert preset.budget_w == pytest.approx(peak_w / 10.0, rel=1e-4)
    assert preset.bandwidth_hz == pytest.approx(bandwidth_hz, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "at_rim_db"),
    [
        ("wifi", -(60.2 + 35.0 * math.log10(5.0))),
        ("lte", -(128.1 + 37.6 * math.log10(0.289)) + 14.0 - 20.0),
        ("5g", -(22.4 + 35.3 * math.log10(115.0) + 21.3 * math.log10(3.5)) + 8.0),
        ("nb-iot", -120.9 + 18.0 - 4.0 - 3.0 - 20.0),
        ("lorawan", -(128.95 + 23.2 * math.log10(2.0))),
    ],
)
def test_the_gain_at_the_rim_follows_from_the_path_loss_as_published(name, at_rim_db):
    preset = PRESETS[name]
    cell = make_channel(name, 4000).inner
    there = cell.reference_gain_db - 10.0 * cell.exponent * math.log10(
        preset.outer_m / cell.reference_distance_m
    )
    assert there == pytest.approx(at_rim_db, abs=0.01)
    # What arrives from the rim at the peak is neither lost in the noise nor out of this world.
    snr_db = there + 10.0 * math.log10(preset.max_power_w / preset.noise_w)
    assert -10.0 < snr_db < 35.0


@pytest.mark.parametrize("name", PRESETS)
def test_devices_of_a_preset_are_in_its_cell_and_no_gain_is_below_the_floor(name):
    preset = PRESETS[name]
    gain = record(make_channel(name, 500), rounds=20, seed=1)
    floor = 0.01 * preset.noise_w / preset.max_power_w
    assert gain.min() >= floor
    assert np.isfinite(gain).all()
    assert (gain > floor).mean() > 0.9


def test_one_word_stands_for_the_link_and_the_channel():
    found = scenario_from({**RUN, "uplink": {"preset": "lte"}})
    assert found.channel.kind == "lte"
    assert found.uplink.max_power_w == PRESETS["lte"].max_power_w
    assert found.uplink.noise_w == PRESETS["lte"].noise_w
    assert scenario_from(found.as_dict()) == found


def test_what_is_set_besides_stays():
    found = scenario_from(
        {**RUN, "uplink": {"preset": "lte", "budget_w": 0.1}, "channel": {"devices": 7}}
    )
    assert (found.uplink.budget_w, found.channel.devices) == (0.1, 7)
    other = scenario_from(
        {**RUN, "uplink": {"preset": "lte"}, "channel": {"kind": "gains.csv", "unit": "gain"}}
    )
    assert other.channel.kind == "gains.csv"


def test_an_unknown_preset_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"uplink.preset: 'nbiot' is not .* 'nb-iot'\?"):
        scenario_from({**RUN, "uplink": {"preset": "nbiot"}})


def test_the_cell_of_a_preset_without_its_noise_is_refused():
    with pytest.raises(InputError, match=r"channel.kind: 'lte' has the gains of a real cell"):
        scenario_from({**RUN, "channel": {"kind": "lte"}})
    assert scenario_from({**RUN, "channel": {"kind": "lte"}, "uplink": {"noise_w": 1e-13}})


def test_the_page_shows_every_preset_with_its_numbers():
    page = (Path(__file__).parents[2] / "docs" / "units.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) MHz \| (.*) \|$", page, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(PRESETS)
    for name, band_mhz, rest in rows:
        preset = PRESETS[name]
        share, figure, peak, loss, shadowing, fixed, cell = rest.split(" | ")
        assert float(band_mhz) * 1e6 == pytest.approx(preset.band_hz)
        assert float(share) == preset.efficiency
        assert f"{preset.noise_figure_db:g} dB" == figure
        assert f"{preset.max_power_dbm:g} dBm" == peak
        assert loss.startswith(f"{preset.loss_db:g} + {10 * preset.exponent:g} log")
        assert loss.endswith(f"/{preset.reference_m:g})" if preset.reference_m > 1 else "(d)")
        assert f"{preset.shadowing_db:g} dB" == shadowing
        assert f"{preset.fixed_gain_db:g} dB" == fixed.replace("−", "-")
        assert f"{preset.inner_m:g} to {preset.outer_m:g} m" == cell
