import inspect
import pkgutil
import subprocess
import sys

import pytest

import fedsched

HEAVY = ("torch", "flwr", "ray", "pyarrow", "matplotlib", "scipy", "sklearn", "pandas", "PIL")


def imported_by(code):
    """Which of the heavy packages a fresh interpreter has imported after running the code."""
    check = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    assert imported_by("import fedsched") == []


def test_using_any_public_name_imports_nothing_heavy():
    assert imported_by("import fedsched\n[getattr(fedsched, n) for n in fedsched.__all__]") == []


@pytest.mark.parametrize(
    "layer", ["core", "radio", "policies", "runs", "analysis", "views", "rounds"]
)
def test_no_module_outside_learning_imports_anything_heavy(layer):
    names = [f"fedsched.{layer}"]
    if layer != "rounds":
        package = __import__(f"fedsched.{layer}", fromlist=["__path__"])
        names += [
            f"fedsched.{layer}.{info.name}" for info in pkgutil.iter_modules(package.__path__)
        ]
    names = [name for name in names if name != "fedsched.runs.experiment"]  # it trains
    assert imported_by("".join(f"import {name}\n" for name in names)) == []


def test_a_heavy_import_would_be_noticed():
    assert imported_by("import scipy") == ["scipy"]


def test_the_public_names_are_listed_in_order_and_once():
    # The linter's order: constants, then classes, then functions, each by name.
    def order(name):
        return (not name.isupper(), not name[0].isupper(), name)

    assert list(fedsched.__all__) == sorted(set(fedsched.__all__), key=order)
    assert len(fedsched.__all__) > 0


def test_every_public_name_exists_and_is_documented():
    for name in fedsched.__all__:
        value = getattr(fedsched, name)
        text = inspect.getdoc(value) or ""
        # A dataclass without a docstring gets its signature for one.
        assert text.strip() and not text.startswith(f"{name}("), f"{name} has no docstring"


def test_every_public_object_is_listed():
    public = {
        name
        for name, value in vars(fedsched).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public <= set(fedsched.__all__)
