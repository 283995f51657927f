"""A command in a fork of this process, which dies or fails at one of its file operations."""

import ctypes
import io
import os
import shutil
import signal
import subprocess
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tests.chaos.commands import give, scenarios, tree

WAYS = {"death": 1, "death halfway": 2, "I/O error": 3, "disk full": 4}


class HarmError(Exception):
    """A command did not survive."""


def library(folder):
    """The library that fails, compiled."""
    target = Path(folder) / "fail.so"
    compiler = os.environ.get("CC", "cc").split()
    source = Path(__file__).parent / "fail.c"
    words = [*compiler, "-shared", "-fPIC", "-O1", "-o", target, source, "-ldl"]
    subprocess.run(words, check=True)
    return target


def child(place, words, number=0, how=0, lifetime_s=None):
    """Give a command in a fork: exit code or minus the signal, operations counted, what it said."""
    lib = ctypes.CDLL(None)
    count, said = place.parent / "count", place.parent / "said"
    count.write_text("0")
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.chdir(place)
            words_out = io.StringIO()
            with redirect_stdout(words_out), redirect_stderr(words_out):
                lib.chaos_arm(str(place).encode(), ctypes.c_long(number), how)
                try:
                    code = give(words)
                except BaseException as error:
                    code = 70
                    words_out.write(f"Traceback: {type(error).__name__}: {error}")
            counted = lib.chaos_counted()
            lib.chaos_arm(b"", ctypes.c_long(0), 0)
            count.write_text(str(counted))
            said.write_text(words_out.getvalue(), encoding="utf-8")
        finally:
            os._exit(code)
    if lifetime_s is not None:
        time.sleep(lifetime_s)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    text = said.read_text(encoding="utf-8") if code >= 0 and said.exists() else ""
    return code, int(count.read_text() or 0), text


def prepared(root, command):
    """A folder in which the command can be given."""
    place = root / "before" / "place"
    shutil.rmtree(root / "before", ignore_errors=True)
    place.mkdir(parents=True)
    scenarios(place)
    for words in command.before:
        if child(place, words)[0] != 0:
            raise HarmError(f"{command.name}: {words} cannot be given")
    return place


def trial(root, before, command, number, how):
    """A place in which the command has met its fate, and how that was."""
    place = root / "now" / "place"
    shutil.rmtree(root / "now", ignore_errors=True)
    shutil.copytree(before, place)
    return place, child(place, command.words, number, how)


def undisturbed(root, command):
    """The folder before the command, what it leaves there, and its operations."""
    before = prepared(root, command)
    place, (code, operations, text) = trial(root, before, command, 0, 0)
    if code != 0 or not operations:
        raise HarmError(f"{command.name}: ended with {code} after {operations} operations: {text}")
    return before, tree(place, command.volatile), operations


def try_way(root, command, way, every, whole):
    """A command at all its crash points, or every so manieth; how many these were."""
    (before, expected, operations), how, tried = whole, WAYS[way], 0
    for number in range(1 + how % every, operations + 1, every):
        what = f"{command.name}: {way} at operation {number} of {operations}"
        place, (code, _, text) = trial(root, before, command, number, how)
        if "Traceback" in text:
            raise HarmError(f"{what}: {text[-2000:]}")
        if how <= 2 and code != -signal.SIGKILL:
            raise HarmError(f"{what}: it was not reached")
        if code == 0 and tree(place, command.volatile) != expected:
            raise HarmError(f"{what}: it ended well with something else")
        code, _, text = child(place, command.words)
        if code != 0:
            raise HarmError(f"{what}: given again it ended with {code}: {text[-2000:]}")
        found = tree(place, command.volatile)
        if found != expected:
            names = {n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n)}
            raise HarmError(f"{what}: given again it left other files: {sorted(names)}")
        tried += 1
    return tried
