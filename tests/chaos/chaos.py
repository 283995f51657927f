"""Death and errors at every file operation of every command that writes, and kills at random.

    python -m tests.chaos.chaos [--kills 400] [--sweeps 6] [--every 1] [--seed 1]

A command dies, dies halfway through a write, meets an I/O error or a full disk at each operation
that changes a file. Then it is given again. It must end well, leave what an undisturbed one leaves,
to the bit, and nothing else. An error must be a sentence. Linux only.
"""

import argparse
import ctypes
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
WAYS = {"death": 1, "death halfway": 2, "I/O error": 3, "disk full": 4}
TABLE = """
[run]
rounds = {rounds}
seed = 3
eval_every = 2
checkpoint_every = 2
[policy]
kind = "{kind}"
draws = 3
[channel]
kind = "{channel}"
devices = 8
[data]
samples = 20
[training]
model = "softmax"
steps = 1
batch_size = 4
"""


@dataclass(frozen=True)
class Command:
    """What is given, in a folder that earlier commands have filled."""

    name: str
    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    volatile: tuple[str, ...] = field(default=())  # names that hold the time of day


RUN = ("run", "s.toml", "--out", "r")
COMMANDS = (
    Command("run", RUN),
    Command("resume", ("run", "longer.toml", "--out", "r"), (("half", "longer.toml", "r"),)),
    Command("lengthen", ("run", "longer.toml", "--out", "r"), (RUN,)),
    Command("replay", ("run", "other.toml", "--out", "o", "--training-of", "r"), (RUN,)),
    Command("run --log", (*RUN, "--log", "tensorboard"), volatile=("events.out",)),
    Command("pack", ("pack", "r", "--out", "small"), (RUN,)),
    Command(
        "pack --resumable", ("pack", "r", "--resumable", "--out", "small"),
        (("half", "longer.toml", "r"),),
    ),
    Command("report", ("report", "r", "-o", "page.html"), (RUN,)),
    Command("schedule --out", ("schedule", "s.toml", "--out", "table.csv")),
    Command("schedule --plot", ("schedule", "s.toml", "--plot", "plot.svg")),
)  # fmt: skip


class HarmError(Exception):
    """A command did not survive."""


def library(folder):
    """The library that fails, compiled."""
    target = Path(folder) / "fail.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run(
        [*compiler, "-shared", "-fPIC", "-O1", "-o", target, HERE / "fail.c", "-ldl"], check=True
    )
    return target


def scenarios(place):
    for name, rounds, kind, channel in (
        ("s", 4, "uniform", "homogeneous"),
        ("longer", 6, "uniform", "homogeneous"),
        ("other", 4, "uniform", "heterogeneous"),
        ("long", 40, "lyapunov", "heterogeneous"),
    ):
        text = TABLE.format(rounds=rounds, kind=kind, channel=channel)
        (place / f"{name}.toml").write_text(text, encoding="utf-8")
    sweep = TABLE.format(rounds=60, kind="lyapunov", channel="heterogeneous")
    (place / "sweep.toml").write_text(sweep.replace("seed = 3\n", "") + "[sweep]\nseeds = [1, 2]\n")


class StoppedError(Exception):
    """Ends a run early."""


def half(scenario, out):
    """A run that was stopped after its first checkpoint."""
    from fedsched.runs.experiment import run

    def stop(now):
        if now.round == 3:
            raise StoppedError

    try:
        run(scenario, out, progress=stop)
    except StoppedError:
        return


def give(words):
    """Give a command in this process; its exit code."""
    from fedsched.cli import main

    if words[0] == "half":
        half(*words[1:])
        return 0
    # One worker is the process itself, which is the one that dies.
    sys.argv = ["fedsched", *words, *(["--workers", "1"] if words[0] == "run" else [])]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else bool(ended.code)
    return 0


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


def tree(place, volatile=()):
    """Everything below, but the locks and what holds the time of day."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != ".lock" and not path.name.startswith(volatile or ("\0",))
    }


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


def try_command(root, command, every, tally):
    """All crash points of a command, or every so manieth of them."""
    before = prepared(root, command)
    place, (code, operations, text) = trial(root, before, command, 0, 0)
    if code != 0 or not operations:
        raise HarmError(f"{command.name}: ended with {code} after {operations} operations: {text}")
    expected = tree(place, command.volatile)
    for way, how in WAYS.items():
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
                names = {
                    n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n)
                }
                raise HarmError(f"{what}: given again it left other files: {sorted(names)}")
            tally[way] += 1
    print(f"{command.name}: {operations} operations", flush=True)  # noqa: T201


def kill_training(root, kills, rng, tally):
    """A training that is killed at random, over and over, until it ends."""
    words = ("run", "long.toml", "--out", "r")
    before = prepared(root, Command("training", words))
    began = time.monotonic()
    place, (code, *_) = trial(root, before, Command("training", words), 0, 0)
    whole_s, expected = time.monotonic() - began, tree(place)
    if code != 0:
        raise HarmError("training does not end")
    while tally["kill of training"] < kills:
        shutil.rmtree(place)
        shutil.copytree(before, place)
        code = -signal.SIGKILL
        while code == -signal.SIGKILL:
            code, _, text = child(place, words, lifetime_s=rng.uniform(0.0, 0.7 * whole_s))
            tally["kill of training"] += code == -signal.SIGKILL
        if code != 0 or tree(place) != expected:
            raise HarmError(f"a killed training ended with {code} and other bits: {text[-2000:]}")
    print(f"training: {tally['kill of training']} kills", flush=True)  # noqa: T201


def kill_sweeps(root, kills, engine, rng, tally):
    """A sweep whose processes are all killed at random, until it ends."""
    place = prepared(root, Command("sweep", ()))
    words = [sys.executable, "-m", "fedsched", "run", "sweep.toml", "--engine", engine]
    whole = subprocess.run(
        [*words[:4], "sweep.toml", "--out", "whole", "--workers", "2"], cwd=place, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if whole.returncode:
        raise HarmError(f"a sweep ended with {whole.returncode}: {whole.stderr[-2000:]}")
    expected = tree(place / "whole")
    for number in range(kills + 1):
        sweep = subprocess.Popen(
            [*words, "--out", "r"], cwd=place, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if number < kills:
            try:
                sweep.wait(rng.uniform(2.0, 15.0))
            except subprocess.TimeoutExpired:
                os.killpg(sweep.pid, signal.SIGKILL)
                tally[f"kill of a sweep ({engine})"] += 1
        _, said = sweep.communicate()
    if sweep.returncode != 0 or tree(place / "r") != expected:
        raise HarmError(f"{engine}: a killed sweep ended with {sweep.returncode}: {said[-2000:]}")
    print(f"sweep on {engine}: {kills} tries", flush=True)  # noqa: T201


def warm(place):
    """Give every command once here, so that no fork has to import anything."""
    before = Path.cwd()
    for command in COMMANDS:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        scenarios(place)
        os.chdir(place)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            for words in (*command.before, command.words):
                give(words)
    os.chdir(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=400, help="of training")
    parser.add_argument("--sweeps", type=int, default=6, help="kills of a sweep, on each engine")
    parser.add_argument("--every", type=int, default=1, help="so manieth crash point")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        if "FEDSCHED_CHAOS" not in os.environ:  # start again, with the library below everything
            preload = {"LD_PRELOAD": str(library(root)), "FEDSCHED_CHAOS": "1"}
            words = [sys.executable, "-m", "tests.chaos.chaos", *sys.argv[1:]]
            sys.exit(subprocess.run(words, env={**os.environ, **preload}, check=False).returncode)
        os.environ["OMP_NUM_THREADS"] = "1"
        warm(root / "warm")
        rng, tally = random.Random(given.seed), Counter()
        for command in COMMANDS:
            try_command(root, command, given.every, tally)
        kill_training(root, given.kills, rng, tally)
        del os.environ["LD_PRELOAD"]
        for engine in ("local", "ray") if given.sweeps else ():
            kill_sweeps(root, given.sweeps, engine, rng, tally)
    counts = ", ".join(f"{count} of {way}" for way, count in tally.items())
    print(f"{sum(tally.values())} deaths and errors ({counts}): 0 bits lost, 0 tracebacks")  # noqa: T201


if __name__ == "__main__":
    main()
