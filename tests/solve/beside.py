"""Another version of the solver, in a process of its own: what it reaches on the same problems."""

import os
import pickle
import subprocess
import sys
from contextlib import contextmanager
from math import inf
from pathlib import Path

import numpy as np
from tests.solve.problems import objective

__all__ = ["solver_of"]

# It has only the public name of the solver, so that any commit can be asked.
_SOLVE = """
import pickle, sys
import numpy as np
import fedsched
asked, answered = sys.stdin.buffer, sys.stdout.buffer
while True:
    try:
        problem = pickle.load(asked)
    except EOFError:
        break
    try:
        found = fedsched.optimal_probabilities(**problem)
        answer = found.probability.tolist(), found.draw_probability.tolist()
    except ArithmeticError:
        answer = None
    pickle.dump(answer, answered)
    answered.flush()
"""


@contextmanager
def solver_of(sources: Path):
    """A function from a problem to the objective that the version in this folder reaches.

    It is inf where that version gives no probabilities that are allowed.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _SOLVE],
        env={**os.environ, "PYTHONPATH": str(sources)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def other(problem):
        pickle.dump(problem.arguments, process.stdin)
        process.stdin.flush()
        answer = pickle.load(process.stdout)
        if answer is None:
            return inf
        q, omega = map(np.array, answer)
        allowed = np.all((q > 0) & (q >= problem.floor) & (q <= 1) & (omega > 0))
        meets = (
            np.allclose(
                q,
                -np.expm1(problem.draws * np.log1p(-np.minimum(omega, 1 - 1e-16))),
                rtol=1e-9,
                atol=0,
            )
            and abs(omega.sum() - 1) <= 1e-12
        )
        return objective(problem.price, problem.weight, q) if allowed and meets else inf

    try:
        yield other
    finally:
        process.stdin.close()
        process.wait()
