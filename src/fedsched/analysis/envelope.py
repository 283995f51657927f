"""The best configuration for every computation time: the lower envelope of straight lines."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fedsched.analysis.arrival import Reach

__all__ = ["Segment", "lower_envelope"]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """From ``begin_s`` to ``end_s`` of computation time a round, ``name`` is the fastest."""

    name: str
    begin_s: float
    end_s: float  # infinity for the last


def lower_envelope(lines: Mapping[str, Reach]) -> list[Segment]:
    r"""Who is first at the target, as a function of the computation time c >= 0.

    Configuration i takes :math:`A_i + c R_i` seconds by the clock, with airtime A and rounds R
    until the target. The minimum over i is concave and piecewise linear; neighbours on it meet at
    :math:`c = (A_j - A_i) / (R_i - R_j)`. Ties go to the line with fewer rounds, which wins
    beyond them.

    Example:
        >>> for segment in lower_envelope({"a": Reach(airtime_s=2.0, rounds=9.0),
        ...                          "b": Reach(airtime_s=6.0, rounds=1.0)}):
        ...     print(segment.name, segment.begin_s, segment.end_s)
        a 0.0 0.5
        b 0.5 inf
    """
    if not lines:
        return []
    here_s = 0.0
    name = min(lines, key=lambda each: (lines[each].airtime_s, lines[each].rounds))
    segments: list[Segment] = []
    while True:
        now = lines[name]
        # The next line down is the first to be met among those with fewer rounds.
        meetings = [
            ((line.airtime_s - now.airtime_s) / (now.rounds - line.rounds), line.rounds, other)
            for other, line in lines.items()
            if line.rounds < now.rounds
        ]
        if not meetings:
            return [*segments, Segment(name=name, begin_s=here_s, end_s=math.inf)]
        there_s, _, following = min(meetings)
        if there_s > here_s:
            segments.append(Segment(name=name, begin_s=here_s, end_s=there_s))
            here_s = there_s
        name = following
