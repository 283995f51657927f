"""Kappa as `auto` learns it, beside the one that runs with different Q tell after the fact.

`python -m benchmarks.auto_kappa --out DIR` (some fifteen minutes, one core; runs that are there are
read) trains a softmax regression on digits with cohorts of 10, 3 and 1 devices a round and
fits rounds = R0 (1 + Q / kappa) to when they reach a test loss. It writes
``results/auto-kappa.md``.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np

from fedsched.analysis.arrival import RunningMean, reach
from fedsched.analysis.curves import Curve
from fedsched.runs.experiment import run

DEVICES = 50
SEEDS = (1, 2, 3)
LOSSES = {"inf": (0.4, 0.3, 0.25, 0.2), 1.0: (0.4, 0.3, 0.25, 0.2)}  # by alpha
COHORTS = {  # by 1/q, the same for all devices
    5.0: {"kind": "uniform", "draws": 10, "design": "fixed-size"},
    50 / 3: {"kind": "uniform", "draws": 3, "design": "fixed-size"},
    50.0: {"kind": "uniform", "draws": 1, "design": "fixed-size"},
}
PLACE = Path(__file__).parent / "results" / "auto-kappa.md"


def trained(folder, name, alpha, seed, policy, compute_s=0.0):
    """The log of a run, which is trained if it is not there."""
    scenario = {
        "run": {"rounds": 600, "seed": seed, "eval_every": 1, "checkpoint_every": 600},
        "channel": {"devices": DEVICES},
        "uplink": {"bits": 17765696.0, "computation_s": compute_s},
        "data": {"samples": 100, "alpha": alpha},
        "training": {"model": "softmax", "learning_rate": 0.05},
        "policy": policy,
    }
    return run(scenario, folder / f"{name}-{alpha}-{seed}")


def arrival(log, loss):
    """Rounds until the mean test loss of five rounds is at the level."""
    value = log.column("test_loss")
    rounds = np.arange(1.0, len(value) + 1)
    curve = Curve(rounds=rounds, airtime_s=rounds, value=value)
    found = reach(curve, loss, RunningMean(5), falls=True)
    return np.nan if found is None else found.rounds


def fitted(logs, loss):
    """Kappa, and the rms of ln of the rounds about the law, over all runs that arrived."""
    points = np.array([(q, arrival(log, loss)) for (q, _), log in logs.items()], dtype=np.float64)
    points = points[np.isfinite(points[:, 1])]
    best = None
    for kappa in np.geomspace(5.0, 5e4, 400):  # least squares of ln R; R0 is a mean
        left = np.log(points[:, 1]) - np.log1p(points[:, 0] / kappa)
        rms = left.std()
        best = min(best or (np.inf, 0.0), (rms, kappa))
    return best[1], best[0], points[:, 1].mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    lines = [
        "# Kappa, learnt and fitted",
        "",
        f"Digits, softmax regression, {DEVICES} devices, {len(SEEDS)} seeds: `python -m "
        "benchmarks.auto_kappa --out DIR`.",
        "Learnt is what `auto` has when a run comes to the test loss, over the seeds and over "
        "computation times of 0.1 and 10 uploads.",
        "",
        "| alpha | test loss | rounds | fitted κ | rms of ln rounds | learnt κ | learnt / fitted |",
        "|---|---|---|---|---|---|---|",
    ]
    for alpha, losses in LOSSES.items():
        logs = {
            (q, seed): trained(folder, f"q{q:.0f}", alpha, seed, policy)
            for (q, policy), seed in itertools.product(COHORTS.items(), SEEDS)
        }
        own = [
            trained(folder, f"auto-{compute_s:g}", alpha, seed, {}, compute_s)
            for compute_s, seed in itertools.product((0.03, 3.0), SEEDS)
        ]
        for loss in losses:
            kappa, rms, rounds = fitted(logs, loss)
            learnt = []
            for log in own:
                at = arrival(log, loss)
                if np.isfinite(at):
                    learnt.append(log.column("kappa")[int(at) - 1])
            low, mean, high = np.min(learnt), np.exp(np.mean(np.log(learnt))), np.max(learnt)
            lines.append(
                f"| {alpha} | {loss} | {rounds:.0f} | {kappa:.0f} | {rms:.3f} | {mean:.0f} "
                f"({low:.0f} to {high:.0f}) | {mean / kappa:.2f} |"
            )
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
