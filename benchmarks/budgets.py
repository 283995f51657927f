"""What more budgets cost: rounds of `auto` with 10,000 devices, with one budget and with three.

`python -m benchmarks.budgets` prints processor time a round and the ratio, in one run.
"""

import time

import numpy as np

from fedsched.policies import Auto, AveragePower, Energy, Participation, System
from fedsched.radio import make_channel
from fedsched.randomness import Luck, stream
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import Observation

DEVICES, ROUNDS = 10_000, 60
CASES = {
    "power": (AveragePower(1.0),),
    "power, energy, participation": (
        AveragePower(1.0),
        Energy(0.5, circuit_w=0.2),
        Participation(0.05),
    ),
}


def seconds_a_round(budgets):
    policy = Auto(system=System(link=PAPER_UPLINK, budgets=budgets, compute_s=0.5))
    channel = make_channel("heterogeneous", DEVICES)
    inner, state, times = channel.init(stream(1, "channel")), policy.init(DEVICES), []
    for t in range(ROUNDS):
        gain, inner = channel.step(inner, stream(1, "channel", t))
        began = time.process_time()
        _, state = policy.decide(Observation(gain=gain, luck=Luck(1, t)), state)
        times.append(time.process_time() - began)
    return float(np.median(times[1:]))  # the first one looks for where to begin


def main():
    found = {name: seconds_a_round(budgets) for name, budgets in CASES.items()}
    one = found["power"]
    for name, seconds in found.items():
        print(f"{name}: {1e3 * seconds:.2f} ms a round, {seconds / one:.2f} times")


if __name__ == "__main__":
    main()
