"""Checksums of everything that is installed, as an index states them, in requirements.lock."""

import json
import re
import urllib.request
from pathlib import Path

from supply.packages import ROOT, normal, pins

LOCK = ROOT / "requirements.lock"
# Torch has builds with and without CUDA, each in an index of its own.
WITHOUT = {"torch"}
_LINK = re.compile(r'<a href="[^"#]*/(?P<file>[^"/#]+)#sha256=(?P<sha256>[0-9a-f]{64})"')
_WHEEL = re.compile(r"(py2\.)?py3-|-cp31[123]-|-cp3\d+-abi3-|-py310\.|-abi3-")
_SYSTEM = re.compile(r"-any\.whl$|linux(_2_\d+|2014|2010|1)?_(x86_64|aarch64)|macosx|^$")
_HEAD = """\
# SHA-256 of the files of every pinned package, as the index states them: sources, and wheels for
# Linux and macOS. `python -m supply lock` writes it. Torch is not here: which build is right
# depends on the machine.
"""


def of_version(file: str, name: str, version: str) -> bool:
    """Whether a file is a source or a usable wheel of that version."""
    stem = re.escape(name).replace(r"\-", "[-_.]+")
    if re.fullmatch(rf"{stem}-{re.escape(version)}\.(tar\.gz|zip)", file, re.IGNORECASE):
        return True
    wheel = re.match(rf"{stem}-{re.escape(version)}(-\d\w*)?-(.*)\.whl$", file, re.IGNORECASE)
    return bool(wheel and _WHEEL.search(file) and _SYSTEM.search(file))


def checksums(page: str, name: str, version: str) -> list[str]:
    """Those of a version, from a page of an index."""
    found = {
        link["sha256"] for link in _LINK.finditer(page) if of_version(link["file"], name, version)
    }
    return sorted(found)


def write(index: str) -> None:
    """Ask an index for every package."""
    lines = [_HEAD]
    for name, version in sorted(pins().items()):
        if name in WITHOUT:
            continue
        with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/") as answer:
            found = checksums(answer.read().decode(), name, version)
        if not found:
            raise SystemExit(f"the index has no checksum for {name} {version}")
        hashes = "".join(f" \\\n    --hash=sha256:{each}" for each in found)
        lines.append(f"{name}=={version}{hashes}\n")
    LOCK.write_text("".join(lines), encoding="utf-8")


def locked(path: Path = LOCK) -> dict[tuple[str, str], set[str]]:
    """Checksums by name and version."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if "==" in line and not line.startswith("#"):
            name, version = line.split()[0].split("==")
            found[name, version] = set(re.findall("sha256:([0-9a-f]{64})", line))
    return found


def differing(report: Path, lock: Path = LOCK) -> list[str]:
    """What pip's report says it installed and the lock does not know, in sentences."""
    known, wrong = locked(lock), []
    for item in json.loads(report.read_text(encoding="utf-8"))["install"]:
        name, version = normal(item["metadata"]["name"]), item["metadata"]["version"]
        archive = item["download_info"].get("archive_info")
        if archive is None or name in WITHOUT:  # our own folder, or torch
            continue
        sha256 = archive.get("hashes", {}).get("sha256", archive.get("hash", "").rpartition("=")[2])
        if (name, version) not in known:
            wrong.append(f"{name} {version} is not in {lock.name}")
        elif sha256 not in known[name, version]:
            wrong.append(f"{name} {version} has the checksum {sha256}, which is none of its files")
    return wrong
