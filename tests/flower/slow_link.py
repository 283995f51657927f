"""Time to FedAvg's accuracy over links that are really slow, by Flower's own processes.

    python -m tests.flower.slow_link --out FOLDER    the table of docs/flower.md

Ten SuperNodes run in network namespaces of their own. A token bucket at each end of a node's cable
lets through 1 to 50 Mbit/s, as far as a TCP connection gets there. Client app, data, model and
learning rate are the same in all runs. Client apps are forked and not started anew for every
message: ten at once would wait for this machine's processor and not for their links. FedAvg with
all nodes, its default, runs for so many rounds; the others run until the mean of three accuracies
in a row is what FedAvg had over its last five, less half a point. It needs root and `ip` and `tc`.
A run that is done is not run again: stop it and go on at will.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
BRIDGE, NET = "fedslow", "10.77.0"
NODES = 10
MBIT_S = np.geomspace(1.0, 50.0, NODES)
PATIENCE_S = 3600.0
PROGRAMS = {
    "flower-superexec": "forking_superexec.py",
    "flower-superlink": "patient_superlink.py",
}  # Flower's own, but for what they say of themselves
MARGIN = 0.005  # half a point: two test images of 360


class Case(NamedTuple):
    """A strategy as the table calls it, and as the app does."""

    name: str
    strategy: str
    fraction: float = 1.0


CASES = [
    Case("FedAvg, all nodes: its default", "FedAvg"),
    Case("`ChannelStrategy()`", "ChannelStrategy"),
    Case("FedAvg, fraction_train=0.3", "FedAvg", 0.3),
    Case("FedAvg, fraction_train=0.2", "FedAvg", 0.2),
    Case("FedAvg, fraction_train=0.5", "FedAvg", 0.5),
]


# --- the links ----------------------------------------------------------------------------------


def do(*command):
    subprocess.run([str(each) for each in command], check=True, capture_output=True)


def space(part):
    return f"{BRIDGE}{part}"


def cut():
    """Take all cables away, those of a run that was killed included."""
    for part in range(NODES):
        with contextlib.suppress(subprocess.CalledProcessError):
            do("ip", "netns", "del", space(part))
    with contextlib.suppress(subprocess.CalledProcessError):
        do("ip", "link", "del", BRIDGE)


def lay():
    """A bridge, and from it a cable to each node that is slow in both directions."""
    cut()
    do("ip", "link", "add", BRIDGE, "type", "bridge")
    do("ip", "addr", "add", f"{NET}.1/24", "dev", BRIDGE)
    do("ip", "link", "set", BRIDGE, "up")
    for part, mbit_s in enumerate(MBIT_S):
        here, there, own = f"{BRIDGE}-{part}", f"{BRIDGE}+{part}", space(part)
        do("ip", "netns", "add", own)
        do("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", own)
        do("ip", "link", "set", here, "master", BRIDGE, "up")
        do("ip", "-n", own, "addr", "add", f"{NET}.{part + 2}/24", "dev", there)
        do("ip", "-n", own, "link", "set", there, "up")
        do("ip", "-n", own, "link", "set", "lo", "up")
        bucket = ["root", "tbf", "rate", f"{round(1000 * mbit_s)}kbit", "burst", "32k",
                  "latency", "400ms"]  # fmt: skip
        do("tc", "qdisc", "add", "dev", here, *bucket)
        do("tc", "-n", own, "qdisc", "add", "dev", there, *bucket)


# --- the processes ------------------------------------------------------------------------------


def example():
    """The module of the example that starts processes, for the address of the bridge."""
    path = HERE.parents[1] / "examples" / "flower" / "federation.py"
    spec = importlib.util.spec_from_file_location("federation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HOST, module.APP = f"{NET}.1", HERE / "slow_app"
    return module


def federation(folder):
    """A SuperLink at the bridge, and SuperNodes behind their cables."""
    module = example()

    class Spread(module.Federation):
        def _start(self, name, *command):
            if name == "superlink":
                command = (programs / command[0], *command[1:])
            if name.startswith("supernode"):
                program = shutil.which(command[0], path=self.environment["PATH"])
                own = space(int(name.rpartition("-")[2]))
                command = (shutil.which("ip"), "netns", "exec", own, program, *command[1:])
            elif name == "superlink":  # in memory, as ten nodes at once wait for a database
                at = command.index("--database")
                command = (*command[:at], *command[at + 2 :])
            return super()._start(name, *command)

    made = Spread(folder)
    programs = made.folder / "programs"
    programs.mkdir()
    for program, ours in PROGRAMS.items():
        words = (HERE / "slow_app" / ours).read_text()
        (programs / program).write_text(f"#!{sys.executable}\n{words}")
        (programs / program).chmod(0o755)
    made.environment["PATH"] = f"{programs}{os.pathsep}{made.environment['PATH']}"
    return made


def rows_of(log):
    return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []


def measure(processes, case, seed, rounds, target):
    """Run one case until it reaches the target, if there is one; its rows."""
    place = processes.folder / f"{seed}-{case.strategy}-{case.fraction:g}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    log, began = place / "log.jsonl", time.monotonic()
    run = processes.begin(
        strategy=case.strategy, fraction=case.fraction, rounds=rounds, parts=NODES, seed=seed,
        target=target, data=processes.folder / "digits.npz", log=log, folder=place / "run",
    )  # fmt: skip
    seen = 0
    while run.poll() is None and time.monotonic() - began < PATIENCE_S:
        rows = rows_of(log)
        if len(rows) > seen:
            seen = len(rows)
            since_s = rows[-1]["time_s"] - rows[0]["time_s"]
            said = f"round {rows[-1]['round']}, {since_s:.0f} s, {rows[-1]['accuracy']:.3f}"
            sys.stderr.write(f"{case.name}, seed {seed}: {said}\n")
        time.sleep(1.0)
    processes.stop("run")
    return rows_of(log)


@contextlib.contextmanager
def started(folder):
    """Links, SuperLink and SuperNodes, up and running."""
    shutil.rmtree(folder, ignore_errors=True)
    lay()
    try:
        with federation(folder) as processes:
            images, labels = load_digits(return_X_y=True)
            order = np.random.default_rng(0).permutation(len(labels))
            scaled = (images[order] / 8.0 - 1.0).astype(np.float32)
            np.savez(folder / "digits.npz", images=scaled, labels=labels[order])
            processes.start_superlink()
            for part in range(NODES):
                processes.start_supernode(part, NODES)
            yield processes
    finally:
        cut()


# --- the table ----------------------------------------------------------------------------------


def results(out, seeds, rounds):
    """The rows of every case, measured if need be, with the target of each seed."""
    with contextlib.ExitStack() as stack:
        processes = None
        for seed in range(seeds):
            target = 2.0  # nobody reaches it
            for case in CASES:
                done = out / f"{seed}-{case.strategy}-{case.fraction:g}.json"
                if not done.is_file():
                    processes = processes or stack.enter_context(started(out / "processes"))
                    most = rounds if target > 1.0 else 3 * rounds
                    rows = measure(processes, case, seed, most, target)
                    if not rows or (rows[-1]["round"] < most and rows[-1]["mean"] < target):
                        sys.exit(f"{case.name} did not end; see {processes.folder}/*.log")
                    done.write_text(json.dumps(rows))
                rows = json.loads(done.read_text())
                if target > 1.0:
                    last = [row["accuracy"] for row in rows[-5:]]
                    target = round(float(np.mean(last)) - MARGIN, 4)
                yield case, target, rows


def table(found):
    """Of each case: seconds and rounds to the target, seed by seed."""
    write = sys.stdout.write
    write("| strategy | seconds to its accuracy | rounds | seconds a round |\n|---|---|---|---|\n")
    for case in CASES:
        cells = []
        for target, rows in ((target, rows) for each, target, rows in found if each == case):
            first_s, last = rows[0]["time_s"], rows[-1]
            there = next((row for row in rows if row["mean"] >= target), None)
            cells.append((
                "never" if there is None else f"{there['time_s'] - first_s:.0f}",
                "-" if there is None else str(there["round"]),
                f"{(last['time_s'] - first_s) / last['round']:.1f}",
            ))  # fmt: skip
        columns = (" / ".join(column) for column in zip(*cells, strict=True))
        write(f"| {case.name} | {' | '.join(columns)} |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="goes on with what is there")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12, help="of FedAvg with all nodes [12]")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and take the cables away
    given.out.mkdir(parents=True, exist_ok=True)
    table(list(results(given.out.absolute(), given.seeds, given.rounds)))


if __name__ == "__main__":
    main()
