"""Do predicted times rank policies as training did? And the best of the paper's twelve, by kappa.

`python -m benchmarks.advice [--kappa K] [--rounds T] [--table NAME]` schedules the paper's lyapunov
and uniform, and predicts times by (kappa + mean 1/q)(computation + airtime). It prints the first of
each policy for every computation time, and the rank correlation (Spearman) with the times of the
committed CIFAR-10 runs, and how much longer the predicted first took than the really first.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from fedsched import read_run
from fedsched.analysis import group_runs, lower_envelope, mean_reach
from fedsched.analysis.arrival import Reach, arrival_protocol
from fedsched.runs.scenario import scenario_from
from fedsched.runs.scenario_file import load_scenarios
from fedsched.theory.advice import Case, Study, simulate

RESULTS = Path(__file__).parents[1] / "results" / "cifar10"
TARGETS = {"inf": 0.77, "1.0": 0.7, "0.0": 0.6}
COMPUTATIONS_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
MEAN = arrival_protocol("mean")


def predicted(scenario, kappa, rounds):
    """Airtime and rounds to a target, up to a factor that all have in common."""
    study = Study.of([scenario], kappa, rounds, 1)
    policy = scenario.policy
    cost = simulate(study, Case(policy=policy, seed=scenario.run.seed, computation_s=0.0))
    needed = study.kappas[0] + cost.inverse
    return Reach(airtime_s=cost.airtime_s * needed, rounds=needed)


def paper_table(name, kappa, rounds):
    """The first among each policy, in every range of computation times."""
    lines = {"lyapunov": {}, "uniform": {}}
    for path in sorted((RESULTS / name).glob("scenario-m*-alpha-inf.toml")):
        for each in load_scenarios(path):
            label = f"m={each.policy.draws}"
            label += f" lambda={each.policy.lam:g}" if each.policy.kind == "lyapunov" else ""
            lines[each.policy.kind].setdefault(label, predicted(each, kappa, rounds))
    for kind, each in lines.items():
        pieces = [f"{piece.name} from {piece.begin_s:.3g} s" for piece in lower_envelope(each)]
        print(f"{name}, first among {kind}: {'; '.join(pieces)}")


def ranking(kappa, rounds):
    """Rank correlations with the committed runs, by channel and alpha."""
    cases = {}
    for group in group_runs(map(read_run, sorted((RESULTS / "runs").iterdir()))):
        alpha = str(group.fields["data.alpha"])
        reached = mean_reach(group, TARGETS[alpha], protocol=MEAN)
        if reached is not None:
            key = group.fields["channel.kind"], alpha
            cases.setdefault(key, []).append((group, reached))
    print("| channel | alpha | target | policies | " + " | ".join(map(str, COMPUTATIONS_S)) + " |")
    for (kind, alpha), found in sorted(cases.items()):
        if len(found) < 4:
            continue
        told = [
            predicted(scenario_from(group.logs[0].manifest["scenario"]), kappa, rounds)
            for group, _ in found
        ]
        cells = []
        for c in COMPUTATIONS_S:
            ours = np.array([each.time_s(c) for each in told])
            real = np.array([each.time_s(c) for _, each in found])
            lost = real[np.argmin(ours)] / real.min() - 1.0
            cells.append(f"{spearmanr(ours, real).statistic:.2f}, {100 * lost:.0f} %")
        row = [kind, alpha, str(TARGETS[alpha]), str(len(found)), *cells]
        print("| " + " | ".join(row) + " |", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kappa", type=float)
    arguments.add_argument("--rounds", type=int, default=400)
    arguments.add_argument("--table", default="table-heterogeneous")
    asked = arguments.parse_args()
    paper_table(asked.table, asked.kappa, asked.rounds)
    ranking(asked.kappa, asked.rounds)


if __name__ == "__main__":
    main()
