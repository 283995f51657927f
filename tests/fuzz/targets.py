"""What is fuzzed: each target tries inputs and counts.

A target is a function of a random generator and a folder of its own, and gives the number of inputs
it has tried. What is wrong may end in an error of fedsched, which is a sentence. Anything else that
is raised, and any answer out of its bounds, is a failure.
"""

import io
import json
import math
import shutil
import sys
import tempfile
import tomllib
import warnings
import zlib
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path

import numpy as np
from tests.flower.fuzz_messages import CASES, fuzz
from tests.solve.fuzz import run as solve

from fedsched.analysis.collect import collect_runs
from fedsched.cli import main
from fedsched.errors import FedschedError
from fedsched.learning.compression import compressor_in, decode, make_compressor
from fedsched.policies import POLICIES, POWERS, Need, make_policy
from fedsched.policies.designs import make_design
from fedsched.radio import make_channel
from fedsched.randomness import Luck
from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.experiment import run
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from
from fedsched.runs.scenario_file import load_scenario
from fedsched.solve.uplink import Uplink
from fedsched.values import Answers, Experience, Observation

REALS = (0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, 1.7e308, math.inf, -math.inf, math.nan)
WHOLES = (0, 1, -1, 2, 7, 100, 2**31, 2**63 - 1, -(2**63), 10**30)
TEXTS = ("", "a", "\0", "\x1b[2J", "²", "x" * 5000, "../..", "uniform", "inf", "nan", "none", "a:b")


def pick(rng, among):
    return among[int(rng.integers(len(among)))]


def mutated(rng, content):
    """Bytes with flips, cuts, copies and noise."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(data) + 1))
        match int(rng.integers(6)):
            case 0 if place < len(data):
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                del data[place:]
            case 2:
                data[place:place] = rng.bytes(int(rng.integers(1, 9)))
            case 3:
                del data[place : place + int(rng.integers(1, 50))]
            case 4:
                data[place:place] = data[: int(rng.integers(1, 50))]
            case _ if place < len(data):
                data[place] = pick(rng, b"\0\xff-.9e,\n\"'[]{}=")
    return bytes(data)


# --- designs and policies ---------------------------------------------------------------------


def designs(rng, folder):
    """Cohorts of every design, of probabilities that are anything in (0, 1]."""
    del folder
    devices, draws = int(rng.integers(1, 60)), int(rng.integers(1, 30))
    share, count = np.full(devices, 1.0 / devices), 0
    for name in ("with-replacement", "independent", "fixed-size"):
        design = make_design(name, draws)
        omega = rng.random(devices) ** float(pick(rng, (1, 8, 60))) + 1e-300
        omega /= omega.sum()
        q = -np.expm1(draws * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
        if name == "fixed-size":
            q = np.full(devices, min(1.0, draws / devices))
        q = np.clip(q, 5e-324, 1.0)
        cohort = design.draw(q, omega if name == "with-replacement" else None, share, rng)
        assert np.all(np.diff(cohort.device) > 0), name
        assert cohort.size == 0 or 0 <= cohort.device[0] <= cohort.device[-1] < devices, name
        assert np.all(cohort.weight > 0.0), name
        if name == "fixed-size":
            assert abs(cohort.size - min(draws, devices)) <= 1, name
        count += 1
    return count


LINK = Uplink(bits=1e6, bandwidth_hz=1e6, noise_w=1.0, max_power_w=40.0)


def policies(rng, folder):
    """Every policy over a few rounds of gains, answers and losses that are hard to bear."""
    del folder
    name, power = pick(rng, list(POLICIES)), pick(rng, list(POWERS))
    devices, rounds = int(rng.integers(1, 20)), int(rng.integers(2, 8))
    draws = int(rng.integers(1, devices + 1))
    given = {"power": power, "draws": draws, "v": 10.0 ** rng.uniform(-3, 6)}
    given |= {"lam": 10.0 ** rng.uniform(-3, 6), "budget_w": 10.0 ** rng.uniform(-3, 1)}
    policy = make_policy(name, uplink=LINK, **given)
    state = policy.init(devices)
    for t in range(rounds):
        gain = 10.0 ** rng.uniform(-1, 1, devices) ** 3 * 10.0 ** rng.uniform(-6, 6)
        gain = np.where(rng.random(devices) < 0.2, np.nan, gain)
        observed = Observation(gain=gain, luck=Luck(int(rng.integers(2**31)), t))
        asked = policy.ask(observed, state).device
        value = 10.0 ** rng.uniform(-30, 30, len(asked))
        answers = Answers(device=asked, value=value)
        decision, state = policy.decide(
            Observation(gain=gain, luck=observed.luck, answers=answers), state
        )
        q, there = decision.probability, ~np.isnan(gain)
        assert np.all((q >= 0.0) & (q <= 1.0)) and np.all(q[~there] == 0.0), name
        cohort = decision.cohort
        assert there[cohort.device].all() and np.all(np.diff(cohort.device) > 0), name
        # A rule with a threshold hears some of its members and gives the others no weight.
        assert np.all((cohort.weight >= 0.0) & np.isfinite(cohort.weight)), name
        power_w = decision.power_w[cohort.device]
        assert np.all((power_w > 0.0) & (power_w <= LINK.max_power_w)), name
        told = 10.0 ** rng.uniform(-20, 20, cohort.size)
        kept = Need.UPDATE in policy.needs and cohort.size
        update = rng.standard_normal((cohort.size, 3)).astype(np.float32) if kept else None
        state = policy.observe(
            state,
            Experience(
                device=cohort.device,
                loss=told,
                square_loss=told**2,
                norm=told,
                weight=cohort.weight,
                update=update,
            ),
        )
        for key, array in state.items():
            assert not np.isinf(array).any() or key.endswith("loss"), (name, key)
    return rounds


# --- files ------------------------------------------------------------------------------------


@cache
def traces():
    """Honest traces by suffix."""
    table = np.random.default_rng(1).exponential(size=(4, 3))
    text = "\n".join(",".join(f"{each:.4f}" for each in row) for row in table)
    named = "device0,device1,device2\n" + text
    long = "round,device,gain\n" + "\n".join(
        f"{t},{n},{table[t, n]:.3f}" for t in range(4) for n in range(3)
    )
    npz = io.BytesIO()
    np.savez(npz, gain=table)
    return (".csv", text.encode()), (".csv", named.encode()), (".csv", long.encode()), (
        ".npz", npz.getvalue(),
    )  # fmt: skip


def trace_files(rng, folder):
    """Traces with damage."""
    suffix, content = pick(rng, traces())
    path = folder / f"trace{suffix}"
    path.write_bytes(mutated(rng, content))
    with suppress(FedschedError):
        channel = make_channel(str(path))
        gain, _ = channel.step(channel.init(rng), rng)
        assert np.all(np.isnan(gain) | (gain > 0.0)) and not np.isinf(gain).any()
    return 1


def payloads(rng, folder):
    """Compressed updates with damage, with and without a checksum that is right."""
    del folder
    compressor, length = pick(rng, compressors()), 40
    honest = compressor.encode(rng.standard_normal(length).astype(np.float32), rng)
    for _ in range(20):
        content = mutated(rng, honest)
        if rng.random() < 0.7 and len(content) >= 24:  # as a liar would, who can compute one
            fields, body = content[:20], content[24:]
            check = zlib.crc32(body, zlib.crc32(fields))
            content = fields + check.to_bytes(4, "little") + body
        for read in (lambda c: compressor.decode(c, length), lambda c: decode(c, length)):
            with suppress(FedschedError):
                assert read(content).shape == (length,)
        with suppress(FedschedError):
            compressor_in(content)
    return 20


@cache
def compressors():
    names = ("2", "3", "4", "8", "ternary", "natural", "topk-0.1", "3-16")
    return tuple(make_compressor(name) for name in names)


SCENARIO = {
    "run": {"rounds": 4, "seed": 1, "eval_every": 2, "checkpoint_every": 2},
    "policy": {"kind": "uniform", "draws": 2},
    "channel": {"devices": 5},
    "uplink": {"access": "tdma"},
    "data": {"name": "digits", "samples": 20, "alpha": 1.0},
    "training": {"model": "softmax", "steps": 1, "batch_size": 4, "learning_rate": 0.1},
}


def scenarios(rng, folder):
    """Scenarios with values of any kind, as tables and as text."""
    table = json.loads(json.dumps(SCENARIO))
    for _ in range(int(rng.integers(1, 4))):
        section = pick(rng, [*table, "sweep", "other"])
        value = pick(rng, (*REALS, *WHOLES, *TEXTS, True, [], [1, 2], {}, {"a": {"b": [1]}}, None))
        inner = table.setdefault(section, {})
        if rng.random() < 0.1 or not isinstance(inner, dict):
            table[section] = value
        else:
            inner[pick(rng, [*inner, "bounds", "compress", "lam", "design", "x"])] = value
    with suppress(FedschedError):
        made = scenario_from({k: v for k, v in table.items() if k != "sweep"})
        assert scenario_from(made.as_dict()) == made
    text = "\n".join(
        f"[{section}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in values.items())
        for section, values in SCENARIO.items()
    )
    path = folder / "s.toml"
    path.write_bytes(mutated(rng, text.encode()))
    with suppress(FedschedError):
        load_scenario(path)
    return 2


@cache
def finished_run(place):
    """A run folder, made once."""
    run(scenario_from(SCENARIO), Path(place) / "honest")
    return Path(place) / "honest"


@cache
def rows_of(folder):
    return repr(read_run(Path(folder)).table.to_pylist())


def run_folders(rng, folder):
    """Run folders with a damaged file, to all that reads them."""
    honest, copy = finished_run(str(folder)), folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(honest, copy)
    names = sorted(path.name for path in copy.iterdir() if path.name != ".lock")
    path = copy / pick(rng, names)
    before = path.read_bytes()
    path.write_bytes(mutated(rng, before))
    try:
        log = read_run(copy)
    except FedschedError:
        log = None
    if log is not None and log.finished:
        assert repr(log.table.to_pylist()) == rows_of(str(honest)), path.name
    collect_runs([copy])
    with suppress(FedschedError):
        read_checkpoint(copy)
    return 1


# --- the command line -------------------------------------------------------------------------

OPTIONS = {
    "schedule": ("--rounds", "--devices", "--seed", "--draws", "--lam", "--v", "--qmin", "--policy",
                 "--bits", "--bandwidth-hz", "--noise-w", "--max-power-w", "--budget-w", "--design",
                 "--channel", "--set", "--json", "--compare"),
    "policies": ("--json", "--x"),
    "times": ("--targets", "--losses", "--computation-s", "--patience", "--json", "--markdown"),
    "report": ("--target", "--patience", "--title", "-o"),
    "pack": ("--out", "--resumable"),
    "bound": ("--devices", "--replay-every", "--json"),
    "data": ("--from", "--cache"),
    "advise": ("--rounds", "--kappa", "--seeds", "--computation-s", "--set"),
    "run": ("--out", "--workers", "--device", "--engine", "--set"),
}  # fmt: skip
VALUES = ("0", "1", "2", "3", "-1", "1e308", "1e-308", "nan", "inf", "", "a", "\x1b[2J", "2.5",
          "uniform", "lyapunov", "heterogeneous", "run.rounds=2", "a.b=c", "policy.kind=auto",
          "tdma", ".", "/", "nothing.toml", "9" * 400, "0.5", "1,2", "digits")  # fmt: skip


def command_lines(rng, folder):
    """Commands with options and values of any kind; each ends with a sentence or well."""
    command = pick(rng, list(OPTIONS))
    words = [command]
    if command == "schedule":
        words += ["--rounds", "2"]
    if command in ("times", "report", "pack", "bound", "advise", "run", "data"):
        words.append(str(folder / "missing") if rng.random() < 0.7 else pick(rng, VALUES))
    for _ in range(int(rng.integers(0, 4))):
        words.append(pick(rng, OPTIONS[command]))
        if rng.random() < 0.9:
            words.append(pick(rng, VALUES))
    if {"9" * 400, "/", "."} & set(words) or "\0" in "".join(words):
        words = [word for word in words if word not in ("/", ".")]
    said, before = io.StringIO(), sys.argv
    sys.argv = ["fedsched", *words]
    try:
        with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main()
    except SystemExit:
        pass
    finally:
        sys.argv = before
    assert "Traceback" not in said.getvalue(), words
    assert "\x1b[2J" not in said.getvalue(), words
    return 1


def toml_texts(rng, folder):
    """Noise that begins like TOML."""
    path = folder / "noise.toml"
    path.write_bytes(b"[run]\nrounds = " + rng.bytes(int(rng.integers(60))))
    with suppress(FedschedError):
        load_scenario(path)
    with suppress(tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        tomllib.loads(path.read_bytes().decode())
    return 1


# --- the rooms that have a fuzzing of their own --------------------------------------------------


def solver(rng, folder):
    """Problems of every kind, three solves each, some of them beside the slow twin."""
    del folder
    problems = 50
    solve(problems, int(rng.integers(2**31)), twin_share=0.005)
    return 3 * problems


def messages(rng, folder):
    """Replies of Flower's nodes that say anything."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        return fuzz(Path(place), int(rng.integers(len(CASES))), int(rng.integers(2**31)))


TARGETS = {  # each with the inputs of a whole run
    "solver": (solver, 450_000),
    "designs": (designs, 100_000),
    "policies": (policies, 60_000),
    "trace files": (trace_files, 30_000),
    "compressed payloads": (payloads, 400_000),
    "scenarios": (scenarios, 60_000),
    "texts of scenarios": (toml_texts, 20_000),
    "run folders": (run_folders, 3_000),
    "command lines": (command_lines, 4_000),
    "messages of Flower": (messages, 30_000),
}
