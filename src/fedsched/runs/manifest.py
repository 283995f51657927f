"""The manifest: what a run is, written once into its folder, under a checksum.

    schema, scenario, versions    and what follows from the scenario, such as the update size
    run                           the run's identity, by which its other files name it
    sha256                        of all the rest

A manifest of an earlier version has neither of the last two and is read as it is.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from fedsched.errors import RunLogError
from fedsched.files import atomic_path, read_file

__all__ = [
    "LENGTH_FIELDS",
    "MANIFEST",
    "MODEL",
    "PACKED",
    "PACKED_DIGEST",
    "PACKED_ROUNDS",
    "ROUNDS",
    "SCHEMA",
    "checked",
    "common_computation_s",
    "is_sealed",
    "package_versions",
    "read_json",
    "read_manifest",
    "run_id",
    "save_json",
    "save_manifest",
    "write_manifest",
]

SCHEMA = 1
MANIFEST, ROUNDS, MODEL = "manifest.json", "rounds.arrows", "model.npz"
PACKED = "packed_finished"  # in the manifest of a packed copy: whether its run had come to its end
PACKED_ROUNDS = "packed_rounds"  # in that of a copy that can go on: the rounds that were packed
PACKED_DIGEST = "packed_sha256"  # in that of any copy: the checksum of its log
LENGTH_FIELDS = (
    ("run", "rounds"),
    ("run", "stop_accuracy"),
    ("run", "stop_after"),
)  # they say only when a run ends

_PACKAGES = ("fedsched", "numpy", "torch", "pyarrow")


def run_id(manifest: Mapping[str, Any]) -> str:
    """What tells a run from others: a digest of its scenario, its length aside, and of its trace.

    Runs with one identity have the same rounds, to the bit, as far as both go.
    """
    scenario = {
        part: {name: value for name, value in table.items() if (part, name) not in LENGTH_FIELDS}
        if isinstance(table, Mapping)
        else table
        for part, table in manifest["scenario"].items()
    }
    return _digest({"scenario": scenario, "trace": manifest.get("trace")})[:32]


def common_computation_s(manifest: Mapping[str, Any]) -> float:
    """Seconds that all devices of a run compute in every round, which its log leaves out.

    Where devices differ, or times are drawn, they are in the log, and this is 0.
    """
    uplink = manifest["scenario"].get("uplink", {})
    given = uplink.get("computation_s", 0.0)
    own = isinstance(given, list | tuple) or uplink.get("computation_spread", 0.0) > 0.0
    return 0.0 if own else float(given)


def is_sealed(manifest: Mapping[str, Any]) -> bool:
    """Whether the run's files name it and carry checksums; those of earlier versions do not."""
    return "run" in manifest


def package_versions() -> dict[str, str]:
    """The packages that the bits of a run may depend on."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def write_manifest(folder: Path, scenario: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write the manifest of a new run; ``about`` holds what is derived, such as the update size."""
    content = {"schema": SCHEMA, "scenario": scenario, **about, "versions": package_versions()}
    save_manifest(folder, {**content, "run": run_id(content)})


def save_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Put a manifest into a folder; its checksum is made anew."""
    save_json(folder / MANIFEST, content)


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write values to a file, with a checksum of them."""
    values = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps({**values, "sha256": _digest(values)}, indent=2, sort_keys=True)
    with atomic_path(path) as aside:
        aside.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a file."""
    found = read_file(path)
    try:
        content = json.loads(found)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise RunLogError(f"{str(path)!r} is damaged: it is not an object in JSON; {remedy}")
    return content


def checked(path: Path, content: dict[str, Any], remedy: str) -> dict[str, Any]:
    """What a file holds, refused if it does not match the checksum in it."""
    values = {name: value for name, value in content.items() if name != "sha256"}
    if content.get("sha256") != _digest(values):
        raise RunLogError(
            f"{str(path)!r} is damaged or was edited: it does not match its checksum; {remedy}"
        )
    return content


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder, refused if it is damaged or of another schema."""
    path = folder / MANIFEST
    remedy = "bring it back from a copy, or delete the folder and run again"
    try:
        content = read_json(path, remedy)
    except OSError as error:
        raise RunLogError(
            f"{str(folder)!r} is not a run folder: {MANIFEST} cannot be read ({error.strerror}); "
            "name one that `fedsched run` made"
        ) from None
    if "schema" not in content:
        raise RunLogError(f"{str(path)!r} is damaged: it names no schema; {remedy}")
    if content["schema"] != SCHEMA:
        raise RunLogError(
            f"{str(folder)!r} is of schema {content['schema']} and this version reads schema "
            f"{SCHEMA}; use the version of fedsched named in its manifest, or run it again"
        )
    # A checksum whose own name was damaged is missed, as other marks of a new file are there.
    if any(name in content for name in ("run", "sha256", PACKED_DIGEST)):
        checked(path, content, remedy)
    if not isinstance(content.get("scenario"), dict):
        raise RunLogError(f"{str(path)!r} is damaged: it has no scenario; {remedy}")
    return content


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
