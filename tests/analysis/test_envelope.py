import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsched.analysis.arrival import Reach
from fedsched.analysis.envelope import lower_envelope

lines = st.lists(
    st.tuples(st.floats(0.01, 1e5), st.floats(1.0, 1e5)), min_size=1, max_size=12, unique=True
).map(lambda pairs: {f"{i}": Reach(airtime_s=a, rounds=r) for i, (a, r) in enumerate(pairs)})


@given(lines)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_at_any_computation_time_the_named_line_is_the_fastest(found):
    pieces = lower_envelope(found)
    ends = [piece.end_s for piece in pieces[:-1]]
    scan = np.concatenate([np.geomspace(1e-9, 1e9, 200), [0.0], ends])
    for c in scan.tolist():
        piece = next(p for p in pieces if p.begin_s <= c <= p.end_s)
        best = min(line.time_s(c) for line in found.values())
        assert math.isclose(found[piece.name].time_s(c), best, rel_tol=1e-9)


@given(lines)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_breakpoints_are_where_a_brute_force_scan_finds_them(found):
    pieces = lower_envelope(found)
    assert pieces[0].begin_s == 0.0
    assert pieces[-1].end_s == math.inf
    for left, right in itertools.pairwise(pieces):
        assert left.end_s == right.begin_s
        # Bisection on who is first, which knows nothing of the formula.
        a, b = found[left.name], found[right.name]
        low, high = 0.0, 1e12
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if a.time_s(middle) < b.time_s(middle) else (low, middle)
        assert math.isclose(left.end_s, high, rel_tol=1e-9, abs_tol=1e-9)


def test_no_lines_have_no_envelope():
    assert lower_envelope({}) == []
