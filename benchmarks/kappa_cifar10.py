"""Kappa as `auto` learnt it on CIFAR-10, beside the one that the committed runs tell together.

`python -m benchmarks.kappa_cifar10` trains nothing. It dates every committed run with equal data
and 32 bits by the mean training loss of its last 200 rounds, fits rounds = R0 (1 + Q / kappa), and
reads what the runs of `auto` had learnt at the same losses. It writes
``results/kappa-cifar10.md``.
"""

import argparse
import math
from pathlib import Path

import numpy as np

from benchmarks.auto_kappa import fitted
from fedsched import read_run
from fedsched.analysis import group_runs

HERE = Path(__file__).parent
RUNS, PLACE = HERE.parent / "results" / "cifar10", HERE / "results" / "kappa-cifar10.md"
LOSSES, WINDOW = (1.0, 0.9, 0.8, 0.7, 0.6, 0.55), 200


def arrival(log, loss):
    """The round after which the mean loss of the window is that low; None if never."""
    means = np.convolve(log.column("train_loss"), np.full(WINDOW, 1.0 / WINDOW), "valid")
    found = np.flatnonzero(means <= loss)
    return int(found[0]) + WINDOW - 1 if len(found) else None


def logs(pattern):
    """Those of equal data, in the order of their names."""
    for group in group_runs(map(read_run, sorted(RUNS.glob(pattern)))):
        if group.fields["data.alpha"] == "inf":
            yield from group.logs


def points(loss):
    """Mean 1/q and rounds of every run that came so far."""
    for log in logs("runs/*"):
        last = arrival(log, loss)
        if last is not None:
            yield float(log.column("mean_inverse_probability")[: last + 1].mean()), last + 1.0


def learnt(loss):
    """Kappa of every run of auto that came so far."""
    found = ((log, arrival(log, loss)) for log in logs("auto*/*"))
    return [float(log.column("kappa")[last]) for log, last in found if last is not None]


def rows():
    for loss in LOSSES:
        known = list(points(loss))
        kappa, rms = fitted(known)
        own = learnt(loss)
        mean = math.exp(np.mean(np.log(own)))
        cells = [
            f"{loss:g}", str(len(known)), f"{kappa:.0f}", f"{rms:.3f}", str(len(own)),
            f"{mean:.0f} ({min(own):.0f} to {max(own):.0f})", f"{mean / kappa:.2f}",
            f"{min(own) / kappa:.2f} to {max(own) / kappa:.2f}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def main():
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    text = "\n".join([
        "# Kappa on CIFAR-10, learnt and fitted",
        "",
        "`python -m benchmarks.kappa_cifar10`: equal data, 100 devices. Fitted is the κ of the "
        "committed runs without `auto`, by training loss. Learnt is what runs of `auto` had there, "
        "the geometric mean (and the least and the largest).",
        "",
        "| training loss | runs | fitted κ | rms of ln rounds | runs of auto | learnt κ | learnt / "
        "fitted | least to largest |",
        "|---|---|---|---|---|---|---|---|",
        *rows(),
        "",
    ])  # fmt: skip
    PLACE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
