"""Inputs of every kind, to everything that reads: ``make fuzz``.

    python -m tests.fuzz.everything [--share 1.0] [--seed 1] [--only NAME]

The solver's and Flower's own fuzzing are part of it. A failure names the target, the seed and the
case, which make it again: ``--only NAME --seed S --case C``.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.fuzz.targets import TARGETS

SLOWEST_S = 60.0
SOLVES = 150_000  # problems, three solves each
MESSAGES = 30_000


class FuzzError(Exception):
    """An input did harm."""


def fuzz(name, inputs, seed, first=0):
    """Try so many inputs; how many it were, and the longest that one took."""
    target, slowest_s, done, case = TARGETS[name][0], 0.0, 0, first
    with tempfile.TemporaryDirectory() as folder:
        while done < inputs:
            began = time.monotonic()
            try:
                done += target(np.random.default_rng([seed, case]), Path(folder).resolve())
            except Exception as error:
                again = f"--only {name!r} --seed {seed} --case {case}"
                raise FuzzError(
                    f"{name}: {type(error).__name__}: {error}; again: {again}"
                ) from error
            took_s = time.monotonic() - began
            if took_s > SLOWEST_S:
                raise FuzzError(f"{name}: case {case} of seed {seed} took {took_s:.0f} s")
            slowest_s, case = max(slowest_s, took_s), case + 1
    return done, slowest_s


def elsewhere(*words):
    """The fuzzing of another room, in a process of its own."""
    ended = subprocess.run([sys.executable, "-m", *words], check=False, env=os.environ)
    if ended.returncode:
        raise FuzzError(f"{words[0]} ended with {ended.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the inputs of a whole run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--case", type=int, help="of --only: this one alone")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    logging.disable(logging.CRITICAL)
    if given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng([given.seed, given.case])
            TARGETS[given.only][0](rng, Path(folder).resolve())
        return
    total = 0
    for name in [given.only] if given.only else TARGETS:
        began = time.monotonic()
        done, slowest_s = fuzz(name, max(1, int(given.share * TARGETS[name][1])), given.seed)
        total += done
        seconds = time.monotonic() - began
        told = f"{name}: {done} inputs in {seconds:.0f} s, the slowest {slowest_s:.2f} s"
        print(told, flush=True)  # noqa: T201
    if not given.only:
        solves, messages = int(given.share * SOLVES), int(given.share * MESSAGES)
        seed = str(given.seed)
        elsewhere("tests.solve.fuzz", "--count", str(solves), "--seed", seed)
        elsewhere("tests.flower.fuzz_messages", "--messages", str(messages), "--seed", seed)
        total += 3 * solves + messages
    print(f"{total} inputs: 0 tracebacks, 0 over {SLOWEST_S:.0f} s, none out of its bounds")  # noqa: T201


if __name__ == "__main__":
    main()
