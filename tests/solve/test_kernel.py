"""The compiled kernel: the same bits from every build, and nothing read that is not there."""

import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsched.randomness import stream
from fedsched.solve import _kernel

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "src" / "fedsched" / "solve" / "kernel"


def answers(kernel, count=400):
    """All that a kernel says to a few hundred rounds of every kind, as bytes."""
    random, found = stream(91, "sampling"), []
    for place in range(count):
        devices, draws = (
            int(random.integers(1, 60)),
            int(random.choice([1, 2, 3, 5, 10, 100, 1000])),
        )
        gain = 10.0 ** random.uniform(-8, 8, (2, devices))
        queue = random.choice([0.0, 1.0, 1e3], (2, devices)) * 10.0 ** random.uniform(-3, 3)
        weight = 10.0 ** random.uniform(-3, 3, devices if place % 2 else 1)
        outputs = [np.zeros((2, devices)) for _ in range(4)]
        power, price, omega, q = outputs
        certificate = np.zeros((2, 4))
        design = place % 3 if place % 5 == 0 else 0
        status = kernel.decide(
            gain, queue, power, 8e3, 0.69, 1.0, 3e3, price, weight, omega, q, certificate,
            devices, design, draws, float(min(draws, devices)), 0.0, 1,
        )  # fmt: skip
        assert status == 0
        found += [each.tobytes() for each in (*outputs, certificate)]
    return b"".join(found)


def loaded(path):
    spec = importlib.util.spec_from_file_location("_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_set_of_instructions_gives_the_same_bits():
    names = _kernel.kernels()
    assert names[0] == "baseline"
    try:
        results = []
        for name in names:
            _kernel.use(name)
            results.append(answers(_kernel))
    finally:
        _kernel.use(names[-1])
    assert all(each == results[0] for each in results)


def commands():
    """Compilers to compare, by name: None where one is missing here."""
    zig = [sys.executable, "-I", "-m", "ziglang", "cc"]
    return {
        "gcc": shutil.which("gcc") and ["gcc"],
        "clang": shutil.which("clang") and ["clang"],
        "zig": importlib.util.find_spec("ziglang") and zig,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang", "zig"])
def test_every_compiler_gives_the_same_bits(name, tmp_path):
    command = commands()[name]
    if not command:
        pytest.skip(f"{name} is not installed: its bits are not compared")
    built = runpy.run_path(str(KERNEL / "build.py"))["build"](tmp_path, list(command))
    other = loaded(built)
    assert other.kernels() == _kernel.kernels()
    for kernel in other.kernels():
        other.use(kernel)
        assert answers(other) == answers(_kernel), kernel


@pytest.mark.slow
def test_a_device_far_beyond_its_wish_opens_the_gap(tmp_path):
    # F is 0 there, as at the minimum. A kernel that lets the first device take half shows it.
    sources = shutil.copytree(KERNEL, tmp_path / "kernel")
    answer = (sources / "answer.c").read_text(encoding="utf-8")
    place = "    rest = total(d->omega, n - 1);\n"
    wrong = answer.replace(place, "    d->omega[0] = 0.5;\n" + place)
    assert wrong != answer
    (sources / "answer.c").write_text(wrong, encoding="utf-8")
    other = loaded(runpy.run_path(str(sources / "build.py"))["build"](tmp_path))
    price, omega, q, certificate = np.array([5.0, 3.0, 0.5]), np.empty(3), np.empty(3), np.empty(4)
    for kernel, gap in ((_kernel, 0.0), (other, 6.0 - 2.0 * 5.0**0.5)):
        kernel.solve(price, np.ones(1), omega, q, certificate, 3, 0, 1000, 1.0, 0.0, 1)
        assert certificate[2] * certificate[0] == pytest.approx(gap, abs=1e-9)


def test_no_name_of_another_processor_is_taken():
    with pytest.raises(ValueError, match="no such kernel"):
        _kernel.use("z80")


def arguments(**changed):
    """Valid arguments of solve for two rounds of three devices."""
    usual = {
        "price": np.ones((2, 3)), "weight": np.ones(1), "omega": np.empty((2, 3)),
        "q": np.empty((2, 3)), "certificate": np.empty((2, 4)), "devices": 3, "design": 0,
        "draws": 2, "size": 1.0, "floor": 0.0, "threads": 1,
    }  # fmt: skip
    return list((usual | changed).values())


@pytest.mark.parametrize(
    "changed",
    [
        {"price": np.ones((2, 3), dtype=np.float32)},
        {"price": np.ones((2, 3), dtype=np.int64)},
        {"price": np.ones((2, 3)).astype(">f8")},
        {"price": np.ones((2, 6))[:, ::2]},
        {"price": np.ones(5)},
        {"price": [1.0, 2.0, 3.0]},
        {"weight": np.ones(2)},
        {"weight": np.ones(7)},
        {"weight": np.ones(0)},
        {"omega": np.empty((2, 2))},
        {"omega": None},
        {"q": np.empty(5)},
        {"q": np.broadcast_to(np.ones(1), (2, 3))},
        {"certificate": np.empty(7)},
        {"devices": 0},
        {"devices": -3},
        {"devices": 2**62},
        {"devices": 2**80},
        {"devices": 3.5},
        {"design": 3},
        {"draws": 0},
        {"draws": 2**70},
        {"threads": 0},
        {"floor": "a half"},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_what_does_not_fit_is_refused_and_never_read(changed):
    with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
        _kernel.solve(*arguments(**changed))


def test_a_read_only_output_is_refused():
    q = np.empty((2, 3))
    q.setflags(write=False)
    with pytest.raises((ValueError, BufferError)):
        _kernel.solve(*arguments(q=q))


@pytest.mark.parametrize("count", [0, 10, 12])
def test_another_number_of_arguments_is_refused(count):
    with pytest.raises(TypeError, match="11 arguments"):
        _kernel.solve(*(arguments() * 2)[:count])


@pytest.mark.parametrize(
    "changed",
    [
        {"price": np.array([[1.0, np.nan, 1.0]] * 2)},
        {"price": np.array([[1.0, -1.0, 1.0]] * 2)},
        {"price": np.array([[1.0, np.inf, 1.0]] * 2)},
        {"weight": np.zeros(1)},
        {"weight": np.array([1.0, np.nan, 1.0])},
        {"floor": 1.0},
        {"floor": np.nan},
        {"design": 1, "size": 0.0},
        {"design": 1, "size": np.nan},
    ],
)
def test_numbers_that_make_no_sense_are_refused(changed):
    assert _kernel.solve(*arguments(**changed)) == -1


def test_the_interpreter_runs_on_while_the_kernel_works():
    price = stream(92, "sampling").uniform(1.0, 3.0, 1_000_000) * 1e12
    out = [np.empty_like(price), np.empty_like(price), np.empty(4)]
    started, events = threading.Event(), []

    def solve():
        started.set()
        _kernel.solve(price, np.ones(1), *out, len(price), 0, 10, 1.0, 0.0, 1)
        events.append("solved")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e6)  # nobody is interrupted: this thread runs when the other lets it
    try:
        worker = threading.Thread(target=solve)
        worker.start()
        started.wait()
        events.append("ran on")
        worker.join()
    finally:
        sys.setswitchinterval(before)
    assert events == ["ran on", "solved"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel as ``make wheel`` builds it, by the hook, without a network where hatchling is."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel can be built here: {done.stderr.strip().splitlines()[-1]}")
    [found] = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_decides_in_an_empty_environment(wheel, tmp_path):
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("fedsched/solve/_kernel.abi3") for name in names)
    assert not [name for name in names if name.endswith((".c", ".h"))]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    python = tmp_path / "bin" / "python"
    [site] = tmp_path.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    # What it needs at run time, from the environment of the tests.
    needed = Path(np.__file__).parents[1]
    (site / "needed.pth").write_text(f"{needed}\n", encoding="utf-8")
    code = (
        "import fedsched; print(fedsched.__file__);"
        "print(fedsched.decide([1.0, 2.0], [0.0, 3.0], uplink=fedsched.PAPER_UPLINK,"
        " v=100.0, lam=100.0, draws=2).gap < 1e-9)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    where, answer = done.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path)
    assert answer == "True"


def test_without_a_compiler_one_sentence_says_what_to_install(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "CC"} | {"PATH": str(tmp_path)}
    code = (
        "import runpy, sys; import importlib.util as u; real = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'ziglang' else real(name, *a);"
        f"runpy.run_path({str(KERNEL / 'build.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "install gcc or clang, or run `pip install ziglang`" in done.stderr
