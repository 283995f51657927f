"""The package without its repository: built once, unpacked elsewhere, used there."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What needs nothing of the repository but itself.
CORE = (
    "solve/test_power.py", "solve/test_fixed_size.py", "policies/test_designs.py",
    "radio/test_units.py", "test_public_names.py", "test_errors.py", "cli/test_policies.py",
)  # fmt: skip
SCENARIO = """
[run]
rounds = 4
eval_every = 1
seed = 1
[channel]
devices = 10
[data]
samples = 20
[training]
model = "softmax"
steps = 2
"""
pytestmark = pytest.mark.slow


def built(target, source, folder):
    """The one file that the build makes of a source tree."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel made of the source distribution, as an index would get it."""
    source = built("sdist", ROOT, tmp_path_factory.mktemp("sdist"))
    tree = tmp_path_factory.mktemp("tree")
    with tarfile.open(source) as archive:
        archive.extractall(tree, filter="data")
    (tree,) = tree.iterdir()
    return built("wheel", tree, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(installed, place, *arguments):
    """Python with the unpacked wheel in front of everything, in a folder of the user's."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"},
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_what_the_package_has_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("fedsched/")}
        outside = {name.split("/")[0] for name in archive.namelist()} - {"fedsched"}
    source = ROOT / "src"
    files = {
        each.relative_to(source).as_posix()
        for each in (source / "fedsched").rglob("*")
        if each.is_file() and not {"__pycache__", "kernel"} & {*each.parts}
    }
    compiled = {name for name in files if name.endswith(".so")}
    assert files - compiled == {name for name in inside if not name.endswith(".so")}
    assert any(name.startswith("fedsched/solve/_kernel") for name in inside)
    assert all(name.endswith(".dist-info") for name in outside)


def test_its_commands_work_in_an_empty_folder(installed, tmp_path):
    def fedsched(*arguments):
        return python(installed, tmp_path, "-m", "fedsched", *arguments)

    where = python(installed, tmp_path, "-c", "import fedsched; print(fedsched.__file__)")
    assert Path(where.strip()).is_relative_to(installed)
    (tmp_path / "small.toml").write_text(SCENARIO)
    assert '"auto"' in fedsched("schedule", "--rounds", "20", "--json")
    fedsched("run", "small.toml", "--out", "runs/one")
    fedsched("report", "runs", "-o", "report.html")
    fedsched("plot", "runs", "--kind", "convergence", "-o", "figure.pdf")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_the_core_tests_pass_on_it(installed, tmp_path):
    chosen = [str(ROOT / "tests" / name) for name in CORE]
    flags = ["-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "--rootdir", str(ROOT)]
    said = python(installed, tmp_path, "-m", "pytest", *flags, *chosen)
    assert "passed" in said
