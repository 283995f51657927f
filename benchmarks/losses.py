"""What lost updates cost each class: digits, where the devices that lose updates hold their own.

    python -m benchmarks.losses [--seeds 3] [--rounds 3000] [--loss 0.3]

Every device holds one class. Those of the classes 0 to 4 lose a share of their updates. Prints the
accuracy of each half of the classes without losses, with losses that nobody corrects, and with the
correction; the mean over the second half of the rounds and the seeds. Writes ``results/losses.md``.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fedsched import rounds
from fedsched.learning.pool import training_pool
from fedsched.radio import make_channel
from fedsched.radio.knowledge import PERFECT, Knowledge
from fedsched.runs.assembly import air_of, trainer_spec_of, training_of
from fedsched.runs.scenario import scenario_from

DEVICES, CLASSES = 100, 10
PLACE = Path(__file__).parent / "results" / "losses.md"


def scenario(seed, given):
    return scenario_from(
        {
            "run": {"rounds": given.rounds, "seed": seed, "eval_every": given.rounds},
            "policy": {"kind": "auto"},
            "channel": {"devices": DEVICES},
            "uplink": {"bits": 17765696.0, "computation_s": 0.5},
            "data": {"name": "digits", "alpha": 0.0, "samples": 100},
            "training": {"model": "softmax", "learning_rate": 0.01},
        }
    )


def accuracies(trainer, whole, parameters):
    """Of each class."""
    found = np.empty(CLASSES)
    for label in range(CLASSES):
        own = whole.test_labels == label
        trainer._dataset = replace(
            whole, test_images=whole.test_images[own], test_labels=whole.test_labels[own]
        )
        found[label] = trainer.evaluate(parameters).accuracy
    trainer._dataset = whole
    return found


def measure(seed, given, loss, corrected):
    here = scenario(seed, given)
    spec = trainer_spec_of(here, DEVICES, "cpu")
    dataset, partition = spec.data()
    label = np.array([dataset.train_labels[partition.indices(n)[0]] for n in range(DEVICES)])
    knowledge = Knowledge(loss=np.where(label < CLASSES // 2, loss, 0.0)) if loss else PERFECT
    trainer, measured = spec.build(), []
    with training_pool(spec, 1) as pool:
        air = replace(
            air_of(here, make_channel(here.channel.kind, DEVICES), len(pool.initial_parameters)),
            knowledge=knowledge,
        )
        untouched = patch.object(rounds, "correction", lambda _, device: np.ones(len(device)))
        if not corrected:
            untouched.start()
        for done, state in rounds.train(air, training_of(here, pool), pool.initial_parameters):
            if state.round > given.rounds // 2 and state.round % 20 == 0:
                measured.append(accuracies(trainer, dataset, done.parameters))
        patch.stopall()
    return np.mean(measured, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--loss", type=float, default=0.3)
    given = parser.parse_args()
    cases = {"nothing is lost": (0.0, True), "lost, not corrected": (given.loss, False),
             "lost, corrected": (given.loss, True)}  # fmt: skip
    lines = [
        "# Lost updates",
        "",
        f"`python -m benchmarks.losses --seeds {given.seeds} --rounds {given.rounds} --loss "
        f"{given.loss}`: accuracy in per cent; devices of the classes 0 to 4 lose updates.",
        "",
        "| | classes 0 to 4 | classes 5 to 9 | largest change of a class |",
        "|---|---|---|---|",
    ]
    base = None
    for words, (loss, corrected) in cases.items():
        runs = [measure(seed, given, loss, corrected) for seed in range(1, given.seeds + 1)]
        found = 100.0 * np.mean(runs, axis=0)
        base = found if base is None else base
        change = (found - base)[np.argmax(np.abs(found - base))]
        half = f"{found[:5].mean():.1f} | {found[5:].mean():.1f}"
        lines.append(f"| {words} | {half} | {change:+.1f} |")
        print(lines[-1], flush=True)
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
