"""Compiles the kernel. As a script: into the package beside it.

One extension on the stable ABI. The kernel is compiled once for every set of instructions that
module.c can choose from, with the same flags, so that all give the same bits.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
NO_COMPILER = (
    "fedsched needs a C compiler to be installed from source: install gcc or clang, or run "
    "`pip install ziglang` and name it with CC='python -I -m ziglang cc'"
)
# No fused multiply-add, and nothing that reorders: IEEE 754 to the letter. sqrt is an instruction.
FLAGS = (
    "-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
    "-fPIC", "-fvisibility=hidden",
)  # fmt: skip
# By the name of their kernel; module.c asks the processor which it has.
X86 = {"baseline": (), "avx2": ("-march=x86-64-v3",), "avx512": ("-march=x86-64-v4",)}
ELSEWHERE: dict[str, tuple[str, ...]] = {"baseline": ()}


def compiler() -> list[str]:
    """The command of a C compiler: CC, a usual name, or the one that ziglang brings."""
    if chosen := os.environ.get("CC"):
        return shlex.split(chosen)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if find_spec("ziglang"):
        return [sys.executable, "-I", "-m", "ziglang", "cc"]
    raise SystemExit(NO_COMPILER)


def build(folder: Path, command: list[str] | None = None) -> Path:
    """Compile and link ``_kernel`` into the folder, with CFLAGS if given; returns the extension."""
    cc = [*(command or compiler()), *shlex.split(os.environ.get("CFLAGS", ""))]
    x86 = platform.machine() in ("x86_64", "AMD64")
    target = folder / ("_kernel.pyd" if os.name == "nt" else "_kernel.abi3.so")
    include = f"-I{sysconfig.get_paths()['include']}"
    with tempfile.TemporaryDirectory() as place:
        objects = []
        for name, flags in (X86 if x86 else ELSEWHERE).items():
            objects.append(f"{place}/{name}.o")
            _run([*cc, *FLAGS, *_zig(cc, flags), f"-DKERNEL={name}", "-c", str(HERE / "kernel.c"),
                  "-o", objects[-1]])  # fmt: skip
        objects.append(f"{place}/module.o")
        variants = ("-DKERNEL_VARIANTS",) if x86 else ()
        _run([*cc, *FLAGS, *variants, include, "-c", str(HERE / "module.c"), "-o", objects[-1]])
        # Linked beside its place and moved there: a running process keeps the one it has loaded.
        linked = folder / f".{target.name}.{os.getpid()}"
        _run([*cc, *_link(), *objects, "-o", str(linked)])
        linked.replace(target)
    return target


def _zig(cc: list[str], flags: tuple[str, ...]) -> tuple[str, ...]:
    """Zig spells the names of processors with underscores."""
    return tuple(f.replace("-64-", "_64_") for f in flags) if "ziglang" in cc else flags


def _link() -> list[str]:
    if sys.platform == "darwin":
        return ["-bundle", "-undefined", "dynamic_lookup"]
    if os.name == "nt":
        return ["-shared", f"-L{Path(sys.base_prefix) / 'libs'}", "-lpython3"]
    return ["-shared", "-pthread"]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"the kernel of fedsched could not be compiled: {shlex.join(command)}\n{done.stderr}"
        )


if __name__ == "__main__":
    sys.stdout.write(f"{build(HERE.parent)}\n")
