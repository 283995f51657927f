"""Sizes of updates: each device in its best one, and every policy in the best for all."""

import dataclasses

import numpy as np
import pytest
from tests.policies.observing import observed, system
from tests.policies.test_contract import made

from fedsched.errors import InputError
from fedsched.policies import POLICIES, Auto, Lyapunov, Uniform
from fedsched.policies.designs import make_design
from fedsched.policies.pricing import Pricing
from fedsched.policies.sizing import cheapest, resized
from fedsched.randomness import stream
from fedsched.solve.power import optimal_power
from fedsched.solve.uplink import Uplink
from fedsched.values import Sizes

LINK = Uplink(bits=8e5, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)
DEVICES = 40
# By the product 4 bits are best, though little; 5 and 8 are where bits are only part of the price.
SIZES = Sizes(bits=np.array([3e5, 4e5, 5e5, 8e5]), omega=np.array([0.7, 0.24, 0.01, 0.0]))
ONE = Sizes(bits=np.array([8e5]), omega=np.array([0.7]))


def links_in(thing):
    if isinstance(thing, Uplink):
        yield thing
    elif dataclasses.is_dataclass(thing):
        for each in dataclasses.fields(thing):
            yield from links_in(getattr(thing, each.name))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("power", ["queue", "constant"])
def test_every_policy_can_be_had_for_another_size(name, power):
    policy = made(name, power=power)
    small = resized(policy, 250.0)
    assert {link.bits for link in links_in(small)} == {250.0}
    assert {link.bits for link in links_in(policy)} == {1e6}
    assert dataclasses.replace(resized(small, 1e6)) == policy


def test_a_policy_without_a_link_cannot():
    with pytest.raises(InputError, match="policy: object has no link whose bits could change"):
        resized(object(), 1.0)


def world():
    rng = stream(4, "test")
    gain = np.geomspace(0.02, 20.0, DEVICES) * rng.exponential(size=DEVICES)
    queue = np.geomspace(0.01, 300.0, DEVICES)[rng.permutation(DEVICES)]
    queue[0] = 0.0
    return gain, queue


def brute_force(gain, queue, v, lam):
    """Each size with the power of Theorem 2 for it; the one of least (1 + omega) x price."""
    price, power = [], []
    for bits in SIZES.bits:
        cost = v * lam * bits / LINK.bandwidth_hz
        power.append(optimal_power(gain, queue, cost=cost, noise=1.0, max_power=40.0))
        price.append(cost / np.log2(1.0 + gain * power[-1]) + queue * power[-1])
    size = np.argmin((1.0 + SIZES.omega)[:, None] * price, axis=0)
    every = np.arange(DEVICES)
    return size, np.array(power)[size, every], np.array(price)[size, every]


def test_each_device_has_the_size_of_least_product():
    gain, queue = world()
    pricing = Pricing(system=system(LINK), v=10.0, lam=2.0)
    offer = cheapest(pricing, gain, {"power": queue}, SIZES)
    size, power_w, price = brute_force(gain, queue, 10.0, 2.0)
    assert len(set(size)) > 1  # or there would be nothing to choose
    assert np.array_equal(offer.plan.size, size)
    assert np.array_equal(offer.plan.bits, SIZES.bits[size])
    np.testing.assert_allclose(offer.plan.power_w, power_w, rtol=1e-12)
    np.testing.assert_allclose(offer.price, price, rtol=1e-12)
    assert np.array_equal(offer.factor, 1.0 + SIZES.omega[size])


def lyapunov(design="independent", **options):
    return Lyapunov(
        system=system(LINK), design=make_design(design, 3), v=10.0, lam=2.0, **options
    )  # fmt: skip


def with_sizes(gain, sizes, t=0):
    return dataclasses.replace(observed(gain, t), sizes=sizes)


def test_lyapunov_counts_what_compression_adds_and_what_is_sent():
    gain, queue = world()
    gain[5] = np.nan
    near = gain == gain
    decision, after = lyapunov().decide(with_sizes(gain, SIZES), {"queue.power": queue})
    size, power_w, price = brute_force(np.where(near, gain, 1.0), queue, 10.0, 2.0)
    weight = 10.0 / DEVICES * (1.0 + SIZES.omega[size])
    q = np.where(near, np.minimum(1.0, np.sqrt(weight / price)), 0.0)
    np.testing.assert_allclose(decision.probability, q, rtol=1e-9)
    assert np.array_equal(decision.plan.size[near], size[near])
    link = LINK.airtime_s(gain, power_w) * SIZES.bits[size] / LINK.bits
    np.testing.assert_allclose(decision.plan.upload_s[near], link[near], rtol=1e-9)
    assert decision.plan.upload_s[5] == np.inf
    spent = np.where(near, power_w, 0.0) * q
    np.testing.assert_allclose(after["queue.power"], np.maximum(queue + spent - 1.0, 0.0))


@pytest.mark.parametrize("design", ["with-replacement", "fixed-size", "independent"])
def test_of_one_size_lambda_takes_the_factor_up(design):
    """So a schedule needs no training, and is that of the same lambda without a factor."""
    gain, queue = world()
    state = {"queue.power": queue}
    one, _ = lyapunov(design).decide(with_sizes(gain, ONE), state)
    none, _ = lyapunov(design).decide(with_sizes(gain, None), state)
    assert np.array_equal(one.probability, none.probability)
    # A common factor of all weights is a division of V lambda and the queues by it.
    twice = Sizes(bits=np.array([8e5, 8e9]), omega=np.array([0.7, 0.7]))
    many, _ = lyapunov(design).decide(with_sizes(gain, twice), state)
    same = dataclasses.replace(lyapunov(design), v=17.0, lam=2.0 / 1.7)
    scaled, _ = same.decide(with_sizes(gain, None), state)
    np.testing.assert_allclose(many.probability, scaled.probability, rtol=1e-6, atol=1e-9)


def auto(lam, compute_s=0.0):
    return Auto(system=system(LINK, compute_s=compute_s), fixed_lam=lam, weight_limit=1e6)


def test_auto_looks_at_the_whole_sum_of_each_device():
    """A device that takes part for sure gains nothing by being cheap: it sends more bits."""
    gain = np.full(DEVICES, 3.0)
    sizes = {}
    for lam in (1e-3, 1.0):
        policy = auto(lam)
        decision, _ = policy.decide(with_sizes(gain, SIZES), policy.init(DEVICES))
        sizes[lam] = decision.plan.size[0]
        if lam == 1e-3:
            assert decision.probability.min() == 1.0
    assert SIZES.bits[sizes[1e-3]] == 8e5
    assert SIZES.bits[sizes[1.0]] < 8e5


def test_auto_counts_one_plus_omega_in_its_law_of_rounds():
    gain = np.geomspace(0.5, 5.0, DEVICES)
    found = {}
    for name, sizes in (("none", None), ("one", ONE)):
        policy = auto(50.0)
        decision, after = policy.decide(with_sizes(gain, sizes), policy.init(DEVICES))
        found[name] = decision.probability, after["inverse"]
    q, inverse = found["one"]
    assert (q > found["none"][0]).all()
    np.testing.assert_allclose(
        np.exp(inverse[0]) * inverse[1], 1.7 * np.mean(1.0 / q), rtol=0.05
    )  # an average of the beginning and of this round


def test_the_common_best_is_that_of_the_product():
    assert SIZES.best == 1
    assert Sizes(bits=np.array([2.0, 1.0, 1.0]), omega=np.array([0.0, 1.0, 1.0])).best == 0


def test_uniform_never_looks_at_sizes():
    uniform = Uniform(system=system(LINK), design=make_design("fixed-size", 3))
    decision, _ = uniform.decide(with_sizes(world()[0], SIZES), uniform.init(DEVICES))
    assert decision.plan.bits == LINK.bits
