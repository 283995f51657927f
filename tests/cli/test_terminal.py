"""What reaches a terminal, through a real one where there is one."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from tests.runs.report_runs import manifest, table, write_run

from fedsched.cli.output import print_json
from fedsched.cli.terminal import clean, cleaned_output, console

pty = pytest.importorskip("pty")

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b1A\u202ekcab"
# What tables and bars themselves send: styles, and how a bar hides the cursor and is drawn anew.
STYLE = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|1A)|\r")


def on_a_terminal(folder, *arguments, **environment):
    """What a terminal is sent by a command: all of it, as text."""
    master, slave = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "fedsched", *map(str, arguments)],
        cwd=folder,
        stdout=slave,
        stderr=slave,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200", **environment},
    )
    os.close(slave)
    sent = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        sent += part
    os.close(master)
    done.wait()
    return sent.decode("utf-8", "replace")


def left(sent):
    """Control characters of what was sent, but for ends of lines and styles."""
    plain = STYLE.sub("", sent).replace("\n", "")
    return [letter for letter in plain if clean(letter) != letter]


@pytest.fixture
def hostile(tmp_path):
    """Two runs whose folder and whose manifest hold what would command a terminal."""
    runs = tmp_path / "runs"
    for seed in (1, 2):
        # They differ in both, so that titles and cells of tables name them.
        evil = {"channel__kind": f"h{EVIL}{seed}", "policy__design": f"d{EVIL}{seed}"}
        about = manifest(seed=seed, **evil)
        write_run(runs / f"{EVIL}{seed}".replace("/", ""), about, table(seed=seed))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("times", "runs", "--targets", "0.5"),
        ("times", "runs", "--targets", "0.5", "--markdown"),
        ("times", "runs", "--targets", "0.5", "--json"),
        ("report", "runs", "-o", f"report{EVIL}.html"),
        ("pack", "runs", "--out", f"small{EVIL}"),
        ("pack", f"nothing{EVIL}", "--out", "small"),
        (f"no-such-command{EVIL}",),
        ("times", f"--no-such-option{EVIL}"),
        ("schedule", "--channel", f"nothing{EVIL}.csv"),
        ("schedule", "--rounds", "3", "--policy", f"uni{EVIL}form"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(EVIL, ""),
)
def test_no_control_character_of_a_stranger_reaches_the_terminal(hostile, arguments):
    sent = on_a_terminal(hostile, *arguments)
    assert sent.count("owned") >= (4 if arguments[0] == "times" and len(arguments) > 2 else 1)
    assert left(sent) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("times", "runs", "--targets", "0.5"), ("pack", "runs", "--out", f"klein-für-{EVIL}")],
    ids=lambda arguments: arguments[0],
)
def test_a_terminal_without_the_letters_gets_marks_in_their_place(hostile, arguments):
    sent = on_a_terminal(hostile, *arguments, PYTHONIOENCODING="ascii")
    assert "Traceback" not in sent and sent.isascii() and left(sent) == []


def test_styles_are_left_to_tables_and_text_stays_as_it_is(capsys):
    with cleaned_output():
        print(f"größer\tals {EVIL}")  # noqa: T201
        console(force_terminal=True, color_system="standard").print("bold", style="bold")
    out, _ = capsys.readouterr()
    assert out.startswith("größer\tals \\x1b]0;owned\\x07\\x1b[2J\\x9b1A\\u202ekcab\n")
    assert out.endswith("\x1b[1mbold\x1b[0m\n")


def test_the_streams_are_as_they_were_afterwards(monkeypatch):
    plain = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", plain)
    with cleaned_output():
        sys.stdout.write("a\x1b\n")
    assert sys.stdout is plain
    plain.write("b\n")
    plain.flush()
    assert plain.buffer.getvalue() == b"a\\x1b\nb\n"


def test_json_stays_json(capsys):
    with cleaned_output():
        print_json({"name": f"{EVIL}\x7f\n"})
    out, _ = capsys.readouterr()
    assert json.loads(out) == {"name": f"{EVIL}\x7f\n"}
    assert clean(out) == out
