import numpy as np
import pytest
from tests.policies.observing import observed

from fedsched.errors import InputError
from fedsched.policies import Airtime, Auto, AveragePower, Energy, Participation, System, Traffic
from fedsched.policies.designs import Independent
from fedsched.policies.lyapunov import Lyapunov
from fedsched.randomness import stream
from fedsched.solve.uplink import RateLink, Uplink
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


LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=50.0)
RATES = RateLink(bits=1e6, max_power_w=0.2)
MANY = (AveragePower(1.0), Energy(0.3, circuit_w=0.2), Participation(0.1))
CASES = {
    "energy": (LINK, (Energy(0.2, circuit_w=0.1, compute_j=0.05),)),
    "energy a second": (LINK, (Energy(0.05, per="second"),)),
    "airtime": (LINK, (Airtime(0.01),)),
    "duty cycle": (LINK, (Airtime(0.01, per="second"),)),
    "bytes": (LINK, (Traffic(5e3),)),
    "participation": (LINK, (Participation(0.02),)),
    "three": (LINK, MANY),
    "one each": (
        LINK,
        (AveragePower(np.linspace(0.5, 2.0, 20)), Energy(np.linspace(0.1, 1.0, 20))),
    ),
    "rates": (RATES, (Energy(0.02, circuit_w=0.5), Airtime(0.02))),
}


def channel(link, rounds=300, devices=20, seed=1):
    gain = 0.3 * stream(seed, "gains").exponential(1.0, (rounds, devices)) + 0.01
    gain *= np.linspace(0.1, 3.0, devices)
    return 1e6 * np.log2(1.0 + gain) if isinstance(link, RateLink) else gain


def played(policy, table):
    state = policy.init(table.shape[1])
    for t, gain in enumerate(table):
        decision, state = policy.decide(observed(gain, t), state)
        yield decision


@pytest.mark.slow
@pytest.mark.parametrize(("link", "budgets"), CASES.values(), ids=CASES)
@pytest.mark.parametrize(("mode", "credit"), [("average", 10.0), ("strict", 1.0)])
def test_auto_never_spends_more_than_its_credit_and_what_came_in(link, budgets, mode, credit):
    world = System(link=link, budgets=budgets, compute_s=0.5)
    policy = Auto(system=world, budget_mode=mode)
    state, held = policy.init(20), {}
    for t, gain in enumerate(channel(link)):
        decision, state = policy.decide(observed(gain, t), state)
        round_s = world.round_s(decision.plan, decision.cohort) + decision.wait_s
        for each in budgets:
            spent = each.spent(decision.plan, decision.probability)
            if t == 0:  # what it began with: rounds of its budget
                after = state[f"credit.{each.name}"] * each.limit
                held[each.name] = after + spent - each.allowance(round_s)
                if each.per == "round":
                    np.testing.assert_allclose(held[each.name], credit * each.limit)
            came_in = each.allowance(round_s)
            assert np.all(spent <= (held[each.name] + came_in) * (1.0 + 1e-12))
            if decision.wait_s == 0.0:  # what comes in during the round is for the next one
                assert np.all(spent <= held[each.name] * (1.0 + 1e-12))
            held[each.name] += came_in - spent


@pytest.mark.slow
def test_where_time_is_the_limit_the_server_waits_until_all_can_afford_to_take_part():
    world = System(link=RATES, budgets=(Traffic(50.0, per="second"),))
    clock_s, sent, uploads = 0.0, np.zeros(20), 0
    for decision in played(Auto(system=world), channel(RATES, rounds=400)):
        clock_s += world.round_s(decision.plan, decision.cohort) + decision.wait_s
        sent += world.budgets[0].spent(decision.plan, decision.probability)
        uploads += decision.cohort.size
        assert decision.probability.min() >= 0.999 * 0.05 / 2.0  # p / weight_limit
    assert uploads > 100
    assert 0.5 < np.max(sent / clock_s / 50.0) <= 1.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["energy", "bytes", "participation"])
def test_auto_uses_what_it_may(name):
    link, budgets = CASES[name]
    world = System(link=link, budgets=budgets, compute_s=0.5)
    table = channel(link, rounds=600)
    used = sum(budgets[0].spent(d.plan, d.probability) for d in played(Auto(system=world), table))
    assert np.max(used / 600 / budgets[0].limit) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["energy", "airtime", "bytes", "participation", "three"])
def test_the_papers_policy_keeps_every_budget_within_its_queue(name):
    link, budgets = CASES[name]
    policy = Lyapunov(
        system=System(link=link, budgets=budgets), design=Independent(5), v=0.1, lam=10.0
    )
    table = channel(link, rounds=400)
    state, spent = policy.init(20), {each.name: np.zeros(20) for each in budgets}
    for t, gain in enumerate(table):
        decision, state = policy.decide(observed(gain, t), state)
        for each in budgets:
            spent[each.name] += each.spent(decision.plan, decision.probability)
            over = spent[each.name] - (t + 1) * each.limit
            assert np.all(over <= state[f"queue.{each.name}"] + 1e-9)


@pytest.mark.slow
def test_a_joule_that_costs_more_is_saved():
    plans = []
    for joules in (0.02, 0.2, 2.0):
        world = System(link=LINK, budgets=(Energy(joules),), compute_s=0.5)
        *_, last = played(Auto(system=world), channel(LINK))
        plans.append(float(np.mean(last.plan.power_w)))
    assert plans == sorted(plans)
    assert plans[0] < 0.5 * plans[2]


def test_two_budgets_of_one_kind_are_refused():
    with pytest.raises(InputError, match="budgets must be of different kinds, got power, power"):
        System(link=LINK, budgets=(AveragePower(1.0), AveragePower(2.0)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Energy(0.0), "the limit of energy must be a positive finite number, got 0"),
        (lambda: Energy(1.0, circuit_w=-1.0), "circuit_w must be a finite number, zero or more"),
        (lambda: Airtime(np.array([1.0, np.nan])), r"the limit of airtime\[1\] must be finite"),
        (lambda: Traffic(1.0, per="day"), "per"),
    ],
)
def test_a_budget_that_is_none_is_refused(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()
