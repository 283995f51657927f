"""Kappa as `auto` learns it, beside the one that runs with different Q tell after the fact.

`python -m benchmarks.auto_kappa --out FILE` (some ten minutes, one core; runs that FILE has are
read) trains a softmax regression on digits with cohorts of 10, 3 and 1 devices a round and
fits rounds = R0 (1 + Q / kappa) to when they reach a test loss. It writes
``results/auto-kappa.md``.
"""

import argparse
import itertools
import math
from pathlib import Path

import numpy as np

from benchmarks.notes import Notes
from benchmarks.softmax import rounds_of

DEVICES, SEEDS, LAST = 50, (1, 2, 3), 5  # measurements whose mean is to reach a loss
LOSSES = (0.5, 0.4, 0.3, 0.25, 0.2)
COMPUTE_S = (0.03, 3.0)  # 0.1 and 10 uploads
COHORTS = {  # by 1/q, the same for all devices
    DEVICES / m: {"kind": "uniform", "draws": m, "design": "fixed-size"} for m in (10, 3, 1)
}
# Long updates arrive after some tens of rounds; short ones take some hundreds, as the law has it.
UPDATES = {
    "10 steps, batches of 32": {"rounds": 150, "eval_every": 1},
    "1 step, batches of 4": {"rounds": 600, "eval_every": 5, "steps": 1, "batch_size": 4},
}
PLACE = Path(__file__).parent / "results" / "auto-kappa.md"


def followed(policy, alpha, seed, compute_s, training):
    """Rounds of the measurements, the test losses, and kappa then."""
    rows = [
        (done.scheduled.round + 1, done.test_loss, done.scheduled.tuning.get("kappa", 0.0))
        for done in rounds_of(policy, alpha=alpha, seed=seed, compute_s=compute_s, **training)
        if not math.isnan(done.test_loss)
    ]
    return [list(column) for column in zip(*rows, strict=True)]


def arrival(run, loss):
    """The rounds amid the first measurements whose mean is at a loss, and kappa after them."""
    rounds, losses, kappa = map(np.array, run)
    means = np.convolve(losses, np.full(LAST, 1.0 / LAST), "valid")
    found = np.flatnonzero(means <= loss)
    if len(found) == 0:
        return math.nan, math.nan
    first = int(found[0])
    return rounds[first : first + LAST].mean(), kappa[first + LAST - 1]


def fitted(points):
    """Kappa, and the rms of ln of the rounds about the law; least squares, R0 being a mean."""
    inverse, rounds = np.array(points).T
    kappas = np.geomspace(5.0, 5e4, 800)
    left = np.log(rounds)[:, None] - np.log1p(inverse[:, None] / kappas)
    best = int(left.std(axis=0).argmin())
    return float(kappas[best]), float(left.std(axis=0)[best])


def rows(notes, alpha, name):
    """A line of the table for each loss."""
    training = UPDATES[name]

    def run(policy, seed, compute_s=0.0):
        key = f"{name} {alpha} {policy.get('draws', 'auto')} {compute_s} {seed}"
        return notes.get(key, followed, policy, alpha, seed, compute_s, training)

    others = {(q, seed): run(COHORTS[q], seed) for q, seed in itertools.product(COHORTS, SEEDS)}
    own = [run({}, seed, compute_s) for compute_s, seed in itertools.product(COMPUTE_S, SEEDS)]
    for loss in LOSSES:
        at = {each: arrival(found, loss)[0] for each, found in others.items()}
        at = {each: rounds for each, rounds in at.items() if not math.isnan(rounds)}
        learnt = [kappa for rounds, kappa in (arrival(each, loss) for each in own) if rounds > 0]
        if len(at) < len(others) or len(learnt) < len(own):
            continue  # not all came so far
        kappa, rms = fitted([(q, rounds) for (q, _), rounds in at.items()])
        without = [  # a seed
            fitted([(q, rounds) for (q, seed), rounds in at.items() if seed != left])[0]
            for left in SEEDS
        ]
        mean = math.exp(np.mean(np.log(learnt)))
        cells = [
            name, str(alpha), str(loss), f"{np.mean(list(at.values())):.0f}",
            f"{kappa:.0f} ({min(without):.0f} to {max(without):.0f})", f"{rms:.3f}",
            f"{mean:.0f} ({min(learnt):.0f} to {max(learnt):.0f})", f"{mean / kappa:.2f}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a file of the runs that were made")
    notes = Notes(parser.parse_args().out)
    lines = [
        "# Kappa, learnt and fitted",
        "",
        f"Digits, softmax regression, {DEVICES} devices, {len(SEEDS)} seeds: `python -m "
        "benchmarks.auto_kappa --out FILE`.",
        "Fitted is the κ of runs with cohorts of 10, 3 and 1 devices (in brackets: with a seed "
        "left out). Learnt is what `auto` has when a run comes to the test loss, the geometric "
        "mean (and the least and the largest) over the seeds and over computation times of 0.1 "
        "and 10 uploads.",
        "",
        "| updates | alpha | test loss | rounds | fitted κ | rms of ln rounds | learnt κ | learnt "
        "/ fitted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, alpha in itertools.product(UPDATES, ("inf", 1.0)):
        lines += rows(notes, alpha, name)
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
