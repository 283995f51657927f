from itertools import combinations

import numpy as np
import pytest
from tests.policies.observing import observed, system

from fedsched.errors import InputError
from fedsched.policies import make_policy, make_power
from fedsched.policies.wireless_rules import (
    AdaptiveSampling,
    FairnessQueue,
    ProportionalFair,
    adaptive_probabilities,
    deadline_greedy,
)
from fedsched.randomness import stream
from fedsched.solve.uplink import Uplink
from fedsched.values import Experience

LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)
SHARES = np.array([0.2, 0.3, 0.5])


def cohorts(name, gain, draws, **options):
    """The devices chosen in each round of a table of gains."""
    policy = make_policy(name, uplink=LINK, draws=draws, **options)
    state, found = policy.init(gain.shape[1]), []
    for t, row in enumerate(gain):
        decision, state = policy.decide(observed(row, t), state)
        found.append(decision.cohort.device.tolist())
    return found


def flat(lists):
    return [device for each in lists for device in each]


def test_round_robin_wraps_where_m_does_not_divide_n_and_passes_over_who_is_away():
    gain = np.ones((4, 5))
    gain[2, 0] = np.nan
    assert cohorts("round-robin", gain, 2) == [[0, 1], [2, 3], [1, 4], [2, 3]]


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "draws"), [(1, 1), (2, 3), (5, 2), (7, 3), (10, 10), (12, 5)])
@pytest.mark.parametrize("away", [0.0, 0.3, 0.9])
def test_round_robin_goes_round_the_circle_of_devices(devices, draws, away):
    rng = stream(devices, "data")
    gain = np.where(rng.random((300, devices)) < away, np.nan, 1.0)
    wanted, begin = [], 0
    for row in gain:
        circle = (begin + np.arange(devices)) % devices
        taken = circle[~np.isnan(row[circle])][:draws]
        begin = begin if len(taken) == 0 else (taken[-1] + 1) % devices
        wanted.append(sorted(taken.tolist()))
    assert cohorts("round-robin", gain, draws) == wanted


def test_the_best_channels_are_taken():
    assert cohorts("best-channel", np.array([[1.0, 5.0, np.nan, 3.0]]), 2) == [[1, 3]]


def test_proportional_fair_compares_gains_with_their_own_average():
    # Device 0 is always better; in round 1 device 1 is better than usual, then device 2.
    gain = np.array([[100.0, 1.0, 2.0], [100.0, 3.0, 2.0], [90.0, 1.0, 9.0]])
    assert cohorts("proportional-fair", gain, 1)[1:] == [[1], [2]]


def test_proportional_fair_forgets_what_is_older_than_its_window():
    # Both gains are 5 now. Device 0 had 9 long ago and 1 of late, device 1 the other way round:
    # by all it has seen device 0 hears no more than usual, by its last two rounds far more.
    power = make_policy("proportional-fair", uplink=LINK, draws=1).power
    chosen = {}
    for window in (2, 1000):
        policy = ProportionalFair(draws=1, power=power, window=window)
        state = policy.init(2)
        for row in [[9.0, 1.0]] * 10 + [[1.0, 4.0]] * 5 + [[5.0, 5.0]]:
            decision, state = policy.decide(observed(row), state)
        chosen[window] = decision.cohort.device.tolist()
    assert chosen == {2: [0], 1000: [1]}


@pytest.mark.slow
def test_proportional_fair_takes_all_devices_equally_often():
    rng = stream(4, "channel")
    gain = np.geomspace(0.1, 10.0, 10) * rng.exponential(size=(3000, 10))
    counts = np.bincount(flat(cohorts("proportional-fair", gain, 2)), minlength=10)
    assert counts / 3000 == pytest.approx(np.full(10, 0.2), abs=0.04)
    best = np.bincount(flat(cohorts("best-channel", gain, 2)), minlength=10)
    assert best[0] == 0  # so the test above can fail


def test_the_deadline_greedy_takes_as_many_devices_as_any_choice_could():
    rng = stream(2, "data")
    for _ in range(60):
        upload = rng.exponential(size=7)
        deadline = float(rng.uniform(0.2, 1.0) * upload.sum())
        fits = [
            size
            for size in range(8)
            for each in combinations(range(7), size)
            if sum(upload[list(each)]) < deadline
        ]
        taken = deadline_greedy(upload, deadline_s=deadline)
        assert len(taken) == max(fits)
        assert upload[taken].sum() < deadline


def test_fedcs_considers_random_candidates_only_if_told_to():
    gain = np.tile(np.geomspace(0.1, 100.0, 10), (200, 1))
    everyone = cohorts("fedcs", gain, 2, deadline_s=1.0)
    assert 0 not in flat(everyone)  # the weak starve
    some = cohorts("fedcs", gain, 2, deadline_s=1.0, candidates=3)
    assert {len(each) for each in some} <= {0, 1, 2, 3}
    assert len(set(flat(some))) > len(set(flat(everyone)))
    assert cohorts("fedcs", gain[:1], 2, deadline_s=1e-9) == [[]]


def test_the_fairness_queue_serves_who_has_waited():
    gain = np.tile([100.0, 100.0, 0.5, 0.5], (400, 1))
    counts = np.bincount(flat(cohorts("fairness-queue", gain, 2)), minlength=4)
    # beta = m / (2 N) = 1/4 of the rounds for everybody, the slow ones included.
    assert counts.min() >= 0.9 * 0.25 * 400
    assert counts[:2].min() > 2 * counts[2:].max()


def test_the_fairness_queue_by_hand():
    power = make_policy("fairness-queue", uplink=LINK, draws=1).power
    policy = FairnessQueue(draws=1, power=power, tradeoff=0.0, least=0.5)
    state, chosen, waiting = policy.init(3), [], []
    for _ in range(5):
        decision, state = policy.decide(observed(np.ones(3)), state)
        chosen += decision.cohort.device.tolist()
        waiting.append(state["waiting"].tolist())
    assert chosen == [0, 1, 2, 0, 1]  # who has waited longest, and of those the first
    assert waiting[:4] == [[0.0, 0.5, 0.5], [0.5, 0.0, 1.0], [1.0, 0.5, 0.5], [0.5, 1.0, 1.0]]
    # A price on airtime large enough keeps the slow device waiting for ever.
    fast = FairnessQueue(draws=1, power=power, tradeoff=1e6, least=0.5)
    gain, state = np.array([0.1, 9.0, 0.1]), fast.init(3)
    for _ in range(5):
        decision, state = fast.decide(observed(gain), state)
        assert decision.cohort.device.tolist() == [1]


def test_adaptive_probabilities_without_a_constant_are_importance_over_root_time():
    c, t = np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0])
    w = c / np.sqrt(t)
    assert adaptive_probabilities(c, t) == pytest.approx(w / w.sum(), rel=1e-12)


def test_adaptive_sampling_wants_a_bound_for_each_device():
    power = make_power("queue", system=system(LINK), v=10.0, lam=10.0, draws=2)
    policy = AdaptiveSampling(power=power, draws=2, bound=np.ones(3))
    with pytest.raises(InputError, match=r"each of the 4 devices, got shape \(3,\)"):
        policy.init(4)


def test_adaptive_sampling_learns_the_largest_update_of_each_device():
    policy = make_policy("adaptive-sampling", uplink=LINK, draws=1, data_weight=SHARES)
    luck = np.full((3, 3), 0.5)

    def chances(state):
        return policy.decide(observed(np.ones(3), chance=luck), state)[0].probability

    def seen(state, device, norm):
        norm = np.array(norm)
        told = Experience(
            device=np.array(device),
            loss=norm,
            square_loss=norm,
            norm=norm,
            update=None,
            weight=norm,
        )
        return policy.observe(state, told)

    state = policy.init(3)
    assert chances(state) == pytest.approx(SHARES)  # no update has been seen: all alike
    state = seen(seen(state, [0, 1], [1.0, 5.0]), [0, 1], [3.0, 2.0])
    wanted = SHARES * [3.0, 5.0, 4.0]  # the largest, and the mean of those for the third
    assert chances(state) == pytest.approx(wanted / wanted.sum())
    assert chances(seen(state, [2], [0.0])) == pytest.approx(SHARES)  # 0 would never be drawn


@pytest.mark.parametrize("ratio", [0.0, 0.5, 20.0])
def test_adaptive_probabilities_are_better_than_any_on_a_grid(ratio):
    c, t = np.array([1.0, 2.0, 1.5]), np.array([1.0, 4.0, 2.0])

    def objective(w):
        return (w * t).sum() * ((c**2 / w).sum() + ratio)

    best = objective(adaptive_probabilities(c, t, ratio=ratio))
    step = 1 / 150
    grid = [
        np.array([a, b, 1.0 - a - b]) * 1.0
        for a in np.arange(step, 1, step)
        for b in np.arange(step, 1 - a - step / 2, step)
    ]
    lowest = min(objective(w) for w in grid)
    assert best <= lowest * (1.0 + 1e-9)
    assert best >= lowest * (1.0 - 1e-2)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("fedcs", {"deadline_s": -1.0}, "deadline_s must be a positive finite number"),
        ("fedcs", {"candidates": 0}, "candidates must be a whole number"),
        ("best-channel", {"power": "loud"}, "power: 'loud' is not known"),
        ("best-channel", {"colour": 1}, "option: 'colour' is not known"),
    ],
)
def test_bad_options_are_refused(name, options, sentence):
    with pytest.raises(InputError, match=sentence):
        make_policy(name, uplink=LINK, draws=2, **options)
