"""Time to a target of `auto`, beside rivals whose settings are chosen with hindsight.

`python -m benchmarks.auto_training --out FILE` (some ten minutes, one core; runs that FILE has are
read) trains a softmax regression on digits and writes ``results/auto-training.md``. Rivals are
uniform with each m, and lyapunov with each m and lambda of the paper's grid. The best of them is
taken for each computation time, after the fact; `auto` has nothing set.
"""

import argparse
import math
from pathlib import Path

import numpy as np

from benchmarks.notes import Notes
from benchmarks.softmax import rounds_of

TARGETS = {"inf": 0.94, 1.0: 0.92, 0.0: 0.88}  # by alpha
UPLOAD_S = 0.3  # about what one upload takes
TIMES = (0.1, 1.0, 10.0)  # of computation, in uploads
LAST, ROUNDS = 5, 600  # measurements whose mean is to reach the target; at most so many rounds
RIVALS = {
    **{f"uniform m={m}": {"kind": "uniform", "draws": m, "design": "fixed-size"}
       for m in (1, 2, 3, 5, 10, 20)},
    **{f"lyapunov m={m} λ={lam:g}": {"kind": "lyapunov", "draws": m, "lam": lam}
       for m in (1, 5, 10) for lam in (1.0, 10.0, 100.0)},
}  # fmt: skip
# The first seeds have every rival. The others were looked at later, with those rivals alone that
# were the best with the first.
SEEDS, MORE_SEEDS, MORE_ALPHAS = range(1, 4), range(4, 19), ("inf", 1.0)
MORE_RIVALS = ("uniform m=1", "uniform m=2", "lyapunov m=1 λ=10", "lyapunov m=1 λ=100")
PLACE = Path(__file__).parent / "results" / "auto-training.md"


def arrival(policy, alpha, seed, compute_s=0.0):
    """Rounds to the target, and the seconds on air that they took, and would take on average."""
    accuracy, airtime_s, mean_s = [], 0.0, 0.0
    for done in rounds_of(policy, alpha=alpha, seed=seed, rounds=ROUNDS, compute_s=compute_s):
        decision = done.scheduled.decision
        airtime_s += done.scheduled.airtime_s
        mean_s += float((decision.probability * decision.plan.upload_s).sum())
        if not math.isnan(done.accuracy):
            accuracy.append(done.accuracy)
            arrived = np.mean(accuracy[-LAST:]) >= TARGETS[alpha] - 1e-12
            if len(accuracy) >= LAST and arrived:
                return done.scheduled.round + 1, airtime_s, mean_s
    return math.inf, airtime_s, mean_s


def seconds(found, compute_s):
    """Logarithms of the time by either clock; shape (2, seeds)."""
    rounds, airtime_s, mean_s = np.array(found).T
    return np.log(rounds * compute_s + np.array([airtime_s, mean_s]))


def rows(notes, seeds, alphas, rivals):
    """A line of the table for each alpha and computation time, and the two ratios of each."""
    for alpha in alphas:
        found = {
            name: [
                notes.get(f"{name} {alpha} {seed}", arrival, RIVALS[name], alpha, seed)
                for seed in seeds
            ]
            for name in rivals
        }
        for uploads in TIMES:
            compute_s = uploads * UPLOAD_S
            auto = [
                notes.get(f"auto {uploads} {alpha} {seed}", arrival, {}, alpha, seed, compute_s)
                for seed in seeds
            ]
            own = seconds(auto, compute_s)
            others = {name: seconds(each, compute_s) for name, each in found.items()}
            cells, ratios = [], []
            for clock in (0, 1):
                best = min(others, key=lambda name: others[name][clock].mean())
                apart = own[clock] - others[best][clock]
                error = apart.std(ddof=1) / math.sqrt(len(apart))
                ratios.append(math.exp(apart.mean()))
                cells += [
                    f"{math.exp(own[clock].mean()):.1f}",
                    f"{best}: {math.exp(others[best][clock].mean()):.1f}",
                    f"{ratios[-1]:.2f} ± {error:.2f}",
                ]
            line = " | ".join([str(alpha), str(TARGETS[alpha]), f"{uploads:g}", *cells])
            yield f"| {line} |", ratios


def table(notes, seeds, alphas, rivals):
    """One table with its largest ratios below."""
    made = list(rows(notes, seeds, alphas, rivals))
    most = [max(ratios[clock] for _, ratios in made) for clock in (0, 1)]
    return [
        "| alpha | target | computation, uploads | auto, s | best rival, s | auto / best | auto, "
        "expected, s | best rival, s | auto / best |",
        "|---|---|---|---|---|---|---|---|---|",
        *(line for line, _ in made),
        "",
        f"The largest ratios are {most[0]:.2f} by the clock and {most[1]:.2f} as expected.",
        "",
    ]


def page(notes):
    """Both tables."""
    return "\n".join([
        "# `auto` in training, beside rivals tuned with hindsight",
        "",
        "Digits, softmax regression, 50 devices: `python -m benchmarks.auto_training --out FILE`.",
        f"Seconds to a test accuracy that the mean of {LAST} measurements reaches, one every five "
        "rounds; the geometric mean over seeds, and the standard error of the ratio.",
        "",
        "The first three columns of seconds are as the clock was. A cohort of one is a draw from "
        "upload times that differ a hundredfold, and the best of fifteen is also the luckiest. So "
        "the last three have the same rounds, and in the place of each round's airtime its "
        "expected value, which no luck of cohorts is in.",
        "",
        f"## All {len(RIVALS)} rivals, seeds {SEEDS[0]} to {SEEDS[-1]}",
        "",
        *table(notes, SEEDS, TARGETS, RIVALS),
        f"## The rivals with small cohorts, seeds {MORE_SEEDS[0]} to {MORE_SEEDS[-1]}",
        "",
        "These seeds were not looked at before. Rivals are those that were the best with the seeds "
        "above: " + ", ".join(MORE_RIVALS) + ".",
        "",
        *table(notes, MORE_SEEDS, MORE_ALPHAS, MORE_RIVALS),
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a file of the runs that were made")
    text = page(Notes(parser.parse_args().out))
    PLACE.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
