import numpy as np
import pytest

from fedsched.errors import UnknownNameError
from fedsched.radio.access import ACCESSES, make_access

UPLOADS = np.array([0.5, 2.0, 0.25])


def test_devices_that_take_turns_add_up():
    assert make_access("tdma").uploads_s(UPLOADS) == 2.75


def test_of_devices_that_send_at_once_the_slowest_decides():
    assert make_access("parallel").uploads_s(UPLOADS) == 2.0


@pytest.mark.parametrize("access", ACCESSES)
def test_a_round_without_devices_takes_no_time(access):
    assert make_access(access).uploads_s(np.empty(0)) == 0.0


def test_another_access_is_refused_and_the_nearest_named():
    with pytest.raises(UnknownNameError, match=r"access: 'paralel' .* 'parallel'"):
        make_access("paralel").uploads_s(UPLOADS)
