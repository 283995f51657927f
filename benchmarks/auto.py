"""How near `auto` comes to the best lambda, what it gains over the best uniform, and the budgets.

`python -m benchmarks.auto [--every K] [--of L] [--out FILE]` schedules every K-th radio of a grid,
each with every L-th pair of kappa and computation time, and writes ``results/auto.md``. Schedules
that FILE has are read, so that it may be stopped. Time to a target is predicted as
(kappa + Q)(c + tau), from expected values, so that no luck of cohorts is in it.
"""

import argparse
import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.notes import Notes
from fedsched.policies import Auto, AveragePower, System
from fedsched.radio import make_channel
from fedsched.randomness import Luck, stream
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import Observation

ROUNDS = 1200
CHANNELS, NOISES, PEAKS = (
    ("heterogeneous", "homogeneous", "pathloss"),
    (1.0, 1e3, 1e5),
    (10.0, 3162.0),
)
FLEETS, KAPPAS, UPLOADS = (20, 100, 1000), (0.4, 1.8, 5.0), (0.1, 1.0, 10.0, 100.0)
RADIOS = list(itertools.product(CHANNELS, NOISES, PEAKS, FLEETS))
GRID = 1.4  # from one fixed lambda to the next, the same grid for all cases of a radio
PLACE = Path(__file__).parent / "results" / "auto.md"


class Radio:
    """One channel, noise, peak and fleet, with what is the same for all its cases."""

    def __init__(self, channel, noise_w, peak_w, devices):
        self.name, self.devices = f"{channel} {noise_w:g} {peak_w:g} {devices}", devices
        self.link = replace(PAPER_UPLINK, noise_w=noise_w, max_power_w=peak_w)
        self.gains = gains(channel, devices)
        usual_w = np.full_like(self.gains, min(peak_w, 10.0))
        self.upload_s = float(np.median(self.link.airtime_s(self.gains, usual_w)))

    def play(self, compute_s=1.0, **options):
        """Means of Q and tau, lambda in the end, and how much of their budgets devices used."""
        system = System(link=self.link, budgets=(AveragePower(1.0),), compute_s=compute_s)
        policy = Auto(system=system, **options)
        state, spent = policy.init(self.devices), np.zeros(self.devices)
        at_peak = np.zeros(self.devices)
        means, most, least = np.zeros(2), [], []
        for t, gain in enumerate(self.gains):
            decision, state = policy.decide(Observation(gain=gain, luck=Luck(1, t)), state)
            q = decision.probability
            means += np.array([(1.0 / q).mean(), (q * decision.plan.upload_s).sum()]) / ROUNDS
            spent += decision.expected_power_w
            most.append(spent.max() / (t + 1))
            at_peak += decision.plan.power_w >= 0.999 * self.link.max_power_w
            free = at_peak < 0.5 * (t + 1)  # the peak does not keep it below its budget
            least.append(spent[free].min(initial=np.inf) / (t + 1))
        uses = {"most 100": max(most[99:]), "most 1000": max(most[999:]), "least": min(least[999:])}
        lam = policy.lam(state, self.devices)
        return {"inverse": means[0], "airtime_s": means[1], "lam": lam, **uses}

    def uniform(self):
        """Q and tau of cohorts of any size (of a thousand, of 120), which spend the budget."""
        found = []
        for m in np.unique(np.geomspace(1, self.devices, 120).round()):
            power_w = np.full_like(self.gains, min(self.link.max_power_w, self.devices / m))
            airtime_s = self.link.airtime_s(self.gains, power_w).mean() * m
            found.append((self.devices / m, float(airtime_s)))
        return found


def gains(kind, devices, rounds=ROUNDS, seed=1):
    """The gains of all rounds."""
    channel = make_channel(kind, devices)
    state, rows = channel.init(stream(seed, "channel")), []
    for t in range(rounds):
        gain, state = channel.step(state, stream(seed, "channel", t))
        rows.append(gain)
    return np.array(rows)


def own_schedule(radio, notes, kappa_n, uploads):
    """What auto does with a kappa for a computation time."""
    name = f"{radio.name} kappa {kappa_n} uploads {uploads}"
    compute_s = uploads * radio.upload_s
    return notes.get(name, radio.play, compute_s, kappa=kappa_n * radio.devices)


def wrong_kappa(radio, notes, right_n, taken_n):
    """The largest time, over computation times, with a kappa that is not the right one."""

    def time_of(kappa_n, uploads):
        found = own_schedule(radio, notes, kappa_n, uploads)
        compute_s = uploads * radio.upload_s
        return (right_n * radio.devices + found["inverse"]) * (compute_s + found["airtime_s"])

    return max(time_of(taken_n, each) / time_of(right_n, each) for each in UPLOADS)


def measure(radio, notes, kappa_n, uploads):
    """One case: auto beside the grid of fixed lambdas and the cohorts of fixed size."""
    kappa, compute_s = kappa_n * radio.devices, uploads * radio.upload_s

    def time_of(inverse, airtime_s):
        return (kappa + inverse) * (compute_s + airtime_s)

    own = own_schedule(radio, notes, kappa_n, uploads)
    fixed = {}

    def at(step):
        """The predicted time with a fixed lambda; its schedule needs no kappa and no c."""
        name = f"{radio.name} step {step}"
        if step not in fixed:
            found = notes.get(name, radio.play, fixed_lam=GRID**step)
            fixed[step] = time_of(found["inverse"], found["airtime_s"])
        return fixed[step]

    step = math.floor(math.log(own["lam"], GRID))  # beside the lambda that auto ends with
    way = 1 if at(step + 1) < at(step) else -1  # downhill
    while at(step + way) < at(step):
        step += way
    uniform = min(time_of(*each) for each in notes.get(f"{radio.name} uniform", radio.uniform))
    own_s = time_of(own["inverse"], own["airtime_s"])
    return {
        "to the best lambda": own_s / min(fixed.values()),
        "to the best uniform": own_s / uniform,
        "worst use from round 100": own["most 100"],
        "worst use from round 1,000": own["most 1000"],
        "least use from round 1,000": own["least"] if own["least"] < np.inf else np.nan,
    }


def pages(every, of, notes):
    """The page of every so many radios, with every so many of their cases, after each radio."""
    rows, pairs, radios = {}, list(itertools.product(KAPPAS, UPLOADS)), RADIOS[::every]
    first = Radio(*RADIOS[0])
    cost = [
        max(wrong_kappa(first, notes, *pair) for pair in ((low, high), (high, low)))
        for low, high in itertools.pairwise(KAPPAS)
    ]
    for place, radio in enumerate(radios):
        made = Radio(*radio)
        for case in pairs[place % of :: of]:
            rows[*radio, *case] = measure(made, notes, *case)
        left = f" {place + 1} of {len(radios)} radios so far." if place + 1 < len(radios) else ""
        yield "\n".join([
            "# `auto` on many radios",
            "",
            f"{len(rows)} cases, {ROUNDS} rounds each: "
            f"`python -m benchmarks.auto --every {every} --of {of}`.{left}",
            "A case is channel, noise, peak, devices, κ/N, and computation in uploads.",
            "",
            *table(rows),
            "",
            f"On the first radio a κ that is wrong by {KAPPAS[2] / KAPPAS[1]:.1f} costs at most "
            f"{100 * cost[1] - 100:.0f} % of time, and by {KAPPAS[1] / KAPPAS[0]:.1f} at most "
            f"{100 * cost[0] - 100:.0f} %.",
            "",
        ])  # fmt: skip


def table(rows):
    """Of each figure the least, the median, the largest, and the worst case."""
    yield "| predicted time, and use of the budget | least | median | largest | worst case |"
    yield "|---|---|---|---|---|"
    for name in next(iter(rows.values())):
        values = {case: row[name] for case, row in rows.items() if not np.isnan(row[name])}
        if values:
            worst = (min if name.startswith("least") else max)(values, key=values.__getitem__)
            figures = np.quantile(list(values.values()), [0.0, 0.5, 1.0])
            where = ", ".join(f"{each:g}" if each != worst[0] else each for each in worst)
            yield f"| {name} | {' | '.join(f'{each:.3f}' for each in figures)} | {where} |"


def write(every, of, notes):
    """The page in its place, as soon as there is one and after each radio; the last of them."""
    radios = len(RADIOS[::every])
    for made, text in enumerate(pages(every, of, notes), 1):
        PLACE.write_text(text, encoding="utf-8")
        sys.stderr.write(f"\rauto: {made} of {radios} radios" + "\n" * (made == radios))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--of", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of the schedules that were made")
    given = parser.parse_args()
    if min(given.every, given.of) < 1:
        parser.error("--every and --of must be whole numbers of at least 1")
    print(write(given.every, given.of, Notes(given.out)))


if __name__ == "__main__":
    main()
