"""Run folders for the tests of the report: made up, seeded, in the format of the run log."""

import copy
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedsched.randomness import stream
from fedsched.runs.manifest import MANIFEST, MODEL, ROUNDS, SCHEMA
from fedsched.runs.runlog import FINISHED, RunLog

SCENARIO = {
    "channel": {"devices": 20, "kind": "heterogeneous"},
    "data": {"alpha": "inf", "name": "digits"},
    "policy": {"draws": 10, "kind": "lyapunov", "lam": 100.0},
    "run": {"eval_every": 1, "rounds": 1, "seed": 1},
    "uplink": {"budget_w": 1.0, "computation_s": 0.0},
}
# Policy, draws: airtime of a round, speed of learning.
KINDS = {
    ("lyapunov", 1): (0.09, 1.0),
    ("lyapunov", 10): (0.4, 1.25),
    ("uniform", 1): (0.1, 0.95),
    ("uniform", 10): (3.0, 1.3),
}


def manifest(kind="lyapunov", draws=10, seed=1, **changes):
    """A manifest; changes are dotted fields with underscores doubled, such as policy__v=10."""
    scenario = copy.deepcopy(SCENARIO)
    scenario["policy"].update(kind=kind, draws=draws)
    scenario["run"]["seed"] = seed
    for name, value in changes.items():
        section, _, field = name.partition("__")
        scenario[section][field] = value
    unread = ["policy.lam"] if kind == "uniform" else []
    versions = {"fedsched": "0.1.0", "numpy": "2.0.0"}
    return {"schema": SCHEMA, "scenario": scenario, "unread": unread, "versions": versions}


def table(*, rounds=60, every=1, seed=1, airtime_s=0.4, speed=1.0, devices=20):
    """A log that learns, with noise: accuracy passes targets and falls back."""
    rng = stream(seed, "report", rounds, int(1000 * airtime_s))
    t = np.arange(rounds)
    measured = (t + 1) % every == 0
    smooth = 0.97 - 0.87 * np.exp(-speed * 5.0 * t / rounds)
    accuracy = np.round(np.clip(smooth + 0.02 * rng.standard_normal(rounds), 0, 1), 4)
    loss = 2.3 * np.exp(-speed * 4.0 * t / rounds) + 0.05 * rng.random(rounds)
    sizes = rng.integers(1, 5, rounds)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    chosen = rng.integers(0, devices, offsets[-1])
    groups = min(10, devices)
    power = 1.0 + 30.0 * (t[:, None] == 0) + 0.1 * rng.random((rounds, groups))
    airtime_s = airtime_s * (0.8 + 0.4 * rng.random(rounds))
    weight = rng.random(offsets[-1])

    def lists(values, ends):
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))

    return pa.table(
        {
            "round": t,
            "airtime_s": airtime_s,
            "test_accuracy": np.where(measured, accuracy, np.nan),
            "test_loss": np.where(measured, loss, np.nan),
            "device": lists(chosen, offsets),
            "group_power_w": lists(power.ravel(), np.arange(rounds + 1) * groups),
            "train_loss": loss**2 * np.add.reduceat(weight, offsets[:-1]),
            "weight": lists(weight, offsets),
        }
    )


def run_log(about, rows, folder="run"):
    """A log as it would be read from a folder."""
    return RunLog(folder=Path(folder), manifest=about, table=rows, finished=True)


def write_run(folder, about, rows, *, finished=True):
    """A run folder."""
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(json.dumps(about), encoding="utf-8")
    with pa.ipc.new_stream(folder / ROUNDS, rows.schema) as writer:
        writer.write_table(rows)
    if finished:
        (folder / MODEL).write_bytes(b"")
    return folder


def as_of_an_earlier_version(folder):
    """Take the names of the run and the checksums off a run folder: earlier versions wrote none."""
    about = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    about = {name: value for name, value in about.items() if name not in ("run", "sha256")}
    (folder / MANIFEST).write_text(json.dumps(about, indent=2, sort_keys=True), encoding="utf-8")
    (folder / FINISHED).unlink(missing_ok=True)
    with pa.ipc.open_stream((folder / ROUNDS).read_bytes()) as reader:
        schema = reader.schema.with_metadata({"fedsched.schema": str(SCHEMA)})
        batches = [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in reader]
    content = b"".join(bytes(each.serialize()) for each in (schema, *batches))
    shift = len(content) - (folder / ROUNDS).stat().st_size
    (folder / ROUNDS).write_bytes(content)
    for path in sorted(folder.glob("checkpoint-*.npz")):
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in arrays.files}
        state = json.loads(str(kept.pop("about")))
        state = {"round": state["round"], "log_length": state["log_length"] + shift,
                 "airtime_s": state["airtime_s"]}  # fmt: skip
        packed = io.BytesIO()
        np.savez(packed, about=np.array(json.dumps(state)), **kept)
        digest = hashlib.sha256(packed.getvalue()).hexdigest()
        path.write_bytes(digest.encode() + b"\n" + packed.getvalue())
    return folder


def write_grid(root, *, seeds=(1, 2, 3), rounds=60, kinds=KINDS):
    """Runs of every kind and seed below one folder."""
    for (kind, draws), (airtime_s, speed) in kinds.items():
        for seed in seeds:
            rows = table(rounds=rounds, seed=seed, airtime_s=airtime_s, speed=speed)
            write_run(root / f"{kind}-m{draws}-seed{seed}", manifest(kind, draws, seed), rows)
    return root
