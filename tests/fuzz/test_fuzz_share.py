"""A share of `make fuzz`."""

import logging

import pytest
from tests.fuzz.everything import fuzz
from tests.fuzz.targets import TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_does_harm(name, caplog):
    caplog.set_level(logging.CRITICAL)
    inputs = max(20, TARGETS[name][1] // 500)
    assert fuzz(name, inputs, seed=1)[0] >= inputs
