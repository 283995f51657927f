import math

import pytest

from fedsched.errors import InputError
from fedsched.imports import import_object, made_by


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


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module where it is found."""
    monkeypatch.chdir(tmp_path)

    def written(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return written


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("no_syntax", "def f(:\n", r"SyntaxError: .*no_syntax.py, line 1"),
        ("raises_alone", "x = 1\nx / 0\n", r"ZeroDivisionError: .* \(raises_alone.py, line 2\)"),
    ],
)
def test_a_module_that_cannot_be_run_is_named_with_its_line(module, name, text, said):
    with pytest.raises(InputError, match=f"policy: importing '{name}:X' raised {said}"):
        import_object("policy", f"{module(name, text)}:X")


def test_an_object_that_wants_other_arguments_is_named(module):
    path = module("wants_more", "def f(a, b):\n    return a\n") + ":f"
    with pytest.raises(InputError, match=r"channel: 'wants_more:f' is called with 1 argument \("):
        made_by("channel", path, 5)
    with pytest.raises(InputError, match=r"called with no arguments .*give all of them defaults"):
        made_by("aggregator", path)


def test_an_object_that_cannot_be_called_is_named():
    with pytest.raises(InputError, match="dataset: 'math:pi' cannot be called, it is a float"):
        made_by("dataset", "math:pi")


def test_an_object_that_raises_is_named_with_its_line(module):
    path = module("raises_in", "def f(a):\n    return [][a]\n") + ":f"
    with pytest.raises(InputError, match=r"raised IndexError: .* \(raises_in.py, line 2\)"):
        made_by("channel", path, 5)
