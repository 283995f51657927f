"""fedsched's own pool of worker processes, and its aggregation."""

import sys
from itertools import count

from benchmarks.peers.workload import (
    COHORT,
    PROCESSES,
    SPEC,
    Finished,
    Gate,
    cohort,
    own_session,
)
from fedsched.learning.aggregation import Update, WeightedSum
from fedsched.learning.pool import ProcessPool


def main(address: str) -> None:
    gate = Gate(address)
    with ProcessPool(SPEC, PROCESSES) as pool:
        parameters, steps = pool.initial_parameters, 0
        for round_ in count():
            try:
                gate.wait(steps)
            except Finished:
                return
            done: list[int] = []
            updates = pool.train_cohort(parameters, cohort(round_), round_)
            parameters = WeightedSum().step(parameters, {}, _weighted(updates, done)).parameters
            steps = sum(done)


def _weighted(updates, done):
    for place, update in enumerate(updates):
        done.append(update.steps)
        yield Update(place, 1.0 / COHORT, update.delta)


if __name__ == "__mp_main__":  # in the pool's workers, which import the main module
    own_session()
if __name__ == "__main__":
    main(sys.argv[1])
