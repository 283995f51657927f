"""What a policy is told in a test: gains, and luck by round or as given."""

from dataclasses import dataclass

import numpy as np

from fedsched.policies import AveragePower, System
from fedsched.randomness import Luck, stream
from fedsched.values import NO_ANSWERS, Answers, Observation


class _Rows:
    """Stands for a generator and gives rows that were made before."""

    def __init__(self, rows):
        self.rows = rows

    def random(self, shape):
        assert self.rows.shape == shape
        return self.rows


@dataclass(frozen=True)
class GivenLuck:
    """The chance of a rule as given; cohorts of a design as in round 0 of seed 1."""

    chance: np.ndarray

    def stream(self, source):
        return _Rows(self.chance) if source == "policy" else stream(1, source, 0)


def observed(gain, t=0, *, seed=1, chance=None, answers=NO_ANSWERS):
    """One round's observation; ``chance`` in place of what seed and round would give."""
    luck = Luck(seed, t) if chance is None else GivenLuck(np.asarray(chance))
    return Observation(gain=np.asarray(gain, dtype=np.float64), luck=luck, answers=answers)


def answered(device, value):
    return Answers(device=np.asarray(device, dtype=np.int64), value=np.asarray(value, dtype=float))


def system(link, budget_w=1.0, **options):
    return System(link=link, budgets=(AveragePower(budget_w),), **options)
