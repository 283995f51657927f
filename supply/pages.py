"""What follows from pins and installed packages: a page of licences, and the wheel's SBOM."""

import json
import tomllib
from typing import Any

from supply.packages import ROOT, Package, asked_for, packages

LICENCES, SBOM = ROOT / "docs" / "licences.md", ROOT / "sbom.cdx.json"
_HEAD = """\
# Licences

What fedsched needs, at the versions it was tested with, and the licences that these packages
state. None is part of fedsched's wheel. `python -m supply pages` writes this page from what is
installed, and a test holds it to that.

"""
_SHIPPED = ("", "torch", "report", "flower", "ray", "tensorboard")  # what users install


def licences() -> str:
    """The page."""
    by_extra, rows = asked_for(), packages()
    named: dict[str, list[str]] = {}
    for extra in _SHIPPED:
        for name in by_extra[extra]:
            named.setdefault(name, []).append(extra or "fedsched itself")
    head, line = "| package | version | licence |", "|---|---|---|"
    own = [_row(each, ", ".join(named[each.name])) for each in rows if each.name in named]
    others = [_row(each, "") for each in rows if each.name not in named]
    return (
        f"{_HEAD}{head} asked for by |\n{line}---|\n{''.join(own)}\n"
        "What these packages and the project's own tools need:\n\n"
        f"{head}\n{line}\n{''.join(others)}"
    )


def _row(package: Package, asked: str) -> str:
    cells = [package.name, package.version, package.licence, *([asked] if asked else [])]
    return f"| {' | '.join(cells)} |\n"


def sbom() -> str:
    """A bill of materials in CycloneDX: fedsched and what it asks for, with tested versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version, by_extra = project["name"], project["version"], asked_for()
    needed = set(by_extra[""])
    wanted = {each for extra in _SHIPPED for each in by_extra[extra]}
    mine = f"pkg:pypi/{name}@{version}"
    parts = [each for each in packages() if each.name in wanted]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": _component(name, version, project["license"], "required")
            | {"description": project["description"]},
        },
        "components": [
            _component(p.name, p.version, p.licence, "required" if p.name in needed else "optional")
            for p in parts
        ],
        "dependencies": [
            {"ref": mine, "dependsOn": [_reference(p.name, p.version) for p in parts]}
        ],
    }
    return json.dumps(bill, indent=2) + "\n"


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _component(name: str, version: str, licence: str, scope: str) -> dict[str, Any]:
    reference = _reference(name, version)
    return {
        "type": "library", "bom-ref": reference, "name": name, "version": version,
        "scope": scope, "licenses": [{"expression": licence}], "purl": reference,
    }  # fmt: skip


def write() -> None:
    """Both files."""
    LICENCES.write_text(licences(), encoding="utf-8")
    SBOM.write_text(sbom(), encoding="utf-8")
