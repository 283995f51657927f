import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

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


def test_neither_the_package_nor_its_help_waits_for_arrays():
    show = "import sys\nfrom fedsched.cli import main\nsys.argv = ['fedsched', '--help']\n"
    code = f"{show}try:\n  main()\nexcept SystemExit: pass\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print([m for m in ('numpy', 'rich') if m in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Commands:" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_type_checkers_see_the_names_that_are_found_late():
    tree = ast.parse(Path(fedsched.__file__).read_text(encoding="utf-8"))
    (block,) = (each for each in tree.body if ast.unparse(each).startswith("if typing.TYPE"))
    typed = {alias.name: each.module for each in block.body for alias in each.names}
    assert sorted(typed) == sorted(fedsched.__all__)
    for name, module in typed.items():
        assert getattr(fedsched, name) is getattr(importlib.import_module(module), name)


def test_parts_of_the_package_are_found_late_and_other_names_are_not():
    code = "import fedsched; fedsched.radio.Rayleigh; assert 'schedule' in dir(fedsched)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="module 'fedsched' has no attribute 'scheduel'"):
        _ = fedsched.scheduel


@pytest.mark.slow
def test_using_any_public_name_imports_nothing_heavy():
    assert imported_by("import fedsched\n[getattr(fedsched, n) for n in fedsched.__all__]") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer", ["solve", "radio", "policies", "runs", "analysis", "views", "rounds"]
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


ROOMS = ("policies", "radio", "learning", "analysis", "theory")


def test_the_rooms_for_users_import_nothing_heavy():
    assert imported_by("".join(f"from fedsched.{room} import *\n" for room in ROOMS)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_for_users_has_documented_names(room):
    module = importlib.import_module(f"fedsched.{room}")
    folder = Path(module.__file__).parent
    for name in module.__all__:
        value = getattr(module, name)
        assert not (folder / f"{name}.py").exists(), f"{name} hides the module of that name"
        assert not callable(value) or (inspect.getdoc(value) or "").strip(), f"{name} says nothing"


@pytest.mark.slow
def test_a_heavy_import_would_be_noticed():
    assert imported_by("import scipy") == ["scipy"]


def test_the_public_names_are_listed_once():
    assert len(fedsched.__all__) == len(set(fedsched.__all__))
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
