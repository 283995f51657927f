"""Whole rounds of ``schedule``: channel, decision, cohort, queues and clock.

`python -m benchmarks.rounds` prints the microseconds of processor time a round. It uses nothing but
public names, so it also runs on the sources of an earlier commit:

    git worktree add ../before 67b5ac0
    PYTHONPATH=../before/src python -m benchmarks.rounds
"""

import time
from itertools import islice
from statistics import median

import fedsched

DRAWS = (1, 5, 10)
SETTLING, ROUNDS, REPEATS = 400, 500, 5
# What that command printed for commit 67b5ac0, with the solver in Python, on the machine and in the
# hour of the results beside this file: the median of three times, in turn with the present sources.
BEFORE_US = {1: 149.0, 5: 873.0, 10: 192.0}


def round_us(draws):
    """Microseconds a round at N = 100 with settled queues, the median of five stretches."""
    uplink = fedsched.PAPER_UPLINK
    rounds = fedsched.schedule(
        channel=fedsched.make_channel("heterogeneous", devices=100),
        policy=fedsched.make_policy("lyapunov", uplink=uplink, draws=draws),
        uplink=uplink,
        seed=1,
    )
    next(islice(rounds, SETTLING - 1, None))
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        next(islice(rounds, ROUNDS - 1, None))
        taken.append(1e6 * (time.process_time() - start) / ROUNDS)
    return median(taken)


def measure():
    return [
        {"draws": draws, "us": round_us(draws), "before_us": BEFORE_US[draws]} for draws in DRAWS
    ]


def describe(found):
    cells = ", ".join(
        f"m = {each['draws']}: {each['us']:.0f} us ({each['before_us'] / each['us']:.1f} times "
        f"faster than {each['before_us']:.0f})"
        for each in found
    )
    return f"A whole round of `schedule`, N = 100, beside commit 67b5ac0; {cells}."


if __name__ == "__main__":
    for draws in DRAWS:
        print(f"m = {draws}: {round_us(draws):.0f} us a round")
