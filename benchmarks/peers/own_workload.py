"""fedsched's own pool of worker processes, and its aggregation."""

import sys
from itertools import count

from benchmarks.peers.workload import COHORT, PROCESSES, SPEC, Finished, Gate, cohort
from fedsched.learning.aggregation import aggregate
from fedsched.learning.pool import ProcessPool


def main(address: str) -> None:
    gate = Gate(address)
    with ProcessPool(SPEC, PROCESSES) as pool:
        parameters = pool.initial_parameters
        steps = 0
        for round_ in count():
            try:
                gate.wait(steps)
            except Finished:
                return
            updates = list_steps = []  # filled while the updates are consumed one by one
            updates = pool.train_cohort(parameters, cohort(round_), round_)
            weighted = ((1.0 / COHORT, _counted(update, list_steps)) for update in updates)
            parameters = aggregate(parameters, weighted).parameters
            steps = sum(list_steps)


def _counted(update, steps):
    steps.append(update.steps)
    return update.delta


if __name__ == "__main__":
    main(sys.argv[1])
