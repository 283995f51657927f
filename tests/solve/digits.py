"""Which solver is right where two of them differ in their last digits: 50-digit arithmetic says.

`python -m tests.solve.digits RUN --before ../before/src` schedules a committed run anew, takes the
round whose logged weights differ most, and prints how far from the minimum are the logged q, that
of the present solver, and that of the version in the other folder, given the same prices.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

import mpmath
import numpy as np
from tests.solve.beside import answers_of
from tests.solve.problems import DrawProblem

from fedsched.runs.assembly import schedule_of
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from
from fedsched.solve.probabilities import optimal_probabilities

DIGITS = 50


def exact(problem, solution):
    """q of the stationary point next to a solution without floors, to 50 digits.

    Newton's method on F_n(omega_n) = nu for all n and sum of omega = 1 at once.
    """
    with mpmath.workdps(DIGITS):
        m, size = problem.draws, len(problem.price)
        b = [mpmath.mpf(float(each)) for each in problem.price]
        a = [mpmath.mpf(float(each)) for each in np.broadcast_to(problem.weight, size)]
        omega = [mpmath.mpf(float(each)) for each in solution.draw_probability]
        nu = mpmath.mpf(float(solution.multiplier))
        for _ in range(6):
            u = [1 - each for each in omega]
            q = [1 - each**m for each in u]
            parts = list(zip(a, b, u, q, strict=True))
            off = [nu - ai * m * ui ** (m - 1) * (bi / ai - 1 / qi**2) for ai, bi, ui, qi in parts]
            rise = [
                2 * ai * m**2 * ui ** (2 * m - 2) / qi**3
                - m * (m - 1) * ui ** (m - 2) * (bi - ai / qi**2)
                for ai, bi, ui, qi in parts
            ]
            step = [x / c for x, c in zip(off, rise, strict=True)]
            change = (1 - sum(omega) - sum(step)) / sum(1 / c for c in rise)
            nu += change
            omega = [w + s + change / c for w, s, c in zip(omega, step, rise, strict=True)]
        moved = max(abs(s + change / c) / w for s, c, w in zip(step, rise, omega, strict=True))
        assert moved < mpmath.mpf(10) ** (10 - DIGITS), "Newton's method did not settle"
        return [1 - (1 - each) ** m for each in omega]


def apart(found, right):
    """The largest relative difference, of numbers beyond a double too."""
    with mpmath.workdps(DIGITS):
        each = zip(found, right, strict=True)
        return max((abs(mpmath.mpf(float(x)) / y - 1) for x, y in each), default=mpmath.mpf(0))


def worst_round(log):
    """The problem of the round whose logged weights differ most, its devices and logged q."""
    scenario = scenario_from(log.manifest["scenario"])
    rounds = islice(schedule_of(scenario, int(log.manifest["update_bits"]) // 32), log.rounds)
    worst, found = -1.0, None
    for device, weight, done in zip(log.lists("device"), log.lists("weight"), rounds, strict=True):
        assert done.cohort.device.tolist() == device, "another cohort: nothing to compare"
        off = float(np.max(np.abs(done.cohort.weight / np.array(weight) - 1.0), initial=0.0))
        if off > worst:
            worst, found = off, (done, device, np.array(weight))
    done, device, weight = found
    policy, plan, size = log.manifest["scenario"]["policy"], done.decision.plan, len(done.gain)
    price = (
        policy["v"] * policy["lam"] * plan.upload_s + done.queues["power"] * plan.power_w
    )  # V lambda tau + Z P
    problem = DrawProblem(price=price, weight=policy["v"] / size, draws=policy["draws"])
    return done.round, problem, device, 1.0 / (size * weight)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("run", type=Path, help="folder of a committed run of lyapunov")
    options.add_argument("--before", type=Path, help="sources of the version that made it")
    given = options.parse_args()
    number, problem, device, logged = worst_round(read_run(given.run))
    solution = optimal_probabilities(**problem.arguments)
    right = exact(problem, solution)
    cohort = [right[each] for each in device]
    lines = [
        f"round {number}, devices {device}",
        f"logged: q off by {mpmath.nstr(apart(logged, cohort), 2)}",
        f"this version: off by {mpmath.nstr(apart(solution.probability[device], cohort), 2)}, "
        f"all {len(right)} devices by {mpmath.nstr(apart(solution.probability, right), 2)}",
    ]
    if given.before:
        with answers_of(given.before) as ask:
            q = ask(problem)[0]
        lines.append(
            f"the other version: off by {mpmath.nstr(apart(q[device], cohort), 2)}, "
            f"all devices by {mpmath.nstr(apart(q, right), 2)}"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
