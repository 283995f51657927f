"""What liars cost: digits on 100 devices, with and without bounds on the influence of a device.

    python -m benchmarks.attacks [--alpha 1.0] [--seeds 11,12] [--rounds 200]
                                [--modes off,clip,robust] [--notes FILE]

Prints a table of benchmarks/results/attacks.md. A cost is in points of test accuracy, the mean of
the last two measurements over the seeds, against the honest run without bounds. The constants of
the bounds were chosen with the seeds 1 to 3. With notes a measurement that was stopped goes on.
"""

import argparse
import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.notes import Notes
from benchmarks.softmax import SoftmaxPool
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.radio import AbstractChannel, make_channel
from fedsched.rounds import train
from fedsched.runs.assembly import air_of, training_of
from fedsched.runs.scenario import scenario_from

DEVICES = 100
BITS = 17765696.0  # of the paper's CNN: the gains matter, and weights differ a hundredfold


@dataclass(frozen=True)
class Attack:
    """What liars send in the place of their update d, and which gain they tell."""

    words: str
    times: float = 1.0
    gain: float | None = None
    from_round: int = 0


ATTACKS = (
    Attack("NaN", np.nan),
    Attack("100 d", 100.0),
    Attack("-100 d", -100.0),
    Attack("-10 d", -10.0),
    Attack("-2.5 d", -2.5),
    Attack("-2 d, as long as is allowed", -2.0),
    Attack("-d", -1.0),
    Attack("1e30 d, once all have settled", 1e30, from_round=100),
    Attack("-d, tells a gain of 1e30", -1.0, 1e30),
    Attack("-10 d, tells a gain of 1e30", -10.0, 1e30),
    Attack("-10 d, tells a gain of 1e-6", -10.0, 1e-6),
)


@dataclass(frozen=True, eq=False)
class Lying(AbstractChannel):
    """A channel of which some devices tell another gain."""

    inner: AbstractChannel
    liars: np.ndarray
    gain: float

    @property
    def devices(self):
        return self.inner.devices

    def init(self, rng):
        return self.inner.init(rng)

    def step(self, state, rng):
        gain, state = self.inner.step(state, rng)
        gain = gain.copy()
        gain[self.liars] = self.gain
        return gain, state


class Attacked(AbstractTrainingPool):
    """A pool of which some devices send another update."""

    def __init__(self, pool, liars, attack):
        self._pool, self._liars, self._attack = pool, set(liars.tolist()), attack

    @property
    def initial_parameters(self):
        return self._pool.initial_parameters

    def train_cohort(self, parameters, devices, round, work=None):  # noqa: A002 - as in the base
        updates = self._pool.train_cohort(parameters, devices, round, work)
        for device, update in zip(devices, updates, strict=True):
            lies = int(device) in self._liars and round >= self._attack.from_round
            delta = update.delta * np.float32(self._attack.times) if lies else update.delta
            yield replace(update, delta=delta)

    def losses(self, parameters, devices, round, *, whole):  # noqa: A002 - as in the base
        return self._pool.losses(parameters, devices, round, whole=whole)

    def evaluate(self, parameters):
        return self._pool.evaluate(parameters)

    def close(self):
        self._pool.close()


def scenario(seed, bounds, given):
    return scenario_from(
        {
            "run": {"rounds": given.rounds, "seed": seed, "eval_every": given.rounds // 10},
            "policy": {"kind": "lyapunov", "draws": 10, "lam": 10.0},
            "channel": {"devices": DEVICES},
            "uplink": {"bits": BITS},
            "data": {"name": "digits", "alpha": given.alpha, "samples": 100},
            "training": {"model": "softmax", "learning_rate": 0.05, "bounds": bounds},
        }
    )


def liars_of(seed, share):
    return np.random.default_rng([seed, 9]).permutation(DEVICES)[: round(DEVICES * share)]


def trained(seed, bounds, attack, share, given):
    """The mean of the last two accuracies of a run with that share of liars, and its seconds."""
    here, liars = scenario(seed, bounds, given), liars_of(seed, share)
    pool = SoftmaxPool(here, DEVICES)
    channel = make_channel(here.channel.kind, DEVICES)
    if attack.gain is not None and len(liars):
        channel = Lying(channel, liars, attack.gain)
    training = training_of(here, Attacked(pool, liars, attack))
    air = air_of(here, channel, len(pool.initial_parameters))
    began = time.process_time()
    rounds = train(air, training, pool.initial_parameters)
    measured = [done.accuracy for done, _ in rounds if not np.isnan(done.accuracy)]
    return float(np.mean(measured[-2:])), time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--seeds", default="11,12")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--modes", default="off,clip,robust")
    parser.add_argument("--notes", type=Path)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    seeds, notes = [int(each) for each in given.seeds.split(",")], Notes(given.notes)
    modes = given.modes.split(",")

    def row(attack, share, modes=modes):
        """By mode: accuracy and seconds, a row for each seed."""
        return {
            mode: np.array([
                notes.get(
                    f"{attack.words} {share} {mode} {seed} {given.alpha} {given.rounds}",
                    trained, seed, mode, attack, share, given,
                )
                for seed in seeds
            ])
            for mode in modes
        }  # fmt: skip

    honest = row(Attack("nobody"), 0.0, {"off": 0, **dict.fromkeys(modes)})
    best, seconds = honest["off"].mean(axis=0)
    print(f"| liars | they send | {' | '.join(modes)} |\n|---|---|{'---|' * len(modes)}")
    shown = " | ".join(f"{100 * honest[m][:, 0].mean():.1f}" for m in modes)
    print(f"| none | accuracy | {shown} |")
    relative = " | ".join(f"{100 * (honest[m][:, 1].mean() / seconds - 1):+.1f} %" for m in modes)
    print(f"| none | time of computation | {relative} |", flush=True)
    for share in (0.05, 0.2):
        for attack in ATTACKS:
            found = row(attack, share)
            costs = " | ".join(f"{100 * (found[m][:, 0].mean() - best):+.1f}" for m in modes)
            print(f"| {share:.0%} | {attack.words} | {costs} |", flush=True)


if __name__ == "__main__":
    main()
