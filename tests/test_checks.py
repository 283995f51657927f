import math

import numpy as np
import pytest

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.errors import InputError


def test_numbers_of_any_kind_become_float64():
    array = finite_array("gain", [1, 2], allow_zero=False)
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0]
    assert finite_array("gain", [], allow_zero=False).size == 0


def test_zero_is_allowed_only_where_it_is_said_to_be():
    assert finite_array("queue", [0.0, 1.0], allow_zero=True).tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match=r"gain\[0\] must be finite and positive, got 0.0"):
        finite_array("gain", [0.0, 1.0], allow_zero=False)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-300])
@pytest.mark.parametrize("allow_zero", [True, False])
def test_the_first_refused_value_is_named_with_its_place(bad, allow_zero):
    values = np.ones((2, 3))
    values[1, 2] = bad
    with pytest.raises(InputError, match=rf"price\[1, 2\] must be .* got {bad}; 1 of 6 values"):
        finite_array("price", values, allow_zero=allow_zero)


def test_a_single_number_has_no_place():
    with pytest.raises(InputError, match="weight must be finite and positive, got nan"):
        finite_array("weight", math.nan, allow_zero=False)


@pytest.mark.parametrize("values", ["many", [1.0, "x"], [[1.0], [1.0, 2.0]], [None, object()]])
def test_what_is_no_array_of_numbers_is_shown(values):
    with pytest.raises(InputError, match="gain must be"):
        finite_array("gain", values, allow_zero=False)


def test_positive_numbers_pass_as_floats():
    assert positive_number("cost", 3) == 3.0
    assert positive_number("lam", 0.0, allow_zero=True) == 0.0


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_other_numbers_are_refused_by_name(value):
    with pytest.raises(InputError, match=f"cost must be a positive finite number, got {value}"):
        positive_number("cost", value)


@pytest.mark.parametrize("value", ["1", None, True, [1.0]])
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(InputError, match="cost must be a positive finite number, got"):
        positive_number("cost", value)


def test_a_negative_number_is_refused_where_zero_is_allowed():
    with pytest.raises(InputError, match="lam must be a finite number, zero or more, got -1"):
        positive_number("lam", -1.0, allow_zero=True)


def test_whole_numbers_of_any_integer_type_pass():
    assert whole_number("draws", np.int32(4)) == 4
    assert whole_number("rounds", 0, least=0) == 0


@pytest.mark.parametrize("value", [0, -3, 2.0, True, "5", None])
def test_what_is_no_whole_number_is_refused_by_name(value):
    with pytest.raises(InputError, match=f"draws must be a whole number of at least 1, .*{value}"):
        whole_number("draws", value)
