"""Compressors beside a local step, and the variance they add to real updates.

`python -m benchmarks.compression` (some two minutes, one core; CIFAR-10 first: `fedsched data
cifar10`) writes ``results/compression.md``. Encoding and decoding take turns with local training of
the paper's CNN, so that whatever else the machine does falls on both; a ratio is one of processor
times, and the median over the turns.
"""

import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.peers.workload import COHORT, DEVICES, SPEC, cohort, one_thread
from fedsched.learning.compression import (
    Dithered,
    Identity,
    Natural,
    Ternary,
    TopK,
    best_width,
    decode,
)
from fedsched.randomness import stream

TURNS = 15
WARM_UP = 2
ROUNDS = (0, 10, 30, 60)  # whose updates are looked at
SEEN = 5  # updates of each of these rounds
BUCKETS = (64, 128, 512)
WIDTHS = (2, 3, 4, 5, 6, 8)
PLACE = Path(__file__).parent / "results" / "compression.md"
COMPRESSORS = (
    Dithered(2),
    Dithered(3),
    Dithered(4),
    Dithered(8),
    Dithered(3, bucket=128),
    Ternary(),
    Natural(),
    TopK(0.01),
    Identity(),
)


def timed(job):
    """The result of a job and its processor time, as other programs may be running."""
    start = time.process_time()
    result = job()
    return result, time.process_time() - start


def speeds(trainer):
    """Milliseconds of encoding and decoding, and their sum over one local step in the same turn."""
    x = trainer.initial_parameters
    rows = {each: [] for each in COMPRESSORS}
    for turn in range(-WARM_UP, TURNS):
        trained, step_s = timed(partial(trainer.train, x, turn + WARM_UP, 0))
        for each, row in rows.items():
            rng = stream(1, "compression", turn + WARM_UP)
            payload, encode_s = timed(partial(each.encode, trained.delta, rng))
            _, decode_s = timed(partial(decode, payload, len(x)))
            if turn >= 0:
                whole = encode_s + decode_s
                row.append((1e3 * encode_s, 1e3 * decode_s, whole * SPEC.steps / step_s))
    return {each: [statistics.median(column) for column in zip(*row, strict=True)]
            for each, row in rows.items()}  # fmt: skip


def updates(trainer):
    """Updates of some rounds of federated averaging."""
    x = trainer.initial_parameters
    found = []
    for t in range(max(ROUNDS) + 1):
        deltas = [trainer.train(x, int(n), t).delta for n in cohort(t)]
        if t in ROUNDS:
            found += deltas[:SEEN]
        x = x + np.sum(deltas, axis=0) / np.float32(COHORT)
    return found


def one_norm(vector, width):
    """Omega of random rounding with the Euclidean norm of the whole vector for a scale."""
    levels = (1 << (width - 1)) - 1  # and a sign
    x = np.abs(vector.astype(np.float64))
    step = np.sqrt(np.square(x).sum()) / levels
    place = x / step
    f = place - np.floor(place)
    return float(np.square(step) * (f * (1 - f)).sum() / np.square(x).sum())


def mean(values):
    return float(np.mean(list(values)))


def speed_lines(found, length):
    lines = [
        "| compressor | bits a number | encode | decode | both, over one local step |",
        "|---|---|---|---|---|",
    ]
    for each, (encode_ms, decode_ms, ratio) in found.items():
        lines.append(
            f"| `{each}` | {each.bits(length) / length:.3f} | {encode_ms:.2f} ms | "
            f"{decode_ms:.2f} ms | {ratio:.2f} |"
        )
    return lines


def omega_lines(found):
    length = len(found[0])
    lines = [
        "| compressor | bits a number | omega, Gaussian | omega, updates | (1 + omega) x bits |",
        "|---|---|---|---|---|",
    ]
    shown = [Dithered(width, bucket) for bucket in BUCKETS for width in WIDTHS]
    for each in [*shown, *(Ternary(bucket) for bucket in BUCKETS), Natural(), Identity()]:
        omega, bits = mean(each.expected_omega(x) for x in found), each.bits(length) / length
        lines.append(
            f"| `{each}` | {bits:.3f} | {each.gaussian_omega():.4f} | {omega:.4f} | "
            f"{(1 + omega) * bits:.2f} |"
        )
    return lines


def warning_lines(found):
    length = len(found[0])
    lines = ["| what not to do | bits a number | omega, updates | (1 + omega) x bits |",
             "|---|---|---|---|"]  # fmt: skip
    for width in (4, 8):
        whole = Dithered(width, bucket=length)
        omega = mean(whole.expected_omega(x) for x in found)
        lines.append(_warning(f"one largest magnitude for all, {width} bits", width, omega))
    for width in (4, 8):
        omega = mean(one_norm(x, width) for x in found)
        lines.append(_warning(f"one Euclidean norm for all, {width} bits", width, omega))
    for share in (0.01, 0.1):
        # Entries drawn at random and multiplied by 1/share; the seed of the draw is all that is
        # sent of the indices.
        lines.append(_warning(f"{share:.0%} of the entries at random", 32 * share, 1 / share - 1))
    return lines


def _warning(name, bits, omega):
    return f"| {name} | {bits:.2f} | {omega:.2f} | {(1 + omega) * bits:.1f} |"


def choice(found):
    omega = {w: mean(Dithered(w).expected_omega(x) for x in found) for w in range(2, 9)}
    return best_width(omega, {w: Dithered(w).bits(len(found[0])) for w in omega})


def page():
    one_thread()
    trainer = SPEC.build()
    fast = speeds(trainer)
    seen = updates(trainer)
    worst = max(ratio for *_, ratio in fast.values())
    return "\n".join(
        [
            "# Compression",
            "",
            f"An update of the paper's CNN on CIFAR-10: {trainer.dimension:,} numbers, "
            f"{SPEC.steps} local steps at batch {SPEC.batch_size}. Medians of {TURNS} turns, each "
            "with local training in the same process, in processor time. Both together take "
            f"{worst:.2f} local steps at most.",
            "",
            *speed_lines(fast, trainer.dimension),
            "",
            f"Variance that is added, for {len(seen)} updates of rounds "
            f"{', '.join(map(str, ROUNDS))} of federated averaging with {COHORT} of {DEVICES} "
            "devices, i.i.d., as the mean over the chance; and for Gaussian numbers. Where airtime "
            f"is the price, the best width in buckets of 512 is {choice(seen)} bits.",
            "",
            *omega_lines(seen),
            "",
            *warning_lines(seen),
            "",
        ]
    )


def write(text):
    PLACE.write_text(text, encoding="utf-8")
    return text


def main():
    print(write(page()))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"it takes no arguments, got {' '.join(sys.argv[1:])}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    main()
