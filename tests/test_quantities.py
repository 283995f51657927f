import math

import pytest

from fedsched.errors import InputError
from fedsched.quantities import parse_number, parse_whole


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("target", "0.8", 0.8),
        ("target", "80%", 0.8),
        ("target", "77.5 %", 0.775),
        ("budgets.duty_cycle", "0.1%", 0.001),  # rounded once: 0.1 / 100 is another number
        ("uplink.bandwidth_hz", "20MHz", 20e6),
        ("uplink.bandwidth_hz", "180 kHz", 180e3),
        ("uplink.max_power_w", "23dBm", 10**-0.7),
        ("uplink.max_power_w", "-10dBm", 1e-4),
        ("max_power_w", "200mW", 0.2),
        ("computation-s", "500ms", 0.5),
        ("computation_s", "2min", 120.0),
        ("budgets.energy_j_per_day", "2Wh", 7200.0),
        ("knowledge.error_db", "3dB", 3.0),
        ("uplink.bits", "4Mbit", 4e6),
        ("uplink.bits", "0.5MB", 4e6),
        ("budgets.bytes_per_day", "10MB", 1e7),
        ("policy.lam", ".5e-3", 0.5e-3),
        ("uplink.budget_w", "inf", math.inf),
    ],
)
def test_a_number_is_read_in_the_unit_of_its_field(field, text, value):
    assert parse_number(field, text) == pytest.approx(value, rel=1e-15 if "dBm" in text else 0)


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("bandwidth_hz", "20dBm", "'20dBm' has the unit 'dBm', which is not known here"),
        ("bandwidth_hz", "20mhz", "did you mean 'MHz'"),
        ("max_power_w", "1MW", r"'1MW' has the unit 'MW'"),  # not a milliwatt, by far
        ("bandwidth_hz", "80%", "has the unit '%'"),
        ("uplink.bits", "4Mb", "has the unit 'Mb'"),  # bits or bytes, who knows
        ("target", "many", "target must be a number, got 'many'"),
        ("lam", "1e999", "lam must be a number below 1e308"),
        ("lam", "1e99999999999999999999", "lam must be a number below 1e308"),
        ("max_power_w", "99999dBm", "max_power_w must be a number below 1e308"),
    ],
)
def test_what_is_no_number_of_the_field_is_refused(field, text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_number(field, text)


@pytest.mark.parametrize(
    ("text", "value"), [("1e3", 1000), ("2.5e1", 25), ("7", 7), ("-1", -1), (f"{2**62}", 2**62)]
)
def test_whole_numbers_are_written_as_one_likes(text, value):
    assert parse_whole("rounds", text) == value
    assert type(parse_whole("rounds", text)) is int


@pytest.mark.parametrize("text", ["2.5", "1e-3", "100%", "inf", "many", "1e999", "5kHz"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(InputError, match=f"rounds must be a whole number, got '{text}'"):
        parse_whole("rounds", text)
