"""Inputs of every kind, to everything that reads: ``make fuzz``.

    python -m tests.fuzz.everything [--share 1.0] [--seed 1] [--only NAME] [--ledger FILE]

The inputs of a target are tried in a hundred pieces, and every case has a seed of its own. With a
ledger, fuzzing that was stopped goes on after the pieces that are done. A failure names what makes
it again: ``--only NAME --seed S --piece P --case C``.
"""

import argparse
import json
import logging
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.fuzz.targets import TARGETS

SLOWEST_S = 60.0
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
            began, again = time.monotonic(), f"--seed {seed} --piece {piece} --case {case}"
            try:
                done += try_case(name, seed, piece, case, folder)
            except Exception as error:
                why = f"{name}: {type(error).__name__}: {str(error)[:2000]}"
                raise FuzzError(f"{why}; again: --only {name!r} {again}") from error
            took_s = time.monotonic() - began
            if took_s > SLOWEST_S:
                raise FuzzError(f"{name}: {took_s:.0f} s; again: --only {name!r} {again}")
            slowest_s, case = max(slowest_s, took_s), case + 1
    return done, slowest_s


def rows_of(ledger):
    """What was tried before: target, seed, piece, inputs, longest seconds, and what went wrong."""
    if ledger is None or not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]


def try_pieces(names, pieces, seed, ledger):
    """The pieces of these targets, in turn, but for those that went well before; the rows of all."""
    rows = [
        row for row in rows_of(ledger)
        if row["seed"] == seed and row["target"] in names and row["wrong"] is None
    ]  # fmt: skip
    done = {(row["target"], row["piece"]) for row in rows}
    for piece in range(pieces):
        for name in names:
            if (name, piece) in done:
                continue
            row = {"target": name, "seed": seed, "piece": piece, "wrong": None}
            try:
                found = fuzz(name, max(1, TARGETS[name][1] // PIECES), seed, piece)
            except FuzzError as error:
                found, row["wrong"] = (0, 0.0), str(error)
                print(error, flush=True)  # noqa: T201
            rows.append(row | dict(zip(("inputs", "slowest_s"), found, strict=True)))
            if ledger is not None:
                with ledger.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return rows


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
    rows = try_pieces(names, max(1, round(PIECES * given.share)), given.seed, given.ledger)
    inputs, slowest = Counter(), Counter()
    for row in rows:
        inputs[row["target"]] += row["inputs"]
        slowest[row["target"]] = max(slowest[row["target"]], row["slowest_s"])
    for name in names:
        print(f"{name}: {inputs[name]} inputs, the slowest {slowest[name]:.2f} s")  # noqa: T201
    wrong = sum(row["wrong"] is not None for row in rows)
    total = f"{inputs.total()} inputs: {wrong} did harm"
    print(f"{total} (a traceback, more than {SLOWEST_S:.0f} s, or an answer out of bounds)")  # noqa: T201
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
