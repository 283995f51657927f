"""A virtual environment for each peer, made once and kept in the cache."""

import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path

from fedsched.learning.cifar10 import cache_directory

# Torch first and alone, and held: asked for by another package it would bring gigabytes of CUDA.
TORCH = "torch==2.13.0"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What to install, and where."""

    name: str  # of the folder
    requirement: str  # what pip is asked for
    package: str  # whose version is told


def install(environment: Environment) -> tuple[str, str]:
    """The environment's interpreter and its package with version; made at the first call.

    Raises:
        subprocess.CalledProcessError: if pip fails, for instance without a network.
    """
    folder = cache_directory() / "bench" / environment.name
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        print(f"  installing {environment.requirement} (once, some minutes)", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        constraints = folder / "constraints.txt"
        constraints.write_text(f"{TORCH}\n", encoding="utf-8")
        for requirement in (TORCH, environment.requirement):
            _pip(python, "--constraint", str(constraints), requirement)
        stamp.write_text(_version(python, environment.package), encoding="utf-8")
    return str(python), stamp.read_text(encoding="utf-8")


def _pip(python: Path, *arguments: str) -> None:
    # Without a network pip shall give up in a minute, not in a quarter of an hour.
    patience = ("--retries", "2", "--timeout", "20")
    command = (str(python), "-m", "pip", "install", "--quiet", *patience, *arguments)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def _version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    answer = subprocess.run((str(python), "-c", code), check=True, capture_output=True, text=True)
    return f"{package} {answer.stdout.strip()}"
