"""Inputs of every kind, to everything that reads: ``make fuzz``.

    python -m tests.fuzz.everything [--share 1.0] [--seed 1] [--only NAME] [--ledger FILE]

The inputs of a target are tried in a hundred pieces, and every case has a seed of its own. With a
ledger, fuzzing that was stopped goes on after the pieces that are done. A failure names what makes
it again: ``--only NAME --seed S --piece P --case C``.
"""

import argparse
import logging
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.fuzz.targets import TARGETS
from tests.ledger import Ledger

SLOWEST_S = 60.0  # of computation: a machine that is busy with other things is no failure
PIECES = 100


class FuzzError(Exception):
    """An input did harm."""


def try_case(name, seed, piece, case, folder):
    """One case of a target; how many inputs it was."""
    return TARGETS[name][0](np.random.default_rng([seed, piece, case]), Path(folder).resolve())


def fuzz(name, inputs, seed, piece=0):
    """Try so many inputs; how many it were, and the longest that one took."""
    slowest_s, done, case = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while done < inputs:
            began, again = time.process_time(), f"--seed {seed} --piece {piece} --case {case}"
            try:
                done += try_case(name, seed, piece, case, folder)
            except Exception as error:
                why = f"{name}: {type(error).__name__}: {str(error)[:2000]}"
                raise FuzzError(f"{why}; again: --only {name!r} {again}") from error
            took_s = time.process_time() - began
            if took_s > SLOWEST_S:
                raise FuzzError(f"{name}: {took_s:.0f} s; again: --only {name!r} {again}")
            slowest_s, case = max(slowest_s, took_s), case + 1
    return done, slowest_s


def try_pieces(names, pieces, seed, ledger):
    """The pieces of these targets, in turn, but for those that are done; what went wrong."""
    wrong = []
    for piece in range(pieces):
        for name in names:
            if ledger.has(target=name, seed=seed, piece=piece):
                continue
            try:
                inputs, slowest_s = fuzz(name, max(1, TARGETS[name][1] // PIECES), seed, piece)
            except FuzzError as error:
                wrong.append(str(error))
                print(error, flush=True)  # noqa: T201
            else:
                ledger.add(target=name, seed=seed, piece=piece, inputs=inputs, slowest_s=slowest_s)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the pieces of a whole run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--piece", type=int, default=0, help="of --case")
    parser.add_argument("--case", type=int, help="of --only: this one alone")
    parser.add_argument("--ledger", type=Path, help="goes on after the pieces that it names")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    logging.disable(logging.CRITICAL)
    if given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            try_case(given.only, given.seed, given.piece, given.case, folder)
        return
    names = [given.only] if given.only else list(TARGETS)
    ledger = Ledger(given.ledger)
    wrong = try_pieces(names, max(1, round(PIECES * given.share)), given.seed, ledger)
    inputs, slowest = Counter(), Counter()
    for row in ledger.rows:
        inputs[row["target"]] += row["inputs"]
        slowest[row["target"]] = max(slowest[row["target"]], row["slowest_s"])
    for name in names:
        print(f"{name}: {inputs[name]} inputs, the slowest {slowest[name]:.2f} s")  # noqa: T201
    total = f"{inputs.total()} inputs: {len(wrong)} did harm"
    print(f"{total} (a traceback, more than {SLOWEST_S:.0f} s, or an answer out of bounds)")  # noqa: T201
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
