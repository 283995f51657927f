"""How often a local solver ends in the wrong minimum, and what that does to the schedule.

`python -m benchmarks.local_minima` writes ``results/local-minima.md``. The solver is pymanopt's, as
in ``rivals``: conjugate gradients on the simplex, from the uniform point or from a random one.
"""

import itertools
from pathlib import Path

import numpy as np

from benchmarks.problems import LAM, RoundProblem
from benchmarks.rivals import solve_with_pymanopt
from fedsched.radio import make_channel
from fedsched.randomness import stream
from fedsched.solve.uplink import PAPER_UPLINK

DEVICES, ROUNDS, SEED = 100, 2_000, 1
BUDGET_W = 1.0
LIMIT_S = 10.0
WRONG = 1e-6  # relative excess from which an objective is another minimum's
DRAWS = (5, 10)
SOLVERS = ("global", "uniform start", "random start")
PLACE = Path(__file__).parent / "results" / "local-minima.md"


def answer(solver, problem, price, best, random):
    """Draw probabilities by one of the solvers; ``best`` is the global solution."""
    if solver == "global":
        return best.draw_probability
    start = random.dirichlet(np.ones(DEVICES)) if solver == "random start" else None
    found = solve_with_pymanopt(price, problem.weight, problem.draws, LIMIT_S, start=start)
    return found.draw_probability / found.draw_probability.sum()


def measure(solver, draws):
    """A schedule that lives with this solver's answers, each compared with the best one."""
    channel = make_channel("heterogeneous", DEVICES)
    state, queue = channel.init(stream(SEED, "channel")), np.zeros(DEVICES)
    rows = []
    for t in range(ROUNDS):
        gain, state = channel.step(state, stream(SEED, "channel", t))
        problem = RoundProblem(gain=gain, queue=queue, draws=draws, lam=LAM)
        power, best = problem.power(), problem.decide()
        price = problem.price(power)
        omega = answer(solver, problem, price, best, stream(SEED, "sampling", t))
        excess = problem.objective(omega, price) / float(best.objective) - 1.0
        q = -np.expm1(draws * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
        airtime_s = float(q @ PAPER_UPLINK.airtime_s(gain, power))
        rows.append((airtime_s, (1.0 / q).mean(), q.sum(), max(excess, 0.0)))
        queue = np.maximum(queue + power * q - BUDGET_W, 0.0)
    airtimes_s, inverse, devices, excess = np.array(rows).T
    return {
        "airtime_s": airtimes_s.mean(),
        "inverse": inverse.mean(),
        "devices": devices.mean(),
        "wrong": (excess > WRONG).mean(),
        "excess": excess.mean(),
        "worst": excess.max(),
    }


def main():
    lines = [
        "# The local minima of a round",
        "",
        f"Heterogeneous channel, {DEVICES} devices, V = lambda = {LAM:g}, {ROUNDS:,} rounds from "
        "empty queues, each solver with the queues its own answers lead to. An answer is wrong if "
        f"its objective is more than {WRONG:g} above the global one, relatively.",
        "",
        "| draws | solver | rounds with a wrong answer | objective above, mean and worst | "
        "airtime a round | mean 1/q | devices a round |",
        "|---|---|---|---|---|---|---|",
    ]
    for draws, solver in itertools.product(DRAWS, SOLVERS):
        row = measure(solver, draws)
        lines.append(
            f"| {draws} | {solver} | {row['wrong']:.1%} | {row['excess']:.2%}, {row['worst']:.1%} "
            f"| {row['airtime_s']:.3f} s | {row['inverse']:.1f} | {row['devices']:.2f} |"
        )
        print(lines[-1], flush=True)
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
