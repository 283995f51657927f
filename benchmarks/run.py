"""Run all measurements and write them to ``benchmarks/results``."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks import auto, compression, scheduler, training
from benchmarks.notes import Notes

RESULTS = Path(__file__).parent / "results"


def machine():
    """What kind of machine this is; nothing that tells which."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "pymanopt": version("pymanopt"),
        "load": round(os.getloadavg()[0], 1),
    }


def _cpu_model():
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def sentence(kind):
    return (
        f"{kind['cpu']}, {kind['cores']} cores (one used), Python {kind['python']}, "
        f"NumPy {kind['numpy']}, SciPy {kind['scipy']}, pymanopt {kind['pymanopt']}; "
        f"load {kind['load']} when the run began."
    )


def write_scheduler():
    """Measure the scheduler and write its page."""
    kind = machine()
    print(sentence(kind))
    result = {"machine": kind, **scheduler.measure()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2)
    (RESULTS / "scheduler.json").write_text(text + "\n", encoding="utf-8")
    page = f"# The scheduler\n\n{sentence(kind)}\n\n{scheduler.as_markdown(result)}\n"
    (RESULTS / "scheduler.md").write_text(page, encoding="utf-8")
    print(f"\n{page}")


def main():
    write_scheduler()
    print(auto.write(every=1, of=1, notes=Notes(None)))
    print(compression.write(compression.page()))
    print(training.write(training.measure()))


if __name__ == "__main__":
    main()
