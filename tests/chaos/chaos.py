"""Death and errors at every file operation of every command that writes, and kills at random.

    python -m tests.chaos.chaos [--every 1] [--kills 400] [--sweeps 20] [--deployments 20]
                                [--seed 1] [--ledger FILE]

A command dies, dies halfway through a write, meets an I/O error or a full disk at each operation
that changes a file. Then it is given again. It must end well, leave what an undisturbed one leaves,
to the bit, and nothing else. An error must be a sentence. With a ledger, trials that were stopped
go on after the pieces that are done. Linux only.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from tests.chaos.child import WAYS, HarmError, library, try_way, undisturbed
from tests.chaos.commands import COMMANDS, warm
from tests.chaos.kills import kill_deployment, kill_sweep, kill_training
from tests.ledger import Ledger

PART = {"kill of training": 25, "kill of a sweep (local)": 5, "kill of a sweep (ray)": 5,
        "kill of a deployment": 5}  # fmt: skip


def try_crashes(root, given, ledger):
    """Every command, at its operations; what went wrong."""
    for command in COMMANDS:
        ways = [way for way in WAYS if not ledger.has(what=command.name, way=way)]
        if not ways:
            continue
        try:
            whole = undisturbed(root, command)
            for way in ways:
                tried = try_way(root, command, way, given.every, whole)
                ledger.add(what=command.name, way=way, trials=tried, operations=whole[2])
        except HarmError as error:
            yield str(error)


def try_kills(root, given, ledger):
    """What runs long, killed at random, a few times for a seed; what went wrong."""
    ways = {
        "kill of training": (given.kills, kill_training),
        "kill of a sweep (local)": (given.sweeps, partial(kill_sweep, engine="local")),
        "kill of a sweep (ray)": (given.sweeps, partial(kill_sweep, engine="ray")),
        "kill of a deployment": (given.deployments, kill_deployment),
    }
    for way, (kills, kill) in ways.items():
        for first in range(0, kills, PART[way]):
            if ledger.has(what=way, first=first, seed=given.seed):
                continue
            rng = random.Random(f"{given.seed} {way} {first}")
            try:
                done = kill(root, kills=min(PART[way], kills - first), rng=rng)
                ledger.add(what=way, way=way, first=first, seed=given.seed, trials=done)
            except HarmError as error:
                yield str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="so manieth crash point")
    parser.add_argument("--kills", type=int, default=400, help="of training")
    parser.add_argument("--sweeps", type=int, default=20, help="kills of a sweep, on each engine")
    parser.add_argument("--deployments", type=int, default=20, help="kills of Flower's processes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ledger", type=Path, help="goes on after the pieces that it names")
    given = parser.parse_args()
    ledger, wrong = Ledger(given.ledger), []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        if "FEDSCHED_CHAOS" not in os.environ:  # start again, with the library below everything
            preload = {"LD_PRELOAD": str(library(root)), "FEDSCHED_CHAOS": "1"}
            words = [sys.executable, "-m", "tests.chaos.chaos", *sys.argv[1:]]
            sys.exit(subprocess.run(words, env={**os.environ, **preload}, check=False).returncode)
        os.environ["OMP_NUM_THREADS"] = "1"
        warm(root / "warm")
        del os.environ["LD_PRELOAD"]  # for what is started from here; forks keep it
        for trials in (try_crashes, try_kills):
            for each in trials(root, given, ledger):
                print(each, flush=True)  # noqa: T201
                wrong.append(each)
    tally = Counter()
    for row in ledger.rows:
        tally[row["way"]] += row["trials"]
    counts = ", ".join(f"{count} of {way}" for way, count in tally.items())
    lost = f"{len(wrong)} did harm" if wrong else "0 bits lost, 0 tracebacks"
    print(f"{tally.total()} deaths and errors ({counts}): {lost}")  # noqa: T201
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
