"""Every command that writes, as chaos gives it: small, in this process, and the same each time."""

import os
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import numpy as np

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
FLOWER = ("flower", "f", "4")
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
    Command("plot", ("plot", "r", "-o", "figure.svg"), (RUN,)),
    Command("bound --plot", ("bound", "--devices", "2", "r", "--plot", "bound.svg"), (RUN,)),
    Command("schedule --out", ("schedule", "s.toml", "--out", "table.csv")),
    Command("schedule --plot", ("schedule", "s.toml", "--plot", "plot.svg")),
    Command("init", ("init", "lte", "--fleet", "--out", "made")),
    Command("data", ("data", "cifar10", "--from", "cifar.tar.gz", "--cache", "cache")),
    Command("compare", ("compare", "s.toml", "--policies", "uniform,lyapunov", "--out", "c")),
    Command("demo", ("demo", "--out", "demo")),
    Command("a server of Flower", FLOWER),
    Command("a longer run of Flower", ("flower", "f", "6"), (FLOWER,)),
    Command("advise --plot", ("advise", "s.toml", "--rounds", "1", "--plot", "trade.svg")),
)  # fmt: skip
IN_THIS_PROCESS = ("run", "compare", "demo")  # with one worker, which is the one that dies


def scenarios(place):
    """What commands read."""
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
    from tests.learning.test_cifar10 import official

    (place / "cifar.tar.gz").write_bytes(official())


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


def flower(folder, rounds):
    """Rounds of a server of Flower, whose nodes live in this process; its exit code.

    A server app is a script: it may end with the error of the file system, or with a sentence, as
    Python raises them.
    """
    from tests.flower.loopback import Loopback, run

    from fedsched.errors import InputError

    try:
        run(Loopback(4), Path(folder), int(rounds), "lyapunov")
    except (OSError, InputError):
        return 2
    return 0


def give(words):
    """Give a command in this process; its exit code."""
    from fedsched.cli import main

    if words[0] in ("half", "flower"):
        return (half if words[0] == "half" else flower)(*words[1:]) or 0
    sys.argv = ["fedsched", *words, *(["--workers", "1"] if words[0] in IN_THIS_PROCESS else [])]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else bool(ended.code)
    return 0


def warm(place):
    """Make demo and data small, and give every command once, so that no fork has to import."""
    from tests.learning.test_cifar10 import CHECKSUMS, RECORDS

    from fedsched.cli import demo
    from fedsched.learning import cifar10

    cifar10.RECORDS, cifar10.MD5 = RECORDS, CHECKSUMS
    demo.UNIFORM, demo.LYAPUNOV, demo.AUTO_ROUNDS = {1: 4}, {}, 4
    demo.SEEDS, demo.COMPUTATIONS_S = (1,), (demo.DRAWN_S,)
    before = Path.cwd()
    for command in COMMANDS:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        scenarios(place)
        os.chdir(place)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            for words in (*command.before, command.words):
                give(words)
    os.chdir(before)


def tree(place, volatile=()):
    """Everything below, but the locks and what holds the time of day."""
    return {
        str(path.relative_to(place)): _told(path)
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != ".lock" and not path.name.startswith(volatile or ("\0",))
    }


def _told(path):
    """The bytes of a file; of a run of Flower, which notes how long it took, what it decided."""
    if "f" not in path.parts[-2:-1]:
        return path.read_bytes()
    if path.name == "model.npz":
        with np.load(path) as model:
            return {name: model[name].tobytes() for name in model.files if name != "run"}
    if path.name != "rounds.arrows":
        return None  # it is there
    from fedsched.runs.runlog import read_run

    table = read_run(path.parent).table.drop_columns(["wall_s", "took_s"])
    return repr(table.to_pylist())
