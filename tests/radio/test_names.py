import sys
import types

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.radio.fading import Rayleigh
from fedsched.radio.names import CHANNELS, make_channel
from fedsched.radio.trace import Trace, record, write_trace
from fedsched.radio.wrappers import Floored


@pytest.mark.parametrize("name", sorted(CHANNELS))
@pytest.mark.parametrize("devices", [1, 2, 13])
def test_every_name_serves_any_number_of_devices_with_the_papers_floor(name, devices):
    channel = make_channel(name, devices)
    assert channel.devices == devices
    assert isinstance(channel, Floored)
    assert channel.floor == 0.001


def plain_rayleigh(devices):
    return Rayleigh(np.ones(devices))


def two(devices):
    return Rayleigh(np.ones(2 * devices))


def test_a_channel_is_made_by_its_import_path(monkeypatch):
    module = types.ModuleType("mychannels")
    module.plain, module.two, module.number = plain_rayleigh, two, float
    monkeypatch.setitem(sys.modules, "mychannels", module)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the folder of the command is added
    assert make_channel("mychannels:plain", 7).devices == 7
    assert make_channel("mychannels:plain").devices == 100
    with pytest.raises(InputError, match="makes of 3 devices a channel of 6 devices; it must"):
        make_channel("mychannels:two", 3)
    with pytest.raises(InputError, match=r"makes of 3 devices a 3\.0; it must take"):
        make_channel("mychannels:number", 3)
    with pytest.raises(InputError, match="channel: the module 'mychannels' has no 'absent'"):
        make_channel("mychannels:absent", 3)


def test_there_are_a_hundred_devices_unless_asked_otherwise():
    assert make_channel("homogeneous").devices == 100


def test_the_heterogeneous_setting_is_the_papers():
    channel = make_channel("heterogeneous", 100)
    assert isinstance(channel, Floored)
    assert isinstance(channel.inner, Rayleigh)
    np.testing.assert_allclose(channel.inner.sigma, 0.1 + 0.1 * np.arange(100), rtol=1e-12)


def test_the_homogeneous_setting_is_the_papers():
    channel = make_channel("homogeneous", 100)
    assert isinstance(channel, Floored)
    assert isinstance(channel.inner, Rayleigh)
    assert channel.inner.sigma.tolist() == [1.0] * 100


@pytest.mark.parametrize("name", ["rician", "nakagami", "correlated"])
def test_the_kinds_of_fading_share_the_mean_gain_of_the_homogeneous_setting(name):
    gain = record(make_channel(name, 500), rounds=200, seed=1)
    assert gain.mean() == pytest.approx(2.0, abs=0.06)


def test_the_path_loss_setting_covers_weak_and_strong_devices():
    gain = record(make_channel("pathloss", 500), rounds=50, seed=1)
    assert np.median(gain) == pytest.approx(2.4, rel=0.4)
    assert np.quantile(np.median(gain, axis=0), 0.95) > 50.0


def test_an_unknown_name_is_answered_with_the_nearest_one():
    with pytest.raises(
        UnknownNameError,
        match=r"channel: 'heterogenous' is not known; did you mean 'heterogeneous'\?.*nakagami",
    ):
        make_channel("heterogenous", 10)


def test_fewer_than_one_device_is_refused():
    with pytest.raises(InputError, match="devices must be a whole number of at least 1, got 0"):
        make_channel("homogeneous", 0)


def test_a_file_becomes_a_trace(tmp_path):
    write_trace(tmp_path / "gains.csv", [[1.0, 2.0], [3.0, 4.0]])
    for devices in (None, 2):
        channel = make_channel(str(tmp_path / "gains.csv"), devices)
        assert isinstance(channel, Trace)
        assert channel.gain.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_trace_with_another_number_of_devices_is_refused_with_both_numbers(tmp_path):
    write_trace(tmp_path / "gains.npz", [[1.0, 2.0]])
    with pytest.raises(InputError, match=r"devices is 3, but the trace .*gains.npz has 2 devices"):
        make_channel(str(tmp_path / "gains.npz"), 3)


def test_a_trace_that_does_not_exist_is_a_missing_file_and_not_an_unknown_name(tmp_path):
    with pytest.raises(InputError, match=r"missing.csv: there is no such file in .* is looked for"):
        make_channel(str(tmp_path / "missing.csv"))


def test_a_file_of_another_kind_is_refused_by_its_suffix(tmp_path):
    (tmp_path / "gains.txt").write_text("1,2\n")
    with pytest.raises(InputError, match=r"has the suffix '.txt'; a trace ends in one of .csv"):
        make_channel(str(tmp_path / "gains.txt"))
