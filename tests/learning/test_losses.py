"""Lost updates: the correction against the chance that nobody told it."""

import numpy as np

from fedsched.learning.losses import MOST_ATTEMPTS, attempts, correction, first_attempts
from fedsched.randomness import stream


def test_weights_are_right_on_average_whatever_is_lost():
    rng, arrives = stream(1, "losses"), np.array([1.0, 0.7, 0.4, 0.1])
    memory, device, total, rounds = first_attempts(4), np.arange(4), np.zeros(4), 20_000
    for _ in range(rounds):
        arrived = rng.random(4) < arrives
        total[arrived] += correction(memory, device[arrived])
        memory = attempts(memory, device, arrived)
    # A weight of 1 in every attempt, in the mean. Its deviation is that of geometric waits.
    deviation = np.sqrt((1 - arrives) / arrives / rounds) + (1 - arrives) / arrives * 50 / rounds
    assert np.all(np.abs(total / rounds - 1.0) <= 5 * deviation)
    assert total[0] == rounds


def test_a_device_that_never_arrives_is_not_waited_for_without_end():
    memory = first_attempts(1)
    for _ in range(3 * MOST_ATTEMPTS):
        memory = attempts(memory, np.array([0]), np.array([False]))
    assert correction(memory, np.array([0])) == MOST_ATTEMPTS


def test_whoever_did_not_try_is_as_before():
    memory = attempts(first_attempts(3), np.array([1]), np.array([False]))
    memory = attempts(memory, np.array([1]), np.array([True]))
    assert correction(memory, np.arange(3)).tolist() == [1.0, 2.0, 1.0]
