r"""The mean length of a round over all the cohorts that its probabilities may draw.

The cohorts that a short schedule happens to draw say little of it: with one device a round the mean
is made by slow devices that are met once in hundreds of rounds. Three kinds of rounds are exact:
devices that take turns and are ready at once, :math:`\sum_n q_n \tau_n`; one device a round, which
has the link to itself; and parallel uploads where the chance :math:`A_k` that none of the k latest
takes part is known, :math:`\sum_k f_k (A_{k-1} - A_k)` for ends :math:`f_1 \ge f_2 \ge \dots`.

Elsewhere many cohorts are drawn as the policy draws them, and timed by the clock. The sum of their
uploads X has a known mean, :math:`\sum_n q_n \tau_n`, so :math:`T - \beta (X - E X)` has the mean
of T and varies less; the best :math:`\beta = \mathrm{cov}(T, X) / \mathrm{var}(X)` is that of all
rounds of a schedule.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsched.policies.designs import AbstractDesign, FixedSize, Pivotal, WithReplacement
from fedsched.radio.access import TDMA, Parallel
from fedsched.randomness import stream
from fedsched.rounds import Air, ScheduleState, schedule_round
from fedsched.values import PerDevice, ScheduledRound

__all__ = ["Likely", "lengths_s", "likely_round"]

# Cohorts that are drawn: so many, fewer where they have many members or the fleet is large.
_MOST, _LEAST, _MEMBERS, _NUMBERS = 64, 8, 640, 1 << 18
_DRAWS = 16  # of computation times, where the mean over cohorts is exact
_DECISIONS = 16  # of a policy that has no design
_SURE = 1e-9


class Likely(NamedTuple):
    """The mean length of a round, over cohorts that were drawn, or exact where the rest is 0."""

    mean_s: float
    excess_s: float = 0.0  # of the mean sum of uploads over what it is known to be
    covariance: float = 0.0  # of length and sum
    variance: float = 0.0  # of the sum


def lengths_s(rounds: Sequence[Likely]) -> NDArray[np.float64]:
    """The mean lengths of rounds, each without the luck of its cohorts that their uploads show.

    Example:
        >>> lengths_s([Likely(3.0, excess_s=1.0, covariance=2.0, variance=4.0), Likely(2.0)])
        array([2.5, 2. ])
    """
    every = np.array(rounds).reshape(-1, 4)
    variance = every[:, 3].sum()
    slope = every[:, 2].sum() / variance if variance > 0.0 else 0.0
    return np.asarray(every[:, 0] - slope * every[:, 1])


def likely_round(air: Air, before: ScheduleState, done: ScheduledRound) -> Likely:
    """How long the round takes, besides the computation that all have in common.

    Args:
        air: what the schedule runs on.
        before: the state before the round.
        done: the round.
    """
    uploads = _uploads(air, before, done)
    return uploads._replace(mean_s=uploads.mean_s + done.decision.wait_s + done.feedback_s)


def _uploads(air: Air, before: ScheduleState, done: ScheduledRound) -> Likely:
    decision, rng = done.decision, stream(air.seed, "likely", done.round)
    q, upload_s, mean_s = decision.probability, _uploads_s(air, done), _mean_ready_s(air, done)
    part = q > 0.0
    if not part.any():
        return Likely(0.0)
    turns_s = float((q[part] * upload_s[part]).sum())
    if mean_s is None and isinstance(air.access, TDMA):
        return Likely(turns_s)
    design = air.policy.sampling
    if design is None:
        return _decided_again(air, before, done)
    if _alone(design, q):
        return Likely(turns_s + (0.0 if mean_s is None else float((q * mean_s).sum())))
    if isinstance(air.access, Parallel):
        last = _last(air, done, design, upload_s, rng)
        if last is not None:
            return last
    return _sampled(air, done, design, upload_s, rng)


def _uploads_s(air: Air, done: ScheduledRound) -> PerDevice:
    """Of each device if it takes part, with the link to itself; once more where that fails."""
    plan, knowledge = done.decision.plan, air.knowledge
    if knowledge.is_perfect or not knowledge.resend:
        return plan.upload_s
    again_s = air.uplink.airtime_s(done.gain, plan.power_w)
    planned_s = plan.upload_s * (air.uplink.bits / plan.bits) if np.all(plan.bits) else again_s
    failed = np.isfinite(again_s) & (again_s > planned_s * (1.0 + _SURE))
    return plan.upload_s + np.where(failed, again_s, 0.0)


def _ready_s(
    air: Air, done: ScheduledRound, device: NDArray[np.int64], rng: np.random.Generator
) -> PerDevice | None:
    return air.computation.ready_s(device, len(done.gain), rng, done.decision.plan.pace)


def _mean_ready_s(air: Air, done: ScheduledRound) -> PerDevice | None:
    """When each device is ready on average; None where all are at once."""
    devices, pace = len(done.gain), done.decision.plan.pace
    if air.computation.spread > 0.0:
        return np.asarray(np.broadcast_to(air.computation.mean_s * pace, devices))
    return _ready_s(air, done, np.arange(devices), stream(air.seed, "likely", done.round))


def _alone(design: AbstractDesign, q: PerDevice) -> bool:
    """Whether every cohort is a single device."""
    if isinstance(design, WithReplacement):
        return design.draws == 1
    return isinstance(design, FixedSize | Pivotal) and abs(float(q.sum()) - 1.0) < _SURE


def _last(
    air: Air,
    done: ScheduledRound,
    design: AbstractDesign,
    upload_s: PerDevice,
    rng: np.random.Generator,
) -> Likely | None:
    """The mean of the last end, where the design has a formula; over computation times drawn."""
    decision = done.decision
    device = np.flatnonzero(decision.probability)
    omega = decision.draw_probability
    means = []
    for _ in range(_DRAWS if air.computation.spread > 0.0 else 1):
        ready_s = _ready_s(air, done, device, rng)
        end_s = upload_s[device] + (0.0 if ready_s is None else ready_s)
        order = np.argsort(-end_s, kind="stable")
        first = device[order]
        nobody = design.nobody_of_first(
            decision.probability[first], None if omega is None else omega[first]
        )
        if nobody is None:
            return None
        means.append(float((end_s[order] * -np.diff(nobody)).sum()))
    return Likely(float(np.mean(means)))


def _sampled(
    air: Air,
    done: ScheduledRound,
    design: AbstractDesign,
    upload_s: PerDevice,
    rng: np.random.Generator,
) -> Likely:
    """The mean over cohorts of the design, each with computation times of its own."""
    q, omega = done.decision.probability, done.decision.draw_probability
    sure = air.computation.spread == 0.0 and bool(np.all((q == 0.0) | (q >= 1.0)))
    most = min(_MOST, int(_MEMBERS / max(1.0, q.sum())), _NUMBERS // len(q))
    cohorts = 1 if sure else max(_LEAST, most)
    length, total = np.empty(cohorts), np.empty(cohorts)
    for place, member in enumerate(design.cohorts(q, omega, cohorts, rng)):
        device = np.flatnonzero(member)
        own_s = upload_s[device]
        length[place] = air.access.uploads_s(own_s, _ready_s(air, done, device, rng))
        total[place] = own_s.sum()
    around = total - total.mean()
    known_s = float((q * np.where(q > 0.0, upload_s, 0.0)).sum())
    covariance, variance = float((around * length).mean()), float((around**2).mean())
    return Likely(float(length.mean()), float(total.mean()) - known_s, covariance, variance)


def _decided_again(air: Air, before: ScheduleState, done: ScheduledRound) -> Likely:
    """The mean over rounds that go on from the same state, each with luck of its own."""
    seeds = range(1_000_000 * (air.seed + 1), 1_000_000 * (air.seed + 1) + _DECISIONS)
    again = [schedule_round(replace(air, seed=seed), before)[0] for seed in seeds]
    every = [each.airtime_s - each.feedback_s - each.decision.wait_s for each in (done, *again)]
    return Likely(float(np.mean(every)))
