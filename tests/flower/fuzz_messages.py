"""Replies that say anything, to a real strategy: whatever comes, the run goes on and stays finite.

    python -m tests.flower.fuzz_messages --messages 100000

Every node but one changes its replies at random: names, rounds, gains, losses, metrics, headers,
bytes, shapes, types and records. The same seed makes the same replies.
"""

import argparse
import logging
import math
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvgM
from tests.flower.loopback import MODEL, Loopback, app, arrays, run

from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.runlog import read_run

NODES, ROUNDS = 25, 10
CASES = (
    ("lyapunov", None),
    ("oort", None),
    ("full", FedAdam),
    ("power-of-choice", None),
    ("full", FedAvgM),
    ("clustered-similarity", None),
    ("full", None),
)
TEXTS = ("", "0", "1", "9" * 5000, "x" * 100_000, "a\0", "\n", "\ud7ff", "²", "٣", "ſ" * 128, " ")
WHOLE = (0, 1, -1, 2**31, 2**31 - 1, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
REAL = (0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e100, 1e154, 1e200, 1.7e308, 5e-324)
NUMBERS = (1e10, 1e30, 3e38, -3.4e38, 1e155, 1e300, math.nan, math.inf, -0.0, 1e-45)
TYPES = ("f2", "f4", ">f4", "f8", "i1", "u8", "c8", "?", "S3", "U2", "g", "M8[s]", "O", "V5", "x")


def pick(rng, among):
    return among[int(rng.integers(len(among)))]


def scalar(rng):
    """Any value that a record can hold."""
    value = pick(rng, (*TEXTS, *WHOLE, *REAL, b"\0" * 9, True))
    return [value] * int(rng.integers(1, 4)) if rng.random() < 0.2 else value


def header(rng, array):
    """The bytes of an array, with something wrong in them."""
    count = pick(rng, (0, 1, 2, 10**6, 10**12, 2**63, -1))
    kind, shape = pick(rng, TYPES), pick(rng, ("(2,)", "(2, 3)", "()", f"({count},)", "(2", "2"))
    order = pick(rng, ("True", "False", "None"))
    text = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}"
    text = pick(rng, (text, text, text[:-3], "(" * 900, text + " " * 40_000, "{}", "[]"))[:60_000]
    version = bytes([pick(rng, (0, 1, 2, 3, 255)), 0])
    size = len(text).to_bytes(4 if version[0] > 1 else 2, "little")
    body = b"\0" * pick(rng, (0, 4, 8, 24, 5000))
    made = b"\x93NUMPY" + version + size + text.encode() + body
    cut = array.data[: int(rng.integers(len(array.data) + 1))]
    flipped = bytearray(array.data)
    flipped[int(rng.integers(len(flipped)))] ^= 1 << int(rng.integers(8))
    zipped = b"PK\x03\x04" + rng.bytes(50)
    return pick(rng, (made, made, made, cut, bytes(flipped), zipped, rng.bytes(60), b""))


def change_arrays(rng, content):
    record = dict(content.get("arrays", {}))
    if not record:
        return
    name = pick(rng, list(record))
    what = int(rng.integers(6))
    if what == 0:
        data = header(rng, record[name])
        kind = pick(rng, ("numpy.ndarray", "numpy.ndarray", "pickle"))
        record[name] = Array(dtype="float32", shape=(2,), stype=kind, data=data)
    elif what == 1:
        flat = MODEL[name].astype(np.float64).ravel()
        flat[int(rng.integers(flat.size))] = pick(rng, NUMBERS)
        record[name] = Array(flat.reshape(MODEL[name].shape))
    elif what == 2:
        with np.errstate(all="ignore"):
            record[name] = Array(np.full(MODEL[name].shape, pick(rng, NUMBERS)).astype(np.float32))
    elif what == 3:
        shape = pick(rng, ((), (1,), (3, 2), (2, 3, 1), (0,), (1000,)))
        record[name] = Array(np.zeros(shape, pick(rng, ("f4", "f8", "i8", "U3", "?", "c16"))))
    elif what == 4:
        del record[name]
    else:
        record[pick(rng, TEXTS)] = record[name]
    content["arrays"] = ArrayRecord(record)


def change_values(rng, content):
    name = pick(rng, [*content, "fedsched", "metrics", "config"])
    record = content.get(name)
    if isinstance(record, ArrayRecord) or record is None:
        return
    key = pick(rng, [*record, *TEXTS[:4], "value", "num-examples"])
    try:
        record[key] = scalar(rng)
    except TypeError:  # a metric is a number
        record[key] = pick(rng, (*WHOLE, *REAL))


def change_records(rng, content):
    made = {"a": ArrayRecord(), "m": MetricRecord({"num-examples": 1}), "c": ConfigRecord()}
    name = pick(rng, [*content, "more", "fedsched", "arrays", "metrics"])
    if name in content and rng.random() < 0.5:
        del content[name]
    else:
        content[name] = made[pick(rng, list(made))]


def fuzzing(rng, count):
    """A way to reply with anything; it counts what it does."""

    def reply(message, honest):
        count[0] += 1
        if rng.random() < 0.05:
            return (
                None
                if rng.random() < 0.2
                else Message(Error(2, pick(rng, TEXTS)), reply_to=message)
            )
        answer = honest()
        for _ in range(int(rng.integers(1, 4))):
            pick(rng, (change_arrays, change_arrays, change_values, change_values, change_records))(
                rng, answer.content
            )
        return answer

    return reply


def fuzz(folder, case, seed):
    """One run under fire; how many replies were changed."""
    policy, optimiser = CASES[case % len(CASES)]
    rng, count = np.random.default_rng([seed, case]), [0]
    client = app(feedback=lambda m, c, kind: 1.0 + int(c.node_config["partition-id"]))  # noqa: ARG005
    grid = Loopback(NODES, client)
    for node_id in list(grid.nodes)[1:]:
        grid.fail(fuzzing(rng, count), node_id=node_id)
    _, done = run(
        grid, folder, ROUNDS, policy, draws=NODES, fraction_evaluate=1.0,
        optimiser=None if optimiser is None else optimiser(),
    )  # fmt: skip
    model, saved = arrays(done.arrays), read_checkpoint(folder)
    assert read_run(folder).rounds == ROUNDS
    for name, x in MODEL.items():
        assert model[name].shape == x.shape and model[name].dtype == x.dtype
        assert np.isfinite(model[name]).all()
    for name, value in saved.memory.items():
        if name.startswith(("model.", "optimiser.")) or name == "spent_w":
            assert np.isfinite(value).all(), name
    assert all(0 < len(n) <= 128 and n.isprintable() for n in saved.memory["fleet.name"].tolist())
    return count[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    done, case, began = 0, 0, time.monotonic()
    while done < given.messages:
        with tempfile.TemporaryDirectory() as folder:
            try:
                done += fuzz(Path(folder), case, given.seed)
            except Exception:
                print(f"case {case} of seed {given.seed} did harm")  # noqa: T201
                raise
        case += 1
    seconds = time.monotonic() - began
    print(f"{done} changed replies in {case} runs and {seconds:.0f} s: every run ended, finite")  # noqa: T201


if __name__ == "__main__":
    main()
