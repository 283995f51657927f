"""How near `auto` comes to the best lambda, what it gains over the best uniform, and the budgets.

`python -m benchmarks.auto [--every K]` schedules every K-th case of a grid of radios, fleets and
computation times, and writes ``results/auto.md``. Time to a target is predicted as
(kappa + Q)(c + tau), from expected values, so that no luck of cohorts is in it.
"""

import argparse
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsched.policies import Auto, AveragePower, System
from fedsched.radio import make_channel
from fedsched.randomness import Luck, stream
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import Observation

ROUNDS = 1200
CHANNELS, NOISES, FLEETS = ("heterogeneous", "homogeneous", "pathloss"), (1.0, 1e3, 1e5), (20, 100)
PEAKS, KAPPAS, UPLOADS = (10.0, 3162.0), (0.4, 1.8, 5.0), (0.1, 1.0, 10.0, 100.0)
FACTORS = np.geomspace(0.25, 4.0, 9)  # of the lambda that auto ends with
PLACE = Path(__file__).parent / "results" / "auto.md"


def gains(kind, devices, rounds=ROUNDS, seed=1):
    channel = make_channel(kind, devices)
    state, rows = channel.init(stream(seed, "channel")), []
    for t in range(rounds):
        gain, state = channel.step(state, stream(seed, "channel", t))
        rows.append(gain)
    return np.array(rows)


def play(policy, table):
    """Q and tau of every round, the mean use of every device after every round, and lambda."""
    devices = table.shape[1]
    state, rows, spent, uses = policy.init(devices), [], np.zeros(devices), []
    for t, gain in enumerate(table):
        decision, state = policy.decide(Observation(gain=gain, luck=Luck(1, t)), state)
        q = decision.probability
        rows.append(((1.0 / q).mean(), (q * decision.plan.upload_s).sum()))
        spent += decision.expected_power_w
        uses.append(spent / (t + 1))
    inverse, airtime_s = np.array(rows).T
    return inverse, airtime_s, np.array(uses), policy.lam(state, devices)


def best_uniform(table, link, kappa, compute_s):
    """The least predicted time of fixed cohorts of any size, which spend the budget exactly."""
    devices = table.shape[1]
    times = {}
    for m in range(1, devices + 1):
        power_w = np.full_like(table, min(link.max_power_w, devices / m))
        airtime_s = m / devices * link.airtime_s(table, power_w).sum(axis=1).mean()
        times[m] = (kappa + devices / m) * (compute_s + airtime_s)
    return min(times.values())


def measure(kind, noise, devices, peak, kappa_n, uploads):
    table = gains(kind, devices)
    link = replace(PAPER_UPLINK, noise_w=noise, max_power_w=peak)
    one_s = float(np.median(link.airtime_s(table, np.full_like(table, min(peak, 10.0)))))
    kappa, compute_s = kappa_n * devices, uploads * one_s
    system = System(link=link, budgets=(AveragePower(1.0),), compute_s=compute_s)

    def time_of(played):
        return (kappa + played[0].mean()) * (compute_s + played[1].mean())

    own = play(Auto(system=system, kappa=kappa), table)
    fixed = [
        time_of(play(Auto(system=system, kappa=kappa, fixed_lam=own[3] * factor), table))
        for factor in FACTORS
    ]
    binds = own[2][-1].min() < 0.9  # the peak, or the floor on q, keeps some below their budget
    return {
        "to the best lambda": time_of(own) / min(fixed),
        "to the best uniform": time_of(own) / best_uniform(table, link, kappa, compute_s),
        "worst use from round 100": own[2][100:].max(),
        "worst use from round 1,000": own[2][1000:].max(),
        "least use from round 1,000": np.nan if binds else own[2][1000:].min(),
    }


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--every", type=int, default=1)
    every = arguments.parse_args().every
    cases = list(itertools.product(CHANNELS, NOISES, FLEETS, PEAKS, KAPPAS, UPLOADS))[::every]
    rows = []
    for number, case in enumerate(cases):
        rows.append(measure(*case))
        print(f"{number + 1} of {len(cases)}", end="\r", flush=True)
    lines = [
        "# `auto` on many radios",
        "",
        f"{len(cases)} cases, {ROUNDS} rounds each: `python -m benchmarks.auto --every {every}`.",
        "",
        "| predicted time of auto, and use of the budget | least | median | largest | worst case |",
        "|---|---|---|---|---|",
    ]
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        at = int(np.nanargmin(values) if name.startswith("least") else np.nanargmax(values))
        low, middle, high = np.nanquantile(values, [0.0, 0.5, 1.0])
        where = ", ".join(str(each) for each in cases[at])
        lines.append(f"| {name} | {low:.3f} | {middle:.3f} | {high:.3f} | {where} |")
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
