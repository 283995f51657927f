"""Rounds to decide: gains and queues as the paper's main setting meets them, for any N."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from fedsched.policies import make_policy
from fedsched.radio import make_channel
from fedsched.rounds import Air, ScheduleState, schedule, start
from fedsched.solve.decision import decide
from fedsched.solve.power import optimal_power
from fedsched.solve.solution import RoundSolution
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import PerDevice

V = 100.0
LAM = 100.0  # the paper's, for 100 devices
SETTLING_ROUNDS = 400  # at N = 100, from empty queues
ROUNDS_AT_SIZE = 3  # at any other N, from the settled queues of the 100 devices


@dataclass(frozen=True, kw_only=True)
class RoundProblem:
    """What the policy sees in one round."""

    gain: PerDevice
    queue: PerDevice
    draws: int
    lam: float

    @property
    def weight(self) -> float:
        return V / len(self.gain)

    def power(self) -> PerDevice:
        return optimal_power(
            self.gain,
            self.queue,
            cost=V * self.lam * PAPER_UPLINK.bits / PAPER_UPLINK.bandwidth_hz,
            noise=PAPER_UPLINK.noise_w,
            max_power=PAPER_UPLINK.max_power_w,
        )

    def price(self, power: PerDevice) -> PerDevice:
        return (V * self.lam) * PAPER_UPLINK.airtime_s(self.gain, power) + self.queue * power

    def decide(self, data_weight: PerDevice | None = None) -> RoundSolution:
        """The whole decision in one call: power, price, probabilities and certificate."""
        return decide(
            self.gain,
            self.queue,
            uplink=PAPER_UPLINK,
            v=V,
            lam=self.lam,
            draws=self.draws,
            data_weight=data_weight,
        )

    def objective(self, draw_probability: PerDevice, price: PerDevice) -> float:
        """What draw probabilities cost, from the definition; they are made to sum to 1."""
        omega = draw_probability / draw_probability.sum()
        q = -np.expm1(self.draws * np.log1p(-omega))
        return float((self.weight / q + price * q).sum())


def settled_queues(*, draws: int, seed: int) -> PerDevice:
    """The queues of 100 devices after some hundred rounds."""
    rounds = _rounds(100, draws, LAM, seed, None)
    _, state = next(islice(rounds, SETTLING_ROUNDS - 1, None))
    return state.policy["queue.power"]


def round_problems(
    devices: int, *, draws: int, lam: float, count: int, settled: PerDevice, seed: int
) -> list[RoundProblem]:
    """Consecutive rounds of the heterogeneous channel, queues included.

    Every device starts with the settled queue of the one among 100 that has its place in the order
    of channel quality, in proportion to lambda, since powers depend on V lambda / Z alone.
    """
    channel = make_channel("heterogeneous", devices)
    policy = make_policy("lyapunov", uplink=PAPER_UPLINK, draws=draws, v=V, lam=lam)
    first = start(Air(channel=channel, policy=policy, uplink=PAPER_UPLINK, seed=seed))
    queue = settled[np.arange(devices) * len(settled) // devices] * (lam / LAM)
    state = ScheduleState(round=first.round, channel=first.channel, policy={"queue.power": queue})
    rows = islice(_rounds(devices, draws, lam, seed, state), ROUNDS_AT_SIZE, ROUNDS_AT_SIZE + count)
    return [
        RoundProblem(gain=done.gain, queue=done.queues["power"], draws=draws, lam=lam)
        for done, _ in rows
    ]


def _rounds(devices, draws, lam, seed, state):
    return schedule(
        channel=make_channel("heterogeneous", devices),
        policy=make_policy("lyapunov", uplink=PAPER_UPLINK, draws=draws, v=V, lam=lam),
        uplink=PAPER_UPLINK,
        seed=seed,
        state=state,
    )
