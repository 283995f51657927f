"""Access against a simulation that goes from event to event, and against all splits and orders."""

import heapq
import itertools

import numpy as np
import pytest

from fedsched.errors import InputError, UnknownNameError
from fedsched.radio.access import ACCESSES, OFDMA, TDMA, EqualOFDMA, Parallel, make_access

UPLOADS = np.array([0.5, 2.0, 0.25])


def simulated_turns_s(upload_s, ready_s):
    """One server, event by event: who is ready waits in line, whoever is first in it uploads."""
    events = [(ready, 1, k) for k, ready in enumerate(ready_s)]  # ends (0) come before arrivals (1)
    heapq.heapify(events)
    line, busy, now = [], False, 0.0
    while events:
        now, kind, device = heapq.heappop(events)
        if kind == 1:
            line.append(device)
        else:
            busy = False
        if line and not busy:
            heapq.heappush(events, (now + upload_s[line[0]], 0, line.pop(0)))
            busy = True
    return now


def in_order_s(upload_s, ready_s, order):
    end = 0.0
    for k in order:
        end = max(end, ready_s[k]) + upload_s[k]
    return end


def test_devices_that_take_turns_add_up():
    assert make_access("tdma").uploads_s(UPLOADS) == 2.75


def test_of_devices_that_send_at_once_the_slowest_decides():
    assert make_access("parallel").uploads_s(UPLOADS) == 2.0


@pytest.mark.parametrize("access", ACCESSES)
def test_a_round_without_devices_takes_no_time(access):
    assert make_access(access).uploads_s(np.empty(0)) == 0.0
    assert make_access(access).uploads_s(np.empty(0), np.empty(0)) == 0.0


def test_another_access_is_refused_and_the_nearest_named():
    with pytest.raises(UnknownNameError, match=r"access: 'paralel' .* 'parallel'"):
        make_access("paralel").uploads_s(UPLOADS)


def test_turns_by_readiness_are_those_of_a_simulation_from_event_to_event():
    rng = np.random.default_rng(1)
    for _ in range(500):
        n = int(rng.integers(1, 12))
        upload_s, ready_s = rng.exponential(size=n), rng.exponential(3.0, size=n).round(1)
        expected = simulated_turns_s(upload_s, ready_s)
        assert TDMA().uploads_s(upload_s, ready_s) == pytest.approx(expected, rel=1e-14)


def test_no_order_of_turns_ends_sooner_than_that_by_readiness():
    rng = np.random.default_rng(2)
    for _ in range(60):
        upload_s, ready_s = rng.exponential(size=5), rng.exponential(2.0, size=5)
        orders = itertools.permutations(range(5))
        best = min(in_order_s(upload_s, ready_s, order) for order in orders)
        assert TDMA().uploads_s(upload_s, ready_s) == pytest.approx(best, rel=1e-14)


def test_links_of_their_own_end_with_the_last_of_them():
    ready_s = np.array([4.0, 1.0, 0.0])
    assert Parallel().uploads_s(UPLOADS, ready_s) == 4.5


@pytest.mark.parametrize("unit_s", [None, 3.0])
def test_no_split_of_the_blocks_ends_sooner(unit_s):
    rng = np.random.default_rng(3)
    for _ in range(60):
        n, blocks = int(rng.integers(1, 4)), int(rng.integers(3, 8))
        upload_s, ready_s = rng.exponential(size=n), rng.exponential(size=n)
        access = OFDMA(blocks=blocks, unit_s=unit_s)
        splits = itertools.product(range(1, blocks + 1), repeat=n)
        ends = [
            (ready_s + access.on_share_s(upload_s, np.array(split) / blocks)).max()
            for split in splits
            if sum(split) <= blocks
        ]
        assert access.uploads_s(upload_s, ready_s) == pytest.approx(min(ends), rel=1e-14)


def test_many_blocks_without_more_power_on_each_are_turns():
    split = OFDMA(blocks=100_000).uploads_s(UPLOADS)
    assert split == pytest.approx(TDMA().uploads_s(UPLOADS), rel=1e-4)
    assert split >= TDMA().uploads_s(UPLOADS)


def test_the_whole_power_on_a_share_has_the_rate_of_the_formula():
    snr, unit_s, share = 7.0, 2.0, 0.25
    whole = unit_s / np.log2(1.0 + snr)
    expected = unit_s / (share * np.log2(1.0 + snr / share))
    found = OFDMA(unit_s=unit_s).on_share_s(np.array([whole]), share)
    assert found == pytest.approx([expected], rel=1e-14)
    assert OFDMA(unit_s=unit_s).on_share_s(np.array([whole]), 1.0) == pytest.approx([whole])


def test_the_whole_power_on_a_share_neither_overflows_nor_cancels():
    times = np.array([1e-6, 1e-3, 1.0, 1e6, 1e12])  # a thousand bits a symbol, and next to none
    on_half = OFDMA(unit_s=1.0).on_share_s(times, 0.5)
    assert np.all((on_half >= times * (1.0 - 1e-12)) & (on_half <= 2.0 * times))
    # Where power is all that lacks, the band does not matter.
    assert on_half[-1] == pytest.approx(times[-1], rel=1e-9)


def test_equal_blocks_are_equal_and_the_rest_goes_to_the_longest():
    assert EqualOFDMA(blocks=8).split(UPLOADS, np.zeros(3)).tolist() == [3, 3, 2]
    assert EqualOFDMA(blocks=3).uploads_s(UPLOADS) == pytest.approx(6.0)


@pytest.mark.parametrize("access", [OFDMA(blocks=2), EqualOFDMA(blocks=2)])
def test_more_members_than_blocks_follow_in_the_order_of_readiness(access):
    # The first two have a block each and end at 2 and 5; the last begins then, on both.
    end = access.uploads_s(np.array([1.0, 1.0, 2.0]), np.array([0.0, 9.0, 1.0]))
    assert end == pytest.approx(max(5.0, 9.0) + 1.0)


def test_blocks_are_counted_from_one():
    with pytest.raises(InputError, match="blocks must be a whole number of at least 1, got 0"):
        OFDMA(blocks=0)
