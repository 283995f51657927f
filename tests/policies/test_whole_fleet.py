"""Systems in which every device takes part: shares of the band of least energy, incomplete work."""

import math

import numpy as np
import pytest
from tests.policies.observing import observed

import fedsched
from fedsched.errors import InputError
from fedsched.learning.pool import InProcessPool, ProcessPool
from fedsched.learning.spec import TrainerSpec
from fedsched.policies import AveragePower, Energy, System, TrackedPower
from fedsched.policies.fdma import Shared, least_energy, least_time_s
from fedsched.policies.whole_fleet import FdmaEnergy, IncompleteWork
from fedsched.radio.access import OFDMA, EqualOFDMA
from fedsched.solve.uplink import RateLink, Uplink

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=100.0)


def fleet(seed, computing=True):
    """Two devices, gains over two decades."""
    rng = np.random.default_rng(seed)
    return Shared(
        gain=10.0 ** rng.uniform(-1.0, 1.0, 2), peak_w=np.full(2, 10.0),
        compute_s=rng.uniform(0.0, 1.0, 2), compute_j=rng.uniform(0.0, 2.0, 2) * computing,
        unit_s=rng.uniform(0.2, 2.0), noise_w=0.5,
    )  # fmt: skip


def energies_j(two, device, share, upload_s, deadline_s):
    """Of one device, by Shannon and the square of the clock; infinite above the peak."""
    snr = 2.0 ** np.minimum(two.unit_s / (share * upload_s), 900.0) - 1.0
    power_w = snr * two.noise_w * share / two.gain[device]
    speed = two.compute_s[device] / (deadline_s - upload_s)
    joules = power_w * upload_s + two.compute_j[device] * speed**2
    return np.where(power_w <= two.peak_w[device] * (1.0 + 1e-9), joules, np.inf)


def on_a_grid_j(two, deadline_s):
    """The least energy of all splits of the band and all times, tried one by one."""
    least = math.inf
    for share in np.linspace(0.002, 0.998, 499):
        total = 0.0
        for device, own in ((0, share), (1, 1.0 - share)):
            times = np.linspace(0.0, deadline_s - two.compute_s[device], 2001)[1:]
            total += energies_j(two, device, own, times, deadline_s).min()
        least = min(least, total)
    return least


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_split_of_a_grid_takes_less_energy(seed):
    two = fleet(seed, computing=seed % 3 > 0)
    deadline_s = least_time_s(two) * (1.1 + 0.4 * seed)
    split = least_energy(two, deadline_s)
    found = sum(
        float(energies_j(two, k, split.share[k], split.upload_s[k], deadline_s)) for k in (0, 1)
    )
    assert found == pytest.approx(two.energy_j(split.share, split.upload_s, deadline_s), rel=1e-9)
    assert split.share.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(split.power_w <= 10.0)
    # At most that of the grid, and not far below it: the grid is fine.
    grid = on_a_grid_j(two, deadline_s)
    assert grid * (1.0 - 1e-3) < found <= grid * (1.0 + 1e-9)


def test_two_devices_alike_halve_the_band_by_hand():
    # Two bits in 2 s on half of 1 Hz: two bits a symbol, so P = (N0 / 2) (2^2 - 1) / g = 3 W.
    two = Shared(
        gain=np.full(2, 0.5), peak_w=np.full(2, 9.0), compute_s=np.zeros(2), compute_j=np.zeros(2),
        unit_s=2.0, noise_w=1.0,
    )  # fmt: skip
    split = least_energy(two, 2.0)
    assert split.power_w == pytest.approx([3.0, 3.0], rel=1e-9)
    # At 7.5 W on half of the band the ratio is 7.5, log2(8.5) bits a symbol: 4 / log2(8.5) seconds.
    soon = Shared(
        gain=np.full(2, 0.5), peak_w=np.full(2, 7.5), compute_s=np.zeros(2), compute_j=np.zeros(2),
        unit_s=2.0, noise_w=1.0,
    )  # fmt: skip
    assert least_time_s(soon) == pytest.approx(4.0 / math.log2(8.5), rel=1e-9)
    at_once = least_energy(soon, least_time_s(soon))
    assert at_once.power_w == pytest.approx([7.5, 7.5], rel=1e-6)


def test_a_slow_clock_saves_the_square_where_time_is_left():
    two = fleet(1)
    split = least_energy(two, 5.0 * least_time_s(two))
    assert np.all(split.cpu < 1.0)
    assert split.cpu == pytest.approx(two.compute_s / (split.deadline_s - split.upload_s))


WATTS = (AveragePower(50.0),)


def made(kind, compute_s, budgets=WATTS, **options):
    system = System(
        link=LINK, budgets=budgets, compute_s=compute_s, access=OFDMA(unit_s=1.0, blocks=2000)
    )
    power = TrackedPower(system=system, draws=None)
    return kind(system=system, power=power, **options)


def test_rounds_of_least_energy_end_at_the_deadline_and_take_less_than_at_the_peak():
    compute_s, energy = np.array([0.1, 0.5, 1.0]), Energy(1e9, compute_j=3.0)
    policy = made(FdmaEnergy, compute_s, (AveragePower(50.0), energy), deadline_s=9.0)
    gain = np.array([0.2, 1.0, 5.0])
    decision, _ = policy.decide(observed(gain), policy.init(3))
    plan = decision.plan
    assert decision.cohort.device.tolist() == [0, 1, 2]
    assert decision.cohort.weight == pytest.approx(np.full(3, 1.0 / 3.0))
    # The clock, which knows powers and readiness alone, ends the round by the deadline.
    assert policy.system.round_s(plan, decision.cohort) == pytest.approx(9.0, rel=0.01)
    assert np.all(plan.power_w <= 50.0) and np.all(plan.cpu < 1.0)
    hasty = made(FdmaEnergy, compute_s, (AveragePower(50.0), energy), deadline_s=1e-6)
    soon = hasty.decide(observed(gain), hasty.init(3))[0].plan
    assert soon.power_w == pytest.approx(np.full(3, 50.0), rel=1e-6)
    assert soon.cpu == pytest.approx(np.ones(3), rel=1e-6)


def test_without_signals_there_is_no_energy_to_save():
    system = System(link=RateLink(bits=1e6), budgets=())
    policy = FdmaEnergy(system=system)
    with pytest.raises(
        InputError, match=r"'fdma-energy' asks how strong .* a RateLink has rates alone"
    ):
        policy.decide(observed(np.ones(2)), policy.init(2))


def test_steps_that_fit_into_the_deadline_are_done_and_weigh_more_by_hand():
    # K = 10 steps and 2 s: of 1 s all fit, of 4 s five, of 6 s three, of 50 s none, so one is done.
    policy = made(IncompleteWork, np.array([1.0, 4.0, 6.0, 50.0]), deadline_s=2.0)
    decision, _ = policy.decide(observed(np.ones(4)), policy.init(4))
    assert decision.plan.work.tolist() == [1.0, 0.5, 0.3, 0.1]
    assert decision.cohort.weight == pytest.approx(0.25 / np.array([1.0, 0.5, 0.3, 0.1]))
    assert decision.plan.pace.tolist() == [1.0, 0.5, 0.3, 0.1]
    # Without a deadline half of the devices finish: 5 s is the median.
    usual = made(IncompleteWork, np.array([1.0, 4.0, 6.0, 50.0]))
    assert usual.decide(observed(np.ones(4)), usual.init(4))[0].plan.work.tolist() == [
        1.0, 1.0, 0.8, 0.1,
    ]  # fmt: skip


def test_who_is_away_counts_for_nothing_and_alike_devices_do_it_all():
    policy = made(IncompleteWork, np.array([1.0, 4.0, 6.0]), deadline_s=2.0)
    decision, _ = policy.decide(observed(np.array([1.0, np.nan, 1.0])), policy.init(3))
    assert decision.cohort.device.tolist() == [0, 2]
    assert decision.cohort.weight == pytest.approx([1.0 / 3.0, 1.0 / 0.9])
    alike = made(IncompleteWork, 2.0)
    assert alike.decide(observed(np.ones(3)), alike.init(3))[0].plan.work == 1.0
    with pytest.raises(InputError, match=r"shorter than the 2.0 s that all devices compute alike"):
        made(IncompleteWork, 2.0, deadline_s=1.0)


def test_energy_goes_with_the_work_and_the_square_of_the_clock():
    plan = System(link=LINK).plan(np.ones(2), np.zeros(2))
    half = {"work": np.array([0.5, 1.0]), "cpu": np.array([1.0, 0.5])}
    changed = type(plan)(**{**vars(plan), **half})
    assert Energy(1.0, compute_j=8.0).use(changed).tolist() == [4.0, 2.0]


SPEC = TrainerSpec(
    dataset="digits", model="softmax", alpha=1.0, devices=4, steps=6, batch_size=8,
    learning_rate=0.1, seed=1,
)  # fmt: skip


def test_incomplete_work_is_the_beginning_of_the_whole():
    import dataclasses

    whole, half = InProcessPool(SPEC), InProcessPool(dataclasses.replace(SPEC, steps=3))
    x = whole.initial_parameters
    (some, every) = whole.train_cohort(x, [1, 1], 0, np.array([0.5, 1.0]))
    assert (some.steps, every.steps) == (3, 6)
    assert not np.array_equal(some.delta, every.delta)
    # Three steps of six see the batches that three steps alone see where one pass is enough.
    (three,) = half.train_cohort(x, [1], 0)
    assert np.array_equal(some.delta, three.delta)


@pytest.mark.slow
def test_incomplete_work_is_the_same_in_processes():
    one, parts = InProcessPool(SPEC), np.array([0.5, 1.0])
    x = one.initial_parameters
    (some, _) = one.train_cohort(x, [1, 2], 0, parts)
    with ProcessPool(SPEC, 2) as two:
        (again, _) = two.train_cohort(x, [1, 2], 0, parts)
    assert np.array_equal(again.delta, some.delta)


def test_a_run_counts_the_steps_that_were_done(tmp_path):
    own = [0.1, 0.4, 0.8, 1.6]
    table = {
        "run": {"rounds": 4, "seed": 1, "eval_every": 1},
        "policy": {"kind": "incomplete-work", "deadline_s": 0.4},
        "channel": {"devices": 4},
        "uplink": {"computation_s": own, "access": "parallel"},
        "training": {"model": "softmax", "steps": 4, "batch_size": 8},
        "data": {"samples": 40},
    }
    log = fedsched.run(table, tmp_path)
    assert log.lists("weight")[0] == pytest.approx([0.25, 0.25, 0.5, 1.0])
    assert log.lists("ready_s")[0] == pytest.approx([0.1, 0.4, 0.4, 0.4])
    assert log.manifest["biased"]
    ends = [max(map(sum, zip(r, u, strict=True)))
            for r, u in zip(log.lists("ready_s"), log.lists("upload_s"), strict=True)]  # fmt: skip
    assert log.column("airtime_s") == pytest.approx(ends)


@pytest.mark.parametrize("access", [OFDMA, EqualOFDMA])
def test_every_access_times_a_slow_clock(access):
    from fedsched.clock import Computation

    pace = np.array([1.0, 2.0])
    ready_s = Computation(3.0).ready_s(np.array([0, 1]), 2, np.random.default_rng(0), pace)
    assert ready_s.tolist() == [0.0, 3.0]
    assert access(blocks=4).uploads_s(np.array([1.0, 1.0]), ready_s) >= 4.0
