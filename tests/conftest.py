"""What all tests share: a collection without the garbage collector."""

import gc

import pytest

# Modules, functions and the list of tests live until the end: looking for garbage among them took
# half of the time of collecting.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    gc.freeze()
    gc.enable()
