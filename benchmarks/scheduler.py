"""Decisions per second of the scheduler beside general solvers, and its cost in passes of exp.

All times are processor time of one thread, so that other work on the machine disturbs them less.
"""

import time
from statistics import median

import numpy as np

from benchmarks import rounds
from benchmarks.problems import LAM, round_problems, settled_queues
from benchmarks.rivals import (
    solve_with_pymanopt,
    solve_with_pymanopt_autograd,
    solve_with_slsqp,
)

SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
DRAWS = 10
# The paper's size with fewer draws: with five, both kinds of minima are often there.
PAPERS = ((10**2, LAM, 1), (10**2, LAM, 5))
RIVAL_LIMIT_S = 10.0
# Up to which size each rival is asked: SLSQP factorises N x N matrices, autograd records loops.
RIVALS = {
    "pymanopt": (solve_with_pymanopt, 10**6),
    "pymanopt (autograd)": (solve_with_pymanopt_autograd, 10**4),
    "SLSQP": (solve_with_slsqp, 10**3),
}
# Consecutive rounds at each size; all solvers see the same ones, in turn.
ROUNDS = {10**2: 15, 10**3: 5, 10**4: 5, 10**5: 3, 10**6: 3}
EXP_DEVICES = 10**6
EXP_DRAWS = (1, 10, 100)
EXP_REPEATS = 7


def measure(report=print):
    """All measurements, as one JSON-able object."""
    settled = settled_queues(draws=DRAWS, seed=1)
    cases = [(devices, LAM, DRAWS) for devices in SIZES]
    cases += [(devices, float(devices), DRAWS) for devices in SIZES]
    rows = []
    for devices, lam, draws in dict.fromkeys([*PAPERS, *cases]):
        queues = settled if draws == DRAWS else settled_queues(draws=draws, seed=1)
        row = measure_size(devices, lam, draws, queues)
        rows.append(row)
        report(describe(row))
    passes = []
    for scaled in (False, True):
        for draws in EXP_DRAWS:
            row = measure_passes(draws, float(EXP_DEVICES) if scaled else LAM, settled)
            passes.append(row)
            report(f"N = 10^6, lambda = {row['lam']:g}, m = {draws}: {row['passes']:.0f} passes")
    others = {
        "unequal": [measure_unequal(draws, settled) for draws in (1, 5, 10)],
        "linear": measure_linear(settled),
        "rounds": rounds.measure(),
    }
    report(describe_others(others))
    return {"decisions": rows, "passes": passes, **others}


def measure_size(devices, lam, draws, settled):
    """Every solver on the same rounds, one after the other within each round."""
    problems = round_problems(
        devices, draws=draws, lam=lam, count=ROUNDS[devices], settled=settled, seed=2
    )
    asked = {name: solve for name, (solve, most) in RIVALS.items() if devices <= most}
    problems[0].decide()  # once for imports and caches
    ours = []
    seconds, excess = {name: [] for name in asked}, {name: [] for name in asked}
    finished = dict.fromkeys(asked, True)
    for place, problem in enumerate(problems):
        solution = problem.decide()
        ours.append(seconds_of(problem.decide))
        price = problem.price(problem.power())
        for name, solve in asked.items():
            if place and sum(seconds[name]) > RIVAL_LIMIT_S:
                continue  # one slow answer tells as much as many
            answer = solve(price, problem.weight, draws, RIVAL_LIMIT_S)
            seconds[name].append(answer.seconds)
            reached = problem.objective(answer.draw_probability, price)
            excess[name].append(reached / float(solution.objective) - 1.0)
            finished[name] &= answer.finished
    return {
        "devices": devices,
        "lam": lam,
        "draws": draws,
        "seconds": median(ours),
        "rivals": {
            name: {
                "seconds": median(seconds[name]),
                "ratio": median(s / o for s, o in zip(seconds[name], ours, strict=False)),
                "worst_excess_percent": 100.0 * max(excess[name]),
                "median_excess_percent": 100.0 * median(excess[name]),
                "finished": finished[name],
                "rounds": len(seconds[name]),
            }
            for name in asked
        },
    }


def measure_passes(draws, lam, settled):
    """Time of a decision for a million devices over that of one exp of as many numbers."""
    [problem] = round_problems(EXP_DEVICES, draws=draws, lam=lam, count=1, settled=settled, seed=3)
    numbers = np.linspace(-3.0, 3.0, EXP_DEVICES)
    out = np.empty_like(numbers)
    problem.decide()
    decisions, exps = [], []
    for _ in range(EXP_REPEATS):
        decisions.append(timed(problem.decide)[1])
        exps += [timed(lambda: np.exp(numbers, out=out))[1] for _ in range(5)]
    return {
        "draws": draws,
        "lam": lam,
        "seconds": min(decisions),
        "exp_seconds": min(exps),
        "passes": min(decisions) / min(exps),
    }


def measure_unequal(draws, settled):
    """A hundred devices with a hundred different amounts of data."""
    problems = round_problems(100, draws=draws, lam=LAM, count=15, settled=settled, seed=2)
    share = np.random.default_rng(4).dirichlet(np.full(100, 5.0))
    taken = [seconds_of(lambda p=each: p.decide(share)) for each in problems]
    return {"draws": draws, "seconds": median(taken), "worst_seconds": max(taken)}


def measure_linear(settled):
    """Seconds a device and decision, for ten times as many devices."""
    found = []
    for devices in (10**5, 10**6, 10**7):
        problems = round_problems(devices, draws=DRAWS, lam=LAM, count=1, settled=settled, seed=3)
        best = min(timed(problems[0].decide)[1] for _ in range(3))
        found.append({"devices": devices, "seconds": best, "ns_a_device": 1e9 * best / devices})
    return found


def seconds_of(work):
    """Processor time of one call, the median of five; short calls are repeated to be seen."""
    times = max(1, int(2e-3 / max(timed(work)[1], 1e-6)))

    def repeated():
        for _ in range(times):
            work()

    return median(timed(repeated)[1] / times for _ in range(5))


def timed(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def describe(row):
    setting = f"N = {row['devices']:,}, lambda = {row['lam']:g}, m = {row['draws']}"
    parts = [f"{setting}: {1 / row['seconds']:,.1f} a second"]
    parts += [
        f"{name} {rival['ratio']:,.0f} times slower, {rival['worst_excess_percent']:.3g} % above"
        for name, rival in row["rivals"].items()
    ]
    return "; ".join(parts)


def describe_others(found):
    """One line each: unequal data, long arrays, whole rounds."""
    unequal = ", ".join(
        f"m = {each['draws']}: {1e6 * each['seconds']:.0f} us (worst round "
        f"{1e6 * each['worst_seconds']:.0f})"
        for each in found["unequal"]
    )
    linear = ", ".join(
        f"{each['devices']:,}: {each['ns_a_device']:.1f} ns" for each in found["linear"]
    )
    return "\n".join(
        [
            f"100 devices with 100 different amounts of data, lambda = 100; {unequal}.",
            f"A device's part of a decision, m = 10, lambda = 100; {linear}.",
            rounds.describe(found["rounds"]),
        ]
    )


def as_markdown(result):
    """The tables of the README."""
    lines = [
        "| devices | lambda | draws | decisions a second | "
        + " | ".join(f"{name}: times slower | objective above ours" for name in RIVALS)
        + " |",
        "|---" * (4 + 2 * len(RIVALS)) + "|",
    ]
    for row in result["decisions"]:
        cells = [f"{row['devices']:,}", f"{row['lam']:,.0f}", str(row["draws"])]
        cells.append(_short(1 / row["seconds"]))
        for name in RIVALS:
            rival = row["rivals"].get(name)
            cells += ["", ""] if rival is None else _rival_cells(rival)
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "| devices | lambda | draws | seconds a decision | passes of `np.exp` |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {EXP_DEVICES:,} | {row['lam']:,.0f} | {row['draws']} | {row['seconds']:.3f} | "
        f"{row['passes']:.0f} |"
        for row in result["passes"]
    ]
    return "\n".join([*lines, "", *describe_others(result).replace("\n", "\n\n").split("\n")])


def _rival_cells(rival):
    slower = _short(rival["ratio"])
    if not rival["finished"]:
        slower = f"> {slower} (stopped after {RIVAL_LIMIT_S:.0f} s)"
    worst = rival["worst_excess_percent"]
    return [slower, "0" if worst < 1e-7 else f"{_short(worst)} %"]


def _short(number):
    return f"{number:,.0f}" if number >= 10.0 else f"{number:.2g}"
