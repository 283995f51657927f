"""Units against numbers worked out by hand, and files that say what their numbers are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.quantities import dbm_to_w
from fedsched.radio import Floored, Intermittent, Trace, make_channel, read_trace, write_trace
from fedsched.radio.units import Unit, complete_unit, named_unit, parse_unit

NAN = np.nan


@pytest.mark.parametrize(
    ("unit", "number", "becomes"),
    [
        ("gain", 3.5, 3.5),
        ("db", 0.0, 1.0),
        ("db", -130.0, 1e-13),
        ("db", 3.0, 1.9952623149688795),
        # 20 dB over a noise of 4 W, sent with 2 W: |h|^2 = 100 * 4 / 2.
        ("snr-db@2w", 20.0, 200.0),
        ("snr-db@2000 mW", 20.0, 200.0),
        # 30 dBm is 1 W: |h|^2 = 0.1 * 4.
        ("snr-db@30dbm", -10.0, 0.4),
        # 3 Mbit/s in 1 MHz is 3 bit/s/Hz, an SNR of 7; at 2 W and a noise of 4 W, |h|^2 = 14.
        ("mbit/s@2w", 3.0, 14.0),
        ("mbit/s", 3.0, 3e6),
        ("kbit/s", 3.0, 3e3),
        ("bit/s", 3.0, 3.0),
        ("gbps", 3.0, 3e9),
        ("kbyte/s", 3.0, 24e3),
    ],
)
def test_numbers_of_every_unit_become_what_they_stand_for(unit, number, becomes, tmp_path):
    (tmp_path / "trace.csv").write_text(f"{number}\n")
    trace = Trace.read(tmp_path / "trace.csv", unit=unit, noise_w=4.0, bandwidth_hz=1e6)
    assert trace.gain[0, 0] == pytest.approx(becomes, rel=1e-14)
    rate = unit[-2:] in ("/s", "ps")
    assert trace.quantity == ("rate" if rate else "gain")


def test_a_rate_at_a_power_takes_the_time_that_was_measured():
    from fedsched.solve.uplink import Uplink

    link = Uplink(bits=5e6, bandwidth_hz=2e6, noise_w=1e-13, max_power_w=0.2)
    rate = np.array([0.001, 0.4, 7.0, 80.0])
    gain = parse_unit("mbit/s@23dbm").convert(rate, noise_w=1e-13, bandwidth_hz=2e6)
    np.testing.assert_allclose(
        link.airtime_s(gain, np.full(4, dbm_to_w(23.0))), 5.0 / rate, rtol=1e-12
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("unit", ["gain", "db", "snr-db@23dbm", "mbit/s", "mbit/s@0.2w", "byte/s"])
def test_a_written_file_says_its_unit_and_no_other_is_believed(suffix, unit, tmp_path):
    path = tmp_path / f"trace{suffix}"
    numbers = np.array([[1.5, NAN], [2.5, 40.0]])
    write_trace(path, numbers, unit=unit)
    link = {"noise_w": 0.1, "bandwidth_hz": 1e6}
    expected = parse_unit(unit).convert(numbers, **link)
    np.testing.assert_array_equal(read_trace(path, **link), expected)
    np.testing.assert_array_equal(read_trace(path, unit=unit, **link), expected)
    other = "kbit/s" if unit != "kbit/s" else "gain"
    with pytest.raises(InputError, match=r"said to be kbit/s and .*; they have one unit"):
        read_trace(path, unit=other, **link)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# measured on a train\n# Unit: Mbps\na,b\n1,2\n", [[1e6, 2e6]]),
        ("#unit:kbit/s\n1,\n", [[1e3, NAN]]),
        ("a_mbit/s,b (Mbit/s)\n1,2\n", [[1e6, 2e6]]),
        ("mbps_0,mbps_1\n1,0\n", [[1e6, NAN]]),
        ("a_gain_db,b gain dB\n10,-10\n", [[10.0, 0.1]]),
        ("round,device,mbit/s\n5,0,1\n5,1,2\n", [[1e6, 2e6]]),
        ("round,device,gain_db,power_w\n5,0,10,3\n", [[10.0]]),
        ("# unit: gain\nround,device,x\n0,0,7\n", [[7.0]]),
    ],
)
def test_a_csv_file_may_say_its_unit_above_or_in_the_names_of_columns(text, expected, tmp_path):
    (tmp_path / "trace.csv").write_text(text)
    np.testing.assert_allclose(read_trace(tmp_path / "trace.csv"), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b\n1,93\n",
            r"does not say what its numbers \(1 to 93\) are; name it with --unit .*mbit",
        ),
        ("1,93\n", r"does not say what its numbers \(1 to 93\) are"),
        ("device_0,device_1\n1,93\n", "does not say what its numbers"),
        ("a_rssi_dbm\n-90\n", r"\(-90 to -90\) are; .* decibels \(known: db, snr-db@23dbm\)"),
        ("a_loss_db\n90\n", "does not say what its numbers"),
        ("a_snr_db\n9\n", "an SNR needs the transmit power .* snr-db@23dbm"),
        ("a_mbps,b\n1,2\n", "some columns name a unit and column 'b' does not"),
        ("a_mbps,b_kbps\n1,2\n", "its numbers are said to be mbit/s and kbit/s"),
        ("# unit: gain\na_mbps\n1\n", "its numbers are said to be gain and mbit/s"),
        ("# unit: MB/s\na\n1\n", r"line 1, unit: 'MB/s' may be bits or bytes; write mbit/s or mby"),
        ("# unit: mbti/s\na\n1\n", r"'mbti/s' is not known; did you mean 'mbit/s'\?"),
        ("round,device,a_mbps,b_mbps\n0,0,1,2\n", "which of the columns a_mbps, b_mbps holds"),
        ("a_mbps\n-1\n", "the rate in round 0 of device 0 is -1.0; rates are finite and not neg"),
        ("a_gain_db\n4000\n", "4000.0 in round 0 of device 0 is no possible number in db"),
        ("a_gain_db\n-inf\n", "the number in round 0 of device 0 is -inf"),
        (
            "a_kbit/s@23dbm\n1e30\n",
            "1e[+]30 in round 0 of device 0 is no possible number in kbit/s",
        ),
    ],
)
def test_a_unit_that_is_missing_or_wrong_is_asked_for_with_a_sentence(text, message, tmp_path):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_trace(tmp_path / "trace.csv", noise_w=1.0, bandwidth_hz=1e6)


def test_the_power_may_be_added_to_what_a_file_says(tmp_path):
    (tmp_path / "trace.csv").write_text("a_snr_db,b_snr_db\n10,20\n")
    found = read_trace(tmp_path / "trace.csv", unit="snr-db@0.5w", noise_w=1.0)
    np.testing.assert_allclose(found, [[20.0, 200.0]], rtol=1e-14)


def test_a_unit_in_the_metadata_of_parquet_is_read(tmp_path):
    table = pa.table({"a": [1.0]}).replace_schema_metadata({"unit": "mbit/s"})
    pq.write_table(table, tmp_path / "trace.parquet")
    assert Trace.read(tmp_path / "trace.parquet").gain.tolist() == [[1e6]]
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "bare.parquet")
    with pytest.raises(InputError, match="does not say what its numbers"):
        read_trace(tmp_path / "bare.parquet")


def test_a_rate_needs_the_link_to_become_a_gain(tmp_path):
    (tmp_path / "trace.csv").write_text("a_mbps\n1\n")
    with pytest.raises(InputError, match=r"bandwidth_hz is missing: numbers in mbit/s@0\.2w "):
        read_trace(tmp_path / "trace.csv", unit="mbit/s@0.2w")
    with pytest.raises(InputError, match="noise_w is missing"):
        read_trace(tmp_path / "trace.csv", unit="mbit/s@0.2w", bandwidth_hz=1e6)


def test_rates_and_gains_with_the_same_numbers_have_different_digests():
    numbers = np.ones((2, 2))
    assert Trace(numbers).sha256 != Trace(numbers, quantity="rate").sha256


def test_wrappers_and_models_say_what_they_yield():
    rates = Trace(np.ones((1, 2)), quantity="rate")
    assert Floored(Intermittent(rates, np.ones(2)), 0.5).quantity == "rate"
    assert make_channel("pathloss", 3).quantity == "gain"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gain@1w", "has a power, and a gain has none"),
        ("snr-db@loud", "has no power after the @"),
        ("snr-db@-1w", "must be a positive finite number|has no power after the @"),
        ("snr-db@", "has no power after the @"),
        ("snr-db@1e999dbm", "has no power|positive finite"),
        ("kB/s", "'kB/s' may be bits or bytes; write kbit/s or kbyte/s"),
    ],
)
def test_a_text_that_is_no_unit_is_answered_with_what_is(text, message):
    with pytest.raises(InputError, match=message):
        parse_unit(text)


def test_an_unknown_unit_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unit: 'mbit' is not known; did you mean 'mbit/s'"):
        parse_unit("mbit")


def test_a_model_has_no_unit():
    with pytest.raises(InputError, match="the channel 'rician' is a model, which yields gains"):
        make_channel("rician", 3, unit="mbit/s")


def test_a_bare_db_in_a_name_is_not_taken_for_a_gain():
    assert named_unit("device_0_db") is None
    assert named_unit("") is None
    assert named_unit("phone_snr_dB") == Unit("snr-db")
    with pytest.raises(InputError, match="needs the transmit power"):
        complete_unit("here", parse_unit("SNR dB"))
