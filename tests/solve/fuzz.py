"""Random problems for the solver, in every regime, against the slow twin: ``make fuzz``.

Every answer must be allowed: each probability in (0, 1] and at its floor or above, each sum met.
Every answer must be certified, unless numbers differ by more than a double holds. Where the twin is
asked it must not be beaten by it by more than a hundredth of what is promised.
"""

import argparse
import sys
import time

import numpy as np
from tests.solve.problems import DrawProblem, feasible_floor, objective, sample_problem
from tests.solve.reference import reference_fixed_size
from tests.solve.reference_draws import reference_probabilities

from fedsched.solve.decision import decide
from fedsched.solve.probabilities import fixed_size_probabilities, optimal_probabilities
from fedsched.solve.solution import TOLERANCE
from fedsched.solve.uplink import PAPER_UPLINK

EXCESS = 1e-10
DRAWS = (1, 2, 3, 5, 10, 30, 100, 1000)
FLOORS = (0.0, 0.0, 0.1, 0.5, 0.9, 0.999)


def wild(random, devices, equal):
    """Prices over up to twenty decades, weights over up to nine."""
    spread, draws = random.choice([3, 9, 14, 20]), int(random.choice(DRAWS))
    price = 10.0 ** (random.uniform(-6, 6) + random.uniform(-0.5, 0.5, devices) * spread)
    weight = 10.0 ** -random.uniform(0, random.choice([1, 4, 9]), 1 if equal else devices)
    floor = feasible_floor(devices, draws, float(random.choice(FLOORS)))
    return DrawProblem(
        price=price, weight=float(weight[0]) if equal else weight, draws=draws, floor=floor
    )


def tied(random, devices, equal):
    """Prices and weights that are equal but for a few digits, where several minima are close."""
    draws = int(random.choice(DRAWS[1:]))
    apart = random.choice([0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.03])
    level = max(1.0, (devices / draws) ** 2) * 10.0 ** random.uniform(-0.5, 1.0)
    weight = np.ones(1) if equal else 1.0 + random.choice([0, 1e-12, 0.1]) * random.random(devices)
    price = weight * level * (1.0 + apart * random.random(devices))
    floor = feasible_floor(devices, draws, float(random.choice(FLOORS)))
    return DrawProblem(price=price, weight=1.0 if equal else weight, draws=draws, floor=floor)


def sampled(random, devices, equal):
    return sample_problem(random, devices=devices, equal_weights=equal)


def extreme(random, devices, equal):
    """Numbers further apart than a double holds."""
    problem = wild(random, devices, equal)
    return DrawProblem(
        price=10.0 ** random.uniform(-140, 140, devices),
        weight=problem.weight,
        draws=problem.draws,
        floor=problem.floor,
    )


KINDS = (sampled, wild, tied, extreme)


def check_draws(problem, kind, ask_twin):
    solution = optimal_probabilities(**problem.arguments)
    q, omega = solution.probability, solution.draw_probability
    assert np.all((q > 0.0) & (q <= 1.0) & (q >= problem.floor)), "bounds"
    assert np.all(omega > 0.0), "bounds"
    assert abs(omega.sum() - 1.0) <= 1e-12, "sum"
    assert float(solution.gap) >= 0.0, "gap"
    if kind is extreme:
        return
    assert float(solution.gap) <= TOLERANCE, "not certified"
    value = objective(problem.price, problem.weight, q)
    assert abs(value / float(solution.objective) - 1.0) <= 1e-12, "objective"
    if ask_twin:
        assert value <= reference_probabilities(**problem.arguments).objective * (1 + EXCESS)


def check_fixed_size(problem, random, ask_twin):
    devices = len(problem.price)
    size = float(random.uniform(0.01, 1.0)) * devices
    floor = float(random.choice(FLOORS)) * size / devices
    solution = fixed_size_probabilities(
        problem.price, weight=problem.weight, size=size, floor=floor
    )
    q = solution.probability
    assert np.all((q > 0.0) & (q <= 1.0) & (q >= floor)), "bounds"
    assert abs(q.sum() / size - 1.0) <= 1e-12, "sum"
    assert float(solution.gap) <= TOLERANCE, f"size {size}, floor {floor}: not certified"
    if ask_twin:
        twin = reference_fixed_size(problem.price, weight=problem.weight, size=size, floor=floor)
        assert float(solution.objective) <= twin.objective * (1 + EXCESS)


def check_decision(random, devices):
    """The fused call at any gain and queue, against its three steps."""
    gain = 10.0 ** random.uniform(-30, 30, devices)
    queue = random.choice([0.0, 1e-6, 1.0, 1e3, 1e9], devices)
    draws = int(random.choice(DRAWS))
    decided = decide(gain, queue, uplink=PAPER_UPLINK, v=100.0, lam=100.0, draws=draws)
    q, power = decided.probability, decided.power_w
    assert np.all((q > 0.0) & (q <= 1.0)), "bounds"
    assert np.all((power > 0.0) & (power <= PAPER_UPLINK.max_power_w)), "power"
    price = 1e4 * PAPER_UPLINK.airtime_s(gain, power) + queue * power
    assert np.max(np.abs(decided.price / price - 1.0)) <= 1e-12, "price"
    problem = f"gain {gain!r}, queue {queue!r}, draws {draws}, gap {decided.gap}"
    assert float(decided.gap) <= TOLERANCE, f"{problem}: not certified"


def run(count, seed, twin_share):
    """This many problems; the first that fails is raised with what it was."""
    random, counts = np.random.default_rng(seed), {}
    for place in range(count):
        equal, ask = bool(random.random() < 0.6), bool(random.random() < twin_share)
        small = ask or random.random() < 0.97
        devices = int(random.choice([1, 2, 2, 3, 4, 6]) if small else random.choice([30, 100, 300]))
        kind = KINDS[random.choice(4, p=[0.3, 0.3, 0.3, 0.1])]
        problem = kind(random, devices, equal)
        try:
            check_draws(problem, kind, ask and kind is not extreme)
            if kind is not extreme:
                check_fixed_size(problem, random, ask)
            check_decision(random, devices)
        except AssertionError as failure:
            raise AssertionError(f"{failure}: seed {seed}, problem {place}, {problem!r}") from None
        counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        counts["twin"] = counts.get("twin", 0) + ask
    return counts


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=400_000, help="problems, three solves each")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--twin", type=float, default=0.005, help="share that the twin solves too")
    given = options.parse_args()
    counts = run(given.count, given.seed, given.twin)
    sys.stdout.write(f"seed {given.seed}: {counts}, none failed\n")


if __name__ == "__main__":
    main()
