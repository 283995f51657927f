"""The packages of constraints.txt: versions, licences, and what asks for them."""

import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?")
# Licences as people name them, to the identifiers of SPDX.
_SPDX = {
    "apache 2.0": "Apache-2.0", "apache software license": "Apache-2.0", "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause", "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause", "isc license": "ISC", "isc license (iscl)": "ISC",
    "mit license": "MIT", "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0", "public domain": "Unlicense",
}  # fmt: skip
# What a wheel says too little of, read in its own licence file.
_READ = {"packaging": "Apache-2.0 OR BSD-2-Clause", "pycryptodome": "BSD-2-Clause AND Unlicense",
         "uvloop": "MIT OR Apache-2.0", "ziglang": "MIT"}  # fmt: skip


@dataclass(frozen=True)
class Package:
    """A pinned package."""

    name: str  # as packages compare names
    version: str
    licence: str  # an expression of SPDX; "" where it is not installed and so not known


def normal(name: str) -> str:
    """A name as packages compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """Versions by name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {normal(name): version.strip() for name, version in pairs}


def installed(name: str) -> Distribution | None:
    """What is installed of that name."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence_of(name: str) -> str:
    """The licence that an installed package states, as an expression of SPDX."""
    found = installed(name)
    if name in _READ:
        return _READ[name]
    if found is None:
        return ""
    about = found.metadata
    if stated := about.get("License-Expression"):
        return str(stated)
    classes = [
        each.split("::")[-1].strip().lower()
        for each in about.get_all("Classifier", [])
        if each.startswith("License")
    ]
    words = str(about.get("License") or "").strip()
    short = [words] if words and "\n" not in words and words != "UNKNOWN" else []
    for each in (*short, *classes):
        return _SPDX.get(each.lower(), each)
    raise SystemExit(f"{name} does not state its licence; read it, and note it in {__file__}")


def packages() -> list[Package]:
    """Every pinned package, by name."""
    return [Package(n, version, licence_of(n)) for n, version in sorted(pins().items())]


def asked_for() -> dict[str, list[str]]:
    """What fedsched itself needs and what its extras do: packages by extra, "" for itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}

    def direct(extra: str) -> set[str]:
        found: set[str] = set()
        for requirement in extras[extra]:
            name, others = _REQUIREMENT.match(requirement).groups()  # type: ignore[union-attr]
            if normal(name) != "fedsched":
                found.add(normal(name))
            else:
                found |= set().union(*(direct(each.strip()) for each in others.split(",")))
        return found

    return {extra: sorted(direct(extra)) for extra in extras}
