"""Processes that are killed at random, over and over, until what they do is done."""

import importlib.util
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from tests.chaos.child import HarmError, child, prepared, trial
from tests.chaos.commands import Command, tree

from fedsched.runs.runlog import read_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower" / "federation.py"
PATIENCE_S = 900  # for anything: beyond it something hangs


def kill_training(root, kills, rng):
    """A training in this process; how many kills it took."""
    words, done = ("run", "long.toml", "--out", "r"), 0
    command = Command("training", words)
    before = prepared(root, command)
    began = time.monotonic()
    place, (code, *_) = trial(root, before, command, 0, 0)
    whole_s, expected = time.monotonic() - began, tree(place)
    if code != 0:
        raise HarmError("training does not end")
    while done < kills:
        shutil.rmtree(place)
        shutil.copytree(before, place)
        code = -signal.SIGKILL
        while code == -signal.SIGKILL:
            # Sooner or later: a kill before the first checkpoint brings nothing forward.
            code, _, text = child(place, words, lifetime_s=rng.uniform(0.0, 0.7 * whole_s))
            done += code == -signal.SIGKILL
        if code != 0 or tree(place) != expected:
            raise HarmError(f"a killed training ended with {code} and other bits: {text[-2000:]}")
    return done


def kill_sweep(root, kills, engine, rng):
    """A sweep whose processes are all killed together; how many kills it took."""
    place, done = prepared(root, Command("sweep", ())), 0
    words = [sys.executable, "-m", "fedsched", "run", "sweep.toml"]
    given = {"cwd": place, "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    whole = subprocess.run([*words, "--out", "whole", "--workers", "2"], check=False, **given)
    if whole.returncode:
        raise HarmError(f"a sweep ended with {whole.returncode}: {whole.stderr[-2000:]}")
    expected, code, whole_s = tree(place / "whole"), None, math.inf
    for number in range(3 * kills + 2):
        began = time.monotonic()
        sweep = subprocess.Popen(
            [*words, "--engine", engine, "--out", "r"], start_new_session=True, **given
        )
        if done < kills and 0 < number <= 3 * kills:  # the first is not disturbed
            try:
                sweep.wait(rng.uniform(0.2, 0.9) * whole_s)
            except subprocess.TimeoutExpired:
                os.killpg(sweep.pid, signal.SIGKILL)
                done += 1
        _, said = sweep.communicate(timeout=PATIENCE_S)
        whole_s = time.monotonic() - began if number == 0 else whole_s
        if (code := sweep.returncode) not in (0, -signal.SIGKILL):
            raise HarmError(f"{engine}: a sweep ended with {code}: {said[-2000:]}")
        if code == 0 and tree(place / "r") != expected:
            raise HarmError(f"{engine}: a killed sweep ended with other bits")
        if code == 0 and done < kills:
            shutil.rmtree(place / "r")
        elif code == 0:
            return done
    raise HarmError(f"{engine}: a sweep did not end")


# --- Flower's processes ---------------------------------------------------------------------------

SETTINGS = {"num_rounds": 4, "min_nodes": 3, "draws": 3, "max_age_rounds": 100, "timeout_s": 150}


def _example():
    spec = importlib.util.spec_from_file_location("federation", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _decided(folder):
    """What a run of Flower decided and learnt, to the bit."""
    log = read_run(folder)
    if not (log.finished and log.verified):
        raise HarmError(f"{folder.name}: a run of Flower is not finished, or cannot be verified")
    with np.load(folder / "model.npz") as model:
        learnt = {name: model[name].tobytes() for name in model.files if name != "run"}
    return [log.lists(name) for name in ("device", "weight", "power_w")], learnt


def _strike(example, federation, rng):
    """Kill the whole of the server's end, or its app alone; what it was."""
    link = federation.processes["superlink"].pid
    apps = example.descendants(link, "flwr-serverapp")
    if apps and rng.random() < 0.5:
        for app in apps:
            os.kill(app, signal.SIGKILL)
        federation.stop("run", signal.SIGKILL)
        return "server app"
    federation.stop("superlink", signal.SIGKILL)
    federation.stop("run", signal.SIGKILL)
    federation.start_superlink()
    return "SuperLink"


def kill_deployment(root, kills, rng):
    """A deployment with TLS whose server is killed; how many kills it took."""
    example, place, done = _example(), root / "deployment", 0
    shutil.rmtree(place, ignore_errors=True)
    with example.Federation(place / "processes") as federation:
        federation.start_superlink()
        for part in range(3):
            federation.start_supernode(part, 3)
        began = time.monotonic()
        if federation.begin(folder=place / "whole", **SETTINGS).wait(PATIENCE_S):
            raise HarmError("a deployment does not end")
        whole_s, expected = time.monotonic() - began, _decided(place / "whole")
        while True:
            run = federation.begin(folder=place / "cut", **SETTINGS)
            try:
                code = run.wait(rng.uniform(0.2, 0.8) * whole_s if done < kills else PATIENCE_S)
            except subprocess.TimeoutExpired:
                _strike(example, federation, rng)
                done += 1
                continue
            if code:
                words = (federation.folder / "run.log").read_text(errors="replace")
                raise HarmError(f"a killed deployment ended with {code}: {words[-2000:]}")
            if _decided(place / "cut") != expected:
                raise HarmError("a killed deployment ended with other bits")
            if done >= kills:
                return done
            shutil.rmtree(place / "cut")
