import numpy as np

from fedsched.policies import AveragePower
from fedsched.randomness import stream
from fedsched.values import Plan


def advance_queue(queue, *, power_w, probability, budget_w):
    plan = Plan(power_w=power_w, bits=1.0, upload_s=np.ones(len(power_w)))
    return AveragePower(budget_w).advance(queue, plan, probability)


def test_the_queue_grows_by_what_was_spent_and_shrinks_by_the_budget():
    queue = advance_queue(
        np.array([0.0, 2.0, 2.0]),
        power_w=np.array([10.0, 10.0, 10.0]),
        probability=np.array([0.5, 0.5, 0.0]),
        budget_w=1.0,
    )
    assert queue.tolist() == [4.0, 6.0, 1.0]


def test_the_queue_is_never_negative():
    queue = advance_queue(
        np.array([0.0, 0.5]), power_w=np.zeros(2), probability=np.ones(2), budget_w=1.0
    )
    assert queue.tolist() == [0.0, 0.0]


def test_the_queue_given_is_not_changed():
    before = np.array([1.0, 2.0])
    advance_queue(before, power_w=np.full(2, 9.0), probability=np.ones(2), budget_w=1.0)
    assert before.tolist() == [1.0, 2.0]


def test_the_mean_power_exceeds_the_budget_by_at_most_the_queue_over_the_rounds():
    rng = stream(1, "power")
    queue, spent, rounds = np.zeros(5), np.zeros(5), 200
    for _ in range(rounds):
        power, probability = rng.exponential(3.0, 5), rng.random(5)
        queue = advance_queue(queue, power_w=power, probability=probability, budget_w=1.0)
        spent += power * probability
    assert np.all(spent / rounds - 1.0 <= queue / rounds + 1e-12)
    assert np.all(spent / rounds > 1.0)  # so the bound says something
