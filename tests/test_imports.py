import math

import pytest

from fedsched.errors import InputError
from fedsched.imports import import_object


def test_an_import_path_gives_the_object():
    assert import_object("model", "math:sqrt") is math.sqrt


@pytest.mark.parametrize("path", ["math", "math:", ":sqrt", ".mine:Net"])
def test_a_path_without_both_halves_is_refused(path):
    with pytest.raises(InputError, match=r"model: .* write it as 'package.module:name'"):
        import_object("model", path)


def test_a_module_that_does_not_exist_is_named_with_the_remedy():
    with pytest.raises(InputError, match=r"No module named 'nowhere'.*PYTHONPATH"):
        import_object("dataset", "nowhere:data")


def test_a_name_the_module_lacks_is_named():
    with pytest.raises(InputError, match="the module 'math' has no 'squirt'"):
        import_object("dataset", "math:squirt")
