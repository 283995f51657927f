"""What it is worth to price by the access in force: stragglers, and devices that compute slowly.

`python -m benchmarks.access [--fleets K] [--settings S] [--out FILE]` takes K random fleets. `auto`
and `lyapunov` schedule each one twice: as if devices took turns and computed alike, and by what is
in force. Both are timed by the clock that is in force, at the same mean 1/q, which the price of a
second is tuned for. It writes ``results/access.md``, and goes on from its ledger if interrupted.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsched.policies import Auto, Lyapunov, System
from fedsched.policies.designs import Independent, Pivotal
from fedsched.radio.access import OFDMA, TDMA, EqualOFDMA, Parallel
from fedsched.randomness import Luck, stream
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import Observation

ROUNDS, COHORTS, SEARCH = 60, 8, 8
PLACE = Path(__file__).parent / "results" / "access.md"
UNIT_S = PAPER_UPLINK.bits / PAPER_UPLINK.bandwidth_hz


@dataclass(frozen=True)
class Fleet:
    """Devices whose mean gains and computation times are drawn."""

    sigma: np.ndarray  # of the Rayleigh fading
    compute_s: np.ndarray
    inverse: float  # the mean 1/q that is aimed at
    name: str

    def gains(self):
        rng = stream(7, "gains", len(self.sigma))
        return [np.maximum(rng.rayleigh(self.sigma) ** 2, 1e-3) for _ in range(ROUNDS)]


def fleets(count):
    """From 20 to 120 devices, gains over two or three decades, computation over one or two."""
    for number in range(count):
        rng = stream(3, "fleet", number)
        devices, decades = int(rng.integers(20, 121)), rng.uniform(0.3, 1.0)
        sigma = 10.0 ** rng.uniform(-0.5, 0.5 + decades, devices)
        spread, uploads = rng.uniform(0.5, 1.5), 10.0 ** rng.uniform(0.5, 1.5)
        compute_s = uploads * 0.1 * np.exp(spread * rng.standard_normal(devices))
        inverse = devices / rng.uniform(3.0, 15.0)
        about = f"{devices} devices, {uploads:.0f} uploads of computation"
        yield Fleet(sigma, compute_s, inverse, about)


def auto(system, lam):
    """The policy at a price of a second, and how its cohorts are drawn."""
    return Auto(system=system, fixed_lam=lam), Pivotal()


def lyapunov(system, lam):
    """Likewise; V suits lambda, and coins let lambda alone decide how many devices take part."""
    coins = Independent(1)
    return Lyapunov(system=system, design=coins, v=100.0, lam=lam, scale_v=True, start="budget"), (
        coins
    )


POLICIES = (auto, lyapunov)


def played(make, system, lam, fleet, clock):
    """The mean 1/q, and the mean length of a round by the clock in force."""
    (policy, design), devices = make(system, lam), len(fleet.sigma)
    state, inverse, length = policy.init(devices), [], []
    for t, gain in enumerate(fleet.gains()):
        decision, state = policy.decide(Observation(gain=gain, luck=Luck(1, t)), state)
        if t < ROUNDS // 4:
            continue  # while prices settle
        q, share = decision.probability, np.full(devices, 1.0 / devices)
        inverse.append((1.0 / q).mean())
        for k in range(COHORTS):
            cohort = design.draw(q, None, share, stream(2, "cohort", t, k))
            length.append(clock.round_s(decision.plan, cohort))
    return np.mean(inverse), np.mean(length)


def length_s(make, system, fleet, clock):
    """The mean length of a round at the fleet's mean 1/q, which some price of a second gives."""
    points, lam = [], 30.0
    for _ in range(SEARCH):
        inverse, seconds = played(make, system, lam, fleet, clock)
        points.append((inverse, seconds))
        if abs(np.log(inverse / fleet.inverse)) < 0.01:
            return seconds
        lam *= (fleet.inverse / inverse) ** 2
    q, seconds = np.log(sorted(points)).T
    if not q[0] - 0.02 <= np.log(fleet.inverse) <= q[-1] + 0.02:
        raise RuntimeError(f"{fleet.name}: mean 1/q {np.exp(q)} and not {fleet.inverse}")
    return float(np.exp(np.interp(np.log(fleet.inverse), q, seconds)))


def gain_of(make, fleet, access, compute_s):
    """How many times shorter a round is at the same mean 1/q if priced by what is in force."""
    aware = System(link=PAPER_UPLINK, access=access, compute_s=compute_s)
    unaware = replace(aware, access=TDMA(), compute_s=float(np.mean(compute_s)))
    return length_s(make, unaware, fleet, aware) / length_s(make, aware, fleet, aware)


SETTINGS = {
    "parallel": (Parallel(), False),
    "in turn, own computation times": (TDMA(), True),
    "parallel, own computation times": (Parallel(), True),
    "equal blocks": (EqualOFDMA(unit_s=UNIT_S), False),
    "equal blocks, own computation times": (EqualOFDMA(unit_s=UNIT_S), True),
    "blocks that end together, own computation times": (OFDMA(unit_s=UNIT_S), True),
}


def measured(count, settings, ledger):
    """After each ratio all so far; those that the ledger has are not measured again."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    found = {tuple(key): ratio for key, ratio in map(json.loads, lines)}
    yield found
    for name, (access, own) in settings.items():
        for number, fleet in enumerate(fleets(count)):
            for make in POLICIES:
                key = (make.__name__, name, number)
                if key in found:
                    continue
                compute_s = fleet.compute_s if own else 0.0
                found[key] = gain_of(make, fleet, access, compute_s)
                print(*key, f"{fleet.name}: {found[key]:.3f}", flush=True)
                with ledger.open("a") as file:
                    file.write(json.dumps([key, found[key]]) + "\n")
                yield found


def table(found):
    """A row for each policy and setting that was measured."""
    for name in SETTINGS:
        for make in POLICIES:
            ratios = [each for key, each in found.items() if key[:2] == (make.__name__, name)]
            if not ratios:
                continue
            low, middle, high = np.quantile(ratios, [0.0, 0.5, 1.0])
            below = sum(ratio < 1.0 for ratio in ratios)
            spread = f"{low:.3f} | {middle:.2f} | {high:.2f}"
            yield f"| {name} | `{make.__name__}` | {len(ratios)} | {spread} | {below} |"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--fleets", type=int, default=20)
    arguments.add_argument("--settings", type=int, default=len(SETTINGS), help="the first so many")
    arguments.add_argument("--out", type=Path, default=PLACE)
    arguments.add_argument("--ledger", type=Path, default=Path("runs/access.jsonl"))
    given = arguments.parse_args()
    count, settings = given.fleets, dict(list(SETTINGS.items())[: given.settings])
    given.ledger.parent.mkdir(parents=True, exist_ok=True)
    for found in measured(count, settings, given.ledger):
        given.out.write_text(page(found))
    print(page(found))


def page(found):
    """What was found, as it stands in ``results``."""
    return "\n".join(
        [
            "# Priced by the access in force",
            "",
            f"Random fleets, {ROUNDS} rounds each: `python -m benchmarks.access`. How many times",
            "shorter a round is at the same mean 1/q than if the policy prices as if devices took",
            "turns and computed alike.",
            "",
            "| in force | policy | fleets | least | median | most | fleets below 1 |",
            "|---|---|---|---|---|---|---|",
            *table(found),
            "",
        ]
    )


if __name__ == "__main__":
    main()
