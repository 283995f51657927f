"""Checksums, licences and the bill of materials say what is pinned and installed."""

import json
import zipfile
from pathlib import Path

import pytest
from supply.lock import WITHOUT, checksums, differing, locked
from supply.packages import ROOT, asked_for, installed, packages, pins
from supply.pages import LICENCES, SBOM, licences, sbom

HASH = "ab" * 32


def test_every_pinned_package_has_checksums():
    known = locked()
    assert known.keys() == {(n, version) for n, version in pins().items() if n not in WITHOUT}
    assert all(known.values())


def test_the_page_of_licences_is_that_of_what_is_installed():
    written, now = LICENCES.read_text().splitlines(), licences().splitlines()
    missing = {each.name for each in packages() if installed(each.name) is None}

    def seen(lines):
        return [line for line in lines if line.split("|")[1:2] not in [[f" {n} "] for n in missing]]

    assert seen(written) == seen(now)
    rows = {line.split("|")[1].strip(): line.split("|")[3] for line in written if "| " in line}
    assert pins().keys() <= rows.keys() and all(licence.strip() for licence in rows.values())


def test_the_bill_of_materials_is_that_of_the_pins():
    assert SBOM.read_text() == sbom()
    bill = json.loads(SBOM.read_text())
    assert {each["name"] for each in bill["components"]} >= {"numpy", "torch", "flwr"}
    references = {each["bom-ref"] for each in bill["components"]}
    assert set(bill["dependencies"][0]["dependsOn"]) == references
    assert all(each["licenses"][0]["expression"] for each in bill["components"])


def test_the_wheel_carries_its_bill_of_materials(tmp_path, monkeypatch):
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    monkeypatch.setenv("HATCH_BUILD_NO_HOOKS", "true")  # without the kernel
    (built,) = hatchling.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path), versions=["standard"]
    )
    with zipfile.ZipFile(built) as wheel:
        (name,) = [each for each in wheel.namelist() if "/sboms/" in each]
        assert wheel.read(name) == SBOM.read_bytes()


def test_a_file_that_the_index_does_not_know_is_told(tmp_path):
    lock, report = tmp_path / "requirements.lock", tmp_path / "report.json"
    lock.write_text(f"# head\nsome-thing==1.0 \\\n    --hash=sha256:{HASH}\n")

    def wrong(name, version, sha256):
        archive = {"archive_info": {"hashes": {"sha256": sha256}}}
        item = {"metadata": {"name": name, "version": version}, "download_info": archive}
        own = {"metadata": {"name": "fedsched", "version": "1"}, "download_info": {"dir_info": {}}}
        report.write_text(json.dumps({"install": [own, item]}))
        return differing(report, lock)

    assert wrong("Some_Thing", "1.0", HASH) == []
    assert "none of its files" in wrong("some-thing", "1.0", "cd" * 32)[0]
    assert "is not in requirements.lock" in wrong("some-thing", "1.1", HASH)[0]


def test_only_files_of_the_version_that_can_be_installed_count():
    files = ["some_thing-1.0.tar.gz", "some_thing-1.0-py3-none-any.whl", "some_thing-1.0.1.tar.gz",
             "some_thing-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
             "some_thing-1.0-cp39-abi3-macosx_11_0_arm64.whl",
             "some_thing-1.0-cp39-cp39-manylinux_2_28_x86_64.whl",
             "some_thing-1.0-cp312-cp312-win_amd64.whl", "some_thing_more-1.0.tar.gz"]  # fmt: skip
    page = "".join(f'<a href="x/{f}#sha256={n:064x}">{f}</a>' for n, f in enumerate(files))
    assert [int(each, 16) for each in checksums(page, "some-thing", "1.0")] == [0, 1, 3, 4]


def test_extras_are_followed():
    assert "numpy" in asked_for()[""] and "matplotlib" in asked_for()["flower"]
    assert Path(ROOT, "pyproject.toml").exists()
