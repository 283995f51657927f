"""Nested cohorts with weights that add up to one: certified, and against a generic solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedsched.solve.nested import Nested, Tiers, _law, least_time

TIMES = {
    "like": lambda rng, n: rng.uniform(1.0, 2.0, n),
    "of any size": lambda rng, n: np.exp(rng.normal(0.0, 3.0, n)),
    "two kinds": lambda rng, n: rng.choice([1.0, 20.0], n),
    "nearly equal": lambda rng, n: 3.0 * (1.0 + 1e-12 * rng.random(n)),
    "one straggler": lambda rng, n: np.r_[rng.uniform(1.0, 2.0, n - 1), 1e6],
}


def sizes(law):
    return np.diff(law.ends, prepend=0)


def assert_sound(law):
    """Weights of every kind of round, and what they are on average."""
    devices = law.ends[-1]
    assert (law.weight >= 0.0).all()
    assert (law.chance >= 0.0).all()
    assert law.chance.sum() == pytest.approx(1.0, abs=1e-12)
    assert law.weight @ sizes(law) == pytest.approx(np.ones(len(law.chance)), abs=1e-12)
    assert devices * (law.chance @ law.weight) == pytest.approx(np.ones(len(law.ends)), abs=1e-9)
    assert np.triu(law.weight, 1).max(initial=0.0) == 0.0  # nobody comes who is not waited for
    assert ((law.probability > 0.0) & (law.probability <= 1.0)).all()
    assert 1.0 - 1e-12 <= law.inverse <= devices + 1e-9


def worth(reward, devices):
    """The largest of reward . v - N |v|^2 over weights that add up to one: by the threshold."""
    rising = np.sort(reward / (2.0 * devices))[::-1]
    over = (rising.cumsum() - 1.0) / np.arange(1, len(rising) + 1)
    level = over[np.flatnonzero(rising > over)[-1]]
    v = np.maximum(reward / (2.0 * devices) - level, 0.0)
    return float(reward @ v - devices * (v @ v))


def assert_certified(time_s, price, law):
    """The multipliers are allowed for every device that a round could wait for, not only tiers."""
    devices, rising = len(time_s), np.sort(time_s)
    assert law.inverse + price * law.mean_s == pytest.approx(law.bound, rel=1e-9)
    rewards = np.repeat(reward_of(time_s, price, law), sizes(law))
    assert rewards.mean() == pytest.approx(law.bound, rel=1e-9)
    for k in range(1, devices + 1):
        assert worth(rewards[:k], devices) <= price * rising[k - 1] + 1e-9 * law.bound


def reward_of(time_s, price, law):
    """What the multipliers of the devices are: each tier's, from its own kind of round."""
    devices, size = len(time_s), sizes(law)
    b = 0.5 * ((law.weight**2) @ size - price * law.time_s / devices)
    return 2.0 * devices * (np.diag(law.weight) - b)


@pytest.mark.parametrize("kind", TIMES)
def test_the_law_is_sound_and_certifies_itself(kind):
    rng = np.random.default_rng(3)
    for _ in range(100):
        time_s = TIMES[kind](rng, int(rng.integers(1, 20)))
        price = float(np.exp(rng.uniform(-6.0, 8.0)) / time_s.mean())
        law = _law(Tiers.of(time_s), price)
        assert_sound(law)
        assert_certified(time_s, price, law)


def by_a_generic_solver(time_s, price):
    """The least Q + price * wait over all laws: SLSQP over p v of every rank."""
    n = len(time_s)
    kind, device = np.tril_indices(n)
    rising = np.sort(time_s)

    def cost(y):
        y = np.maximum(y, 0.0) + 1e-13
        p, s = np.bincount(kind, y, n), np.bincount(kind, y * y, n)
        slope = n * (2.0 * y / p[kind] - (s / p**2)[kind]) + price * rising[kind]
        return n * (s / p).sum() + price * (p * rising).sum(), slope

    each = (device == np.arange(n)[:, None]).astype(float)
    begin = each.T @ (1.0 / n / each.sum(axis=1))
    balance = {"type": "eq", "fun": lambda y: each @ y - 1.0 / n, "jac": lambda _: each}
    found = minimize(
        cost, begin, jac=True, bounds=[(0.0, None)] * len(kind), constraints=[balance],
        method="SLSQP", options={"maxiter": 3000, "ftol": 1e-12},
    )  # fmt: skip
    return found.fun


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["like", "of any size", "two kinds"])
def test_a_generic_solver_finds_nothing_better(kind):
    rng = np.random.default_rng(4)
    for _ in range(4):
        time_s = TIMES[kind](rng, 7)
        price = float(np.exp(rng.uniform(-3.0, 3.0)) / time_s.mean())
        law = _law(Tiers.of(time_s), price)
        assert law.inverse + price * law.mean_s == pytest.approx(
            by_a_generic_solver(time_s, price), rel=1e-5
        )


def test_without_a_price_all_take_part_always_and_with_a_large_one_the_wait_is_the_mean():
    time_s = np.geomspace(1.0, 50.0, 10)
    everybody, fewest = (_law(Tiers.of(time_s), price) for price in (0.0, 1e9))
    assert everybody.inverse == pytest.approx(1.0)
    assert everybody.mean_s == 50.0
    assert fewest.mean_s == pytest.approx(time_s.mean())  # no unbiased law waits less
    assert fewest.inverse == pytest.approx(10.0)


@pytest.mark.slow
def test_the_rounds_that_are_drawn_are_those_of_the_law():
    time_s = np.geomspace(1.0, 50.0, 10)
    law, _ = least_time(Tiers.of(time_s), kappa=10.0, overhead_s=2.0, most=4.0, least=1)
    mean, wait_s, part = np.zeros(10), 0.0, np.zeros(10)
    draws = 20_000
    for u in (np.arange(draws) + 0.5) / draws:
        device, weight = law.cohort(float(u))
        assert weight.sum() == pytest.approx(1.0)
        assert (np.diff(device) > 0).all()
        mean[device] += weight / draws
        part[device] += 1.0 / draws
        wait_s += time_s[device].max() / draws
    assert mean == pytest.approx(np.full(10, 0.1), rel=1e-3)
    assert part == pytest.approx(law.probability, abs=1e-3)
    assert wait_s == pytest.approx(law.mean_s, rel=1e-3)
    assert wait_s < 0.5 * time_s.max()


@pytest.mark.parametrize("u", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_draw_are_rounds_that_happen(u):
    time_s = np.geomspace(1.0, 50.0, 10)
    law, _ = least_time(Tiers.of(time_s), kappa=1e-3, overhead_s=0.0, most=10.0, least=1)
    device, weight = law.cohort(u)
    assert len(device)
    assert weight.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("kappa", [1e9, 1e18, 1e300])
def test_a_kappa_beyond_all_reason_leaves_a_sound_law(kind, kappa):
    rng = np.random.default_rng(8)
    for devices in (1, 2, 12, 1000):
        time_s = 1e-3 * TIMES[kind](rng, devices)
        for most in (4.0, 1e9):
            law, _ = least_time(Tiers.of(time_s), kappa=kappa, overhead_s=0.0, most=most, least=1)
            assert_sound(law)
            assert law.inverse <= most + 1e-9


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(0.0, 1e300), min_size=1, max_size=50),
    st.floats(0.0, 1e300),
    st.floats(0.0, 1e3),
    st.floats(1.0, 10.0),
    st.integers(0, 60),
)
def test_whatever_the_times_a_law_keeps_its_bounds(times, kappa, overhead_s, most, least):
    tiers = Tiers.of(np.array(times), max(least, 1))
    law, price = least_time(tiers, kappa=kappa, overhead_s=overhead_s, most=most, least=least)
    assert_sound(law)
    assert law.inverse <= most + 1e-9
    assert law.smallest >= min(least, len(times))
    assert price >= 0.0


@pytest.mark.slow
def test_no_price_of_a_grid_is_better_than_the_one_that_is_found():
    rng = np.random.default_rng(5)
    for _ in range(10):
        tiers = Tiers.of(np.exp(rng.normal(0.0, 1.5, 12)))
        kappa, overhead_s = float(rng.uniform(0.0, 30.0)), float(rng.uniform(0.0, 3.0))

        def cost(law: Nested, kappa=kappa, overhead_s=overhead_s) -> float:
            return (kappa + law.inverse) * (overhead_s + law.mean_s)

        ours, _ = least_time(tiers, kappa=kappa, overhead_s=overhead_s, most=12.0, least=1)
        assert cost(ours) <= min(cost(_law(tiers, x)) for x in np.geomspace(1e-4, 1e4, 400)) * 1.002


@pytest.mark.parametrize("devices", [33, 1000])
def test_many_times_are_put_together_and_little_is_lost(devices):
    time_s = np.random.default_rng(6).uniform(1.0, 100.0, devices)
    tiers = Tiers.of(time_s)
    assert len(tiers.size) <= 32
    assert sum(tiers.size) == devices
    law = _law(tiers, 0.05)
    assert_sound(law)
    one_each = Tiers(order=np.argsort(time_s), size=[1] * devices, time_s=np.sort(time_s).tolist())
    best = _law(one_each, 0.05)
    assert best.bound == pytest.approx(best.inverse + 0.05 * best.mean_s, rel=1e-9)
    assert law.inverse + 0.05 * law.mean_s <= 1.05 * best.bound
