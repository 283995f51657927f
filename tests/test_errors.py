import inspect
import pickle

import pytest

from fedsched import errors
from fedsched.errors import (
    FedschedError,
    InputError,
    MissingExtraError,
    RunLogError,
    SolveError,
    UnknownNameError,
    require,
)


def test_everything_raised_on_purpose_can_be_caught_at_once():
    classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert len(classes) == 6
    assert all(issubclass(error, FedschedError) for error in classes)


def test_the_tree_in_the_module_docstring_is_the_tree_of_classes():
    for name in errors.__all__:
        if inspect.isclass(getattr(errors, name)):
            assert name in errors.__doc__
    drawn = [word for word in errors.__doc__.split() if word.endswith("Error")]
    assert sorted(drawn) == sorted(n for n in errors.__all__ if n.endswith("Error"))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InputError, ValueError),
        (UnknownNameError, ValueError),
        (SolveError, ArithmeticError),
        (MissingExtraError, ImportError),
    ],
)
def test_an_error_is_also_the_builtin_a_caller_would_expect(error, builtin):
    assert issubclass(error, builtin)


def test_an_unknown_name_gets_the_nearest_known_one_and_the_list():
    message = str(UnknownNameError("policy", "unifrom", ["uniform", "full"]))
    assert message == (
        "policy: 'unifrom' is not known; did you mean 'uniform'? (known: full, uniform)"
    )


def test_a_name_like_no_other_gets_the_list_alone():
    message = str(UnknownNameError("policy", "xyz", ["uniform", "full"]))
    assert message == "policy: 'xyz' is not known (known: full, uniform)"


@pytest.mark.parametrize(
    "error",
    [
        InputError("v must be positive"),
        UnknownNameError("policy", "unifrom", ["uniform", "full"]),
        SolveError("not certified"),
        RunLogError("schema 2"),
        MissingExtraError("needs torch"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_home_from_a_worker_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_a_package_that_is_there_is_imported():
    assert require("xml.dom", extra="report", purpose="reading").__name__ == "xml.dom"


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it():
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_package.part", extra="report", purpose="writing Parquet")
    assert str(caught.value) == (
        "writing Parquet needs the package 'no_such_package', which is not installed; "
        "install it with: pip install 'fedsched[report]', or '.[report]' in the project's folder"
    )
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
