"""Random problems for the solver, in every regime, against the slow twin: ``make fuzz``.

Every answer must be allowed: each probability in (0, 1] and at its floor or above, each sum met.
Every answer must be certified, unless numbers differ by more than a double holds. Where the twin,
the grid or another solver is asked, the answer must not be above theirs by more than a tenth of
what is promised; where the multiplier is not positive, nor above the bound of duality, computed
here anew.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from tests.solve.beside import answers_of, objective_reached
from tests.solve.brute_force import brute_force_probabilities
from tests.solve.problems import DrawProblem, feasible_floor, objective, sample_problem
from tests.solve.reference import reference_fixed_size
from tests.solve.reference_draws import reference_probabilities

from fedsched.solve.decision import decide
from fedsched.solve.probabilities import fixed_size_probabilities, optimal_probabilities
from fedsched.solve.solution import TOLERANCE
from fedsched.solve.uplink import PAPER_UPLINK

EXCESS = 1e-10
DUAL_SHARE = 0.1  # of problems whose bound of duality is computed, too
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


def sated(random, devices, equal):
    """Several devices want to be sure, some of them just so, and the draws are enough for them."""
    draws = int(random.choice([10, 20, 30, 34, 60, 100, 300, 353, 1000]))
    weight = random.choice([0.01, 0.1, 1.0, 1.0 + 1e-12, 3.0, 100.0], 1 if equal else devices)
    if random.random() < 0.3:
        weight = 10.0 ** random.uniform(-4.5, 4.5, len(weight))
    apart = float(random.choice([0, 1e-15, 1e-12, 1e-9, 1e-6]))
    just = 1.0 + apart * random.integers(-3, 4, devices)
    surely = random.choice([0.0, 1e-6, 0.5, 1.0, 1.0001], devices)
    sure = np.where(random.random() < 0.5, just, surely)
    rare = 10.0 ** random.uniform(0, random.choice([1, 4, 6]), devices)
    return DrawProblem(
        price=weight * np.where(random.random(devices) < random.choice([0.3, 0.7, 1]), sure, rare),
        weight=float(weight[0]) if equal else weight,
        draws=draws,
        floor=feasible_floor(devices, draws, float(random.choice(FLOORS))),
    )


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


KINDS = (sampled, wild, tied, sated, extreme)


def dual_bound(problem, nu):
    """No draw probabilities cost less: the sum of min a/q + b q - nu omega, and nu, for nu <= 0.

    With t = -log(1 - q) a device's part falls, then rises: where (b - a/q^2) - nu/m e^(t - t/m)
    changes its sign. Halving log t finds that; the minimum is flat there.
    """
    m, b, a = problem.draws, problem.price, problem.weight
    low, high = np.full(len(b), -40.0), np.full(len(b), np.log(700.0))
    least = -np.log1p(-problem.floor)
    for _ in range(60):
        t = np.exp(0.5 * (low + high))
        rises = (b - a / np.expm1(-t) ** 2) - nu / m * np.exp(t - t / m) > 0.0
        low, high = np.where(rises, low, np.log(t)), np.where(rises, np.log(t), high)
    t = np.maximum(np.exp(0.5 * (low + high)), least)
    return objective(b, a, -np.expm1(-t)) + nu * (1.0 + np.expm1(-t / m).sum())


def check_draws(problem, kind, *, others=(), dual=False):
    """One answer; ``others`` are solvers of the same problem that must not find a better one."""
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
    for solve in others:
        assert value <= float(solve(problem)) * (1 + EXCESS), f"{solve.__name__} is better"
    nu, wish = float(solution.multiplier), np.sqrt(problem.weight) / np.sqrt(problem.price + 1e-300)
    # A multiplier of 0 may be one too small for a double, of a device that falls.
    if dual and (nu < 0.0 or (nu == 0.0 and np.all(q <= np.maximum(wish, problem.floor)))):
        assert value <= dual_bound(problem, nu) + EXCESS * value, "above the bound of duality"


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
        other = reference_fixed_size(problem.price, weight=problem.weight, size=size, floor=floor)
        assert float(solution.objective) <= other.objective * (1 + EXCESS), "the twin is better"


def twin(problem):
    return reference_probabilities(**problem.arguments).objective


def grid(problem):
    return brute_force_probabilities(**problem.arguments).objective


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


def run(count, seed, twin_share, beside=()):
    """This many problems; the first that fails is raised with what it was."""
    random, counts = np.random.default_rng(seed), Counter()
    for place in range(count):
        equal, ask = bool(random.random() < 0.6), bool(random.random() < twin_share)
        small, dual = ask or random.random() < 0.97, bool(random.random() < DUAL_SHARE)
        devices = int(random.choice([1, 2, 2, 3, 4, 6] if small else [30, 100, 200, 300]))
        kind = KINDS[random.choice(5, p=[0.25, 0.25, 0.2, 0.2, 0.1])]
        problem = kind(random, devices, equal)
        others = [twin, *([grid] if devices in (2, 3) else []), *beside] if ask else []
        if not np.all(problem.price > 0.0):  # which twin and grid take as a price forgotten
            others = []
        try:
            check_draws(problem, kind, others=others, dual=dual)
            if kind is not extreme:
                check_fixed_size(problem, random, bool(others))
            check_decision(random, devices)
        except AssertionError as failure:
            raise AssertionError(f"{failure}: seed {seed}, problem {place}, {problem!r}") from None
        counts[kind.__name__] += 1
        if kind is not extreme:
            counts.update(solve.__name__ for solve in others)
    return dict(counts)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1_000_000, help="problems, three solves each")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--twin", type=float, default=0.005, help="share that the twin solves too")
    options.add_argument("--beside", type=Path, help="sources of another version to compare with")
    given = options.parse_args()
    with ExitStack() as open_:
        beside = []
        if given.beside:
            ask = open_.enter_context(answers_of(given.beside))

            def other(problem):
                return objective_reached(problem, ask(problem))

            beside.append(other)
        counts = run(given.count, given.seed, given.twin, beside)
    sys.stdout.write(f"seed {given.seed}: {given.count} problems, {counts}, none failed\n")


if __name__ == "__main__":
    main()
