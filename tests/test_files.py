import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedsched.errors import InputError
from fedsched.files import atomic_path, locked, output_folder, output_path


class PowerCutError(Exception):
    """Stands for whatever may end a process between two steps."""


def cut(*_arguments, **_options):
    raise PowerCutError


def names(folder):
    return [path.name for path in folder.iterdir()]


def write(target, text):
    with atomic_path(target) as aside:
        aside.write_text(text)


def test_a_file_takes_its_place_whole(tmp_path):
    target = tmp_path / "file.txt"
    with atomic_path(target) as aside:
        aside.write_text("new")
        assert not target.exists()
        assert aside.parent == target.parent
    assert target.read_text() == "new"
    assert names(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("where", ["block", "fsync", "replace"])
@pytest.mark.parametrize("old", [None, "old"])
def test_whatever_fails_on_the_way_leaves_the_old_file_or_none(monkeypatch, tmp_path, where, old):
    target = tmp_path / "file.txt"
    if old is not None:
        target.write_text(old)
    if where == "fsync":
        monkeypatch.setattr(os, "fsync", cut)
    if where == "replace":
        monkeypatch.setattr(Path, "replace", cut)
    with pytest.raises(PowerCutError), atomic_path(target) as aside:
        aside.write_text("new, but only ha")
        if where == "block":
            cut()
    assert (target.read_text() if target.exists() else None) == old
    assert names(tmp_path) == ([] if old is None else ["file.txt"])


def test_a_file_that_cannot_be_written_is_called_by_the_name_that_was_given(tmp_path):
    target = tmp_path / "nothing" / "file.txt"
    with pytest.raises(FileNotFoundError) as failed:
        write(target, "new")
    assert failed.value.filename == str(target)
    with pytest.raises(OSError) as failed, atomic_path(tmp_path / "file.txt"):
        (tmp_path / "other" / "name").write_text("new")
    assert Path(failed.value.filename) == tmp_path / "other" / "name"


def test_whatever_fails_after_the_move_leaves_the_new_file(monkeypatch, tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")
    real = Path.replace

    def replace_and_die(self, other):
        real(self, other)
        raise PowerCutError

    monkeypatch.setattr(Path, "replace", replace_and_die)
    with pytest.raises(PowerCutError):
        write(target, "new")
    assert target.read_text() == "new"


def test_the_content_reaches_the_disk_before_the_name(monkeypatch, tmp_path):
    steps = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: (steps.append("sync"), sync(number)))
    monkeypatch.setattr(
        Path, "replace", lambda self, other: (steps.append("name"), replace(self, other))
    )
    write(tmp_path / "file.txt", "new")
    assert steps == ["sync", "name"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("file.txt", r"out must end in one of \.csv, \.parquet, got 'file\.txt'"),
        ("no/such/file.csv", "out: the folder .* does not exist; create it first"),
        ("folder.csv", r"out: .*folder\.csv' is a folder; name a file in it"),
    ],
)
def test_a_path_that_cannot_be_written_to_is_refused(tmp_path, name, sentence):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=sentence):
        output_path("out", tmp_path / name, (".csv", ".parquet"))


def test_a_folder_that_may_not_be_written_to_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"plot: the folder .* cannot be written to"):
        output_path("plot", tmp_path / "file.png")
    with pytest.raises(InputError, match=r"out: the folder .* cannot be written to"):
        output_folder("out", tmp_path)


def test_the_ending_may_be_in_capitals(tmp_path):
    assert output_path("out", tmp_path / "a.CSV", (".csv",)) == tmp_path / "a.CSV"


def test_a_folder_is_made_with_those_above_it_and_may_be_there(tmp_path):
    for _ in range(2):
        assert output_folder("out", tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"out: the folder .* cannot be made: .*; name another"):
        output_folder("out", tmp_path / name)


HOLD = """
import sys, time
from pathlib import Path
from fedsched.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_folder_is_held_by_one_process_until_that_one_is_gone(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        try:
            with (
                pytest.raises(InputError, match="is being run by another process"),
                locked(tmp_path),
            ):
                pass
        finally:
            holder.kill()
    with locked(tmp_path), pytest.raises(InputError, match="is being run"), locked(tmp_path):
        pass
    with locked(tmp_path):
        assert names(tmp_path) == [".lock"]


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / ".lock").symlink_to(precious)
    with pytest.raises(InputError, match=r"is a link to .*remove the link"), locked(tmp_path):
        pass
    assert precious.read_text() == "mine"
