"""Another version of the solver, in a process of its own, on the same problems."""

import os
import pickle
import subprocess
import sys
from contextlib import contextmanager
from math import inf
from pathlib import Path

import numpy as np
from tests.solve.problems import objective

__all__ = ["answers_of", "objective_reached"]

# It has only the public name of the solver, so that any commit can be asked.
_SOLVE = """
import pickle, sys
import fedsched
asked, answered = sys.stdin.buffer, sys.stdout.buffer
while True:
    try:
        problem = pickle.load(asked)
    except EOFError:
        break
    try:
        found = fedsched.optimal_probabilities(**problem)
        answer = found.probability, found.draw_probability
    except ArithmeticError:
        answer = None
    pickle.dump(answer, answered)
    answered.flush()
"""


@contextmanager
def answers_of(sources: Path):
    """A function from a problem to what the version in this folder says: q and omega, or None."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SOLVE],
        env={**os.environ, "PYTHONPATH": str(sources)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def ask(problem):
        pickle.dump(problem.arguments, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait()


def objective_reached(problem, answer):
    """What an answer costs; inf where there is none, or one that is not allowed."""
    if answer is None:
        return inf
    q, omega = answer
    drawn = -np.expm1(problem.draws * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
    allowed = np.all((q > 0.0) & (q >= problem.floor) & (q <= 1.0) & (omega > 0.0))
    meets = np.allclose(q, drawn, rtol=1e-9, atol=0.0) and abs(omega.sum() - 1.0) <= 1e-12
    return objective(problem.price, problem.weight, q) if allowed and meets else inf
