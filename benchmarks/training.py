"""Local training beside a bare loop and two libraries; ``python -m benchmarks.training``.

Every engine does the same rounds (see ``benchmarks.peers.workload``) in processes of its own and
waits between rounds at a gate. The rounds of the engines take turns in an order drawn anew each
time, so that whatever else the machine does falls on all alike; the figure of merit is the median
over the turns of the ratio to the bare loop in the same turn.
"""

import contextlib
import json
import os
import platform
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.peers import processes
from benchmarks.peers.environments import Environment, install
from benchmarks.peers.workload import PROCESSES, SEED, STEPS_A_ROUND
from fedsched.errors import InputError
from fedsched.learning.cifar10 import read_cifar10
from fedsched.randomness import stream

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
WARM_UP_ROUNDS = 2
TURNS = 24
LEAST_TURNS = 5
TIME_LIMIT_S = 420.0  # from the first start to the last turn, installing left out
START_LIMIT_S = 120.0
ROUND_LIMIT_S = 120.0
MEMORY_LIMIT_MIB = 1024.0
LEAST_RATIO = 0.95
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Something that does the workload."""

    name: str
    label: str
    arguments: tuple[str, ...]  # after the interpreter; the gate's address comes last
    gates: int  # processes that wait at the gate
    environment: Environment | None = None  # None is the one this script runs in


BARE = Engine(
    name="bare",
    label="bare PyTorch loop",
    arguments=("-m", "benchmarks.peers.bare_workload", "same"),
    gates=PROCESSES,
)
OWN = Engine(
    name="fedsched",
    label="fedsched",
    arguments=("-m", "benchmarks.peers.own_workload"),
    gates=1,
)
ENGINES = (
    BARE,
    OWN,
    Engine(
        name="pfl",
        label="pfl",
        arguments=(
            *("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"),
            *("-m", "benchmarks.peers.pfl_workload"),
        ),
        gates=PROCESSES,
        environment=Environment(name="pfl", requirement="pfl", package="pfl"),
    ),
    Engine(
        name="flower",
        label="Flower simulation",
        arguments=("-m", "benchmarks.peers.flower_workload"),
        gates=1,
        environment=Environment(name="flower", requirement="flwr[simulation]", package="flwr"),
    ),
    Engine(
        name="textbook",
        label="textbook PyTorch loop",
        arguments=("-m", "benchmarks.peers.bare_workload", "textbook"),
        gates=PROCESSES,
    ),
)


class EngineError(Exception):
    """An engine did not start, ended, or did other work than asked."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One round of one engine."""

    wall_s: float
    cpu_s: float  # of all processes of the engine
    others_cores: float  # cores that everything else on the machine kept busy


class Running:
    """An engine whose processes wait at the gate."""

    def __init__(self, engine: Engine, python: str, folder: Path) -> None:
        self.engine = engine
        address = str(folder / engine.name)
        self._log = folder / f"{engine.name}.log"
        self._gates: list[socket.socket] = []
        path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        with socket.socket(socket.AF_UNIX) as listener, self._log.open("wb") as log:
            listener.bind(address)
            listener.listen(engine.gates)
            self._process = subprocess.Popen(
                (python, *engine.arguments, address),
                cwd=folder,
                env=os.environ | ENVIRONMENT | {"PYTHONPATH": path, "FLWR_HOME": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                deadline = time.perf_counter() + START_LIMIT_S
                while len(self._gates) < engine.gates:
                    self._until_readable([listener], deadline)
                    self._gates.append(listener.accept()[0])
                self._arrivals(deadline)
                for _ in range(WARM_UP_ROUNDS):
                    self.round()
            except BaseException:
                self.stop()
                raise

    def round(self) -> Measured:
        cpu, busy, start = processes.cpu_s(self._process.pid), processes.busy_s(), _now()
        for gate in self._gates:
            gate.sendall(b"g")
        steps = self._arrivals(start + ROUND_LIMIT_S)
        wall = _now() - start
        cpu, busy = processes.cpu_s(self._process.pid) - cpu, processes.busy_s() - busy
        if steps != STEPS_A_ROUND:
            raise EngineError(f"{self.engine.label} did {steps} steps, not {STEPS_A_ROUND}")
        return Measured(wall_s=wall, cpu_s=cpu, others_cores=max(0.0, (busy - cpu) / wall))

    def peak_rss_mib(self) -> list[float]:
        return processes.peak_rss_mib(self._process.pid)

    def stop(self) -> None:
        """Let the engine end by itself; end what is left of it, process by process."""
        members = processes.tree(self._process.pid)
        for gate in self._gates:
            gate.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20.0 if self._gates else 0.0)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _arrivals(self, deadline: float) -> int:
        """Wait until every process stands at the gate; the steps they report, added up."""
        steps, waiting = 0, list(self._gates)
        while waiting:
            for gate in self._until_readable(waiting, deadline):
                if not (message := gate.recv(64)):
                    raise EngineError(f"{self.engine.label} ended: {self._last_words()}")
                steps += int(message)
                waiting.remove(gate)
        return steps

    def _until_readable(self, sockets: list[socket.socket], deadline: float) -> list[socket.socket]:
        while True:
            # In slices, to notice a process that ends before it reaches the gate.
            if ready := select.select(sockets, [], [], 0.5)[0]:
                return ready
            if self._process.poll() is not None:
                raise EngineError(f"{self.engine.label} ended: {self._last_words()}")
            if _now() > deadline:
                raise EngineError(f"{self.engine.label} took too long: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it printed nothing"


def measure():
    """Run all engines in turns; a dictionary ready for JSON."""
    if not Path("/proc/stat").exists():
        raise InputError("the training benchmark reads processor time from /proc: it needs Linux")
    read_cifar10()  # or say right away how to get it
    load = os.getloadavg()[0]
    missing, versions, rounds = {}, {}, {}
    with contextlib.ExitStack() as stack:
        # Short, because the addresses of sockets must be.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedsched")))
        running = []
        interpreters = {}
        for engine in ENGINES:
            try:
                interpreters[engine], versions[engine.name] = _interpreter(engine)
            except EngineError as error:
                missing[engine.name] = str(error)
                print(f"left out: {engine.label}: {error}", flush=True)
        begin = _now()
        for engine, python in interpreters.items():
            print(f"starting: {engine.label}", flush=True)
            try:
                started = Running(engine, python, folder)
            except EngineError as error:
                if engine in (BARE, OWN):
                    raise
                missing[engine.name] = str(error)
                print(f"  left out: {error}", flush=True)
                continue
            stack.callback(started.stop)
            running.append(started)
            rounds[engine.name] = []
        random = stream(SEED, "benchmark-order")
        for turn in range(TURNS):
            if turn >= LEAST_TURNS and _now() - begin > TIME_LIMIT_S:
                break
            for place in random.permutation(len(running)):
                rounds[running[place].engine.name].append(running[place].round())
            print(f"\rturn {turn + 1} of {TURNS}, {_now() - begin:.0f} s", end="", flush=True)
        print()
        memory = {started.engine.name: started.peak_rss_mib() for started in running}
    return {
        "machine": _machine(),
        "load": {"before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
        "turns": len(rounds[BARE.name]),
        "steps_a_round": STEPS_A_ROUND,
        "engines": {
            name: _summary(rounds, name, memory[name]) | {"version": versions[name]}
            for name in rounds
        },
        "missing": missing,
    }


def _interpreter(engine: Engine) -> tuple[str, str]:
    """The Python that runs the engine, and the version of what is measured."""
    if engine.environment is None:
        package = "fedsched" if engine is OWN else "torch"
        return sys.executable, f"{package} {version(package)}"
    try:
        return install(engine.environment)
    except (OSError, subprocess.CalledProcessError) as error:
        what = engine.environment.requirement
        raise EngineError(f"pip could not install {what}; is there a network?") from error


def _summary(rounds, name, memory):
    own, bare = rounds[name], rounds[BARE.name]
    wall = [STEPS_A_ROUND / done.wall_s for done in own]
    cpu = [1000 * done.cpu_s / STEPS_A_ROUND for done in own]
    pairs = list(zip(own, bare, strict=True))
    return {
        "steps_per_s": {"best": max(wall), "median": statistics.median(wall)},
        "cpu_ms_per_step": {"best": min(cpu), "median": statistics.median(cpu)},
        # Of steps per second and of processor time: above one is better than the bare loop.
        "ratio_to_bare": {
            "best": max(wall) * min(done.wall_s for done in bare) / STEPS_A_ROUND,
            "median": statistics.median(b.wall_s / o.wall_s for o, b in pairs),
            "cpu_median": statistics.median(b.cpu_s / o.cpu_s for o, b in pairs),
        },
        "fedsched_to_it": {
            "median": statistics.median(
                it.wall_s / own.wall_s for it, own in zip(own, rounds[OWN.name], strict=True)
            ),
            "cpu_median": statistics.median(
                it.cpu_s / own.cpu_s for it, own in zip(own, rounds[OWN.name], strict=True)
            ),
        },
        "others_cores": statistics.median(done.others_cores for done in own),
        "peak_rss_mib": [round(peak) for peak in memory],
    }


def _machine():
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def as_markdown(result) -> str:
    """The table, and whether the aims are met."""
    lines = [
        f"CIFAR-10, the paper's CNN, rounds of 10 devices x 10 steps at batch 32, {PROCESSES} "
        f"processes of one thread; {result['turns']} turns, one round of each engine a turn in "
        f"random order. {result['machine']['cores']} cores, Python "
        f"{result['machine']['python']}, torch {result['machine']['torch']}; load "
        f"{result['load']['before']} before the engines started. Ratios are medians over the "
        "turns; those of fedsched are above one where it is the faster or the cheaper. The model's "
        "arithmetic and the augmentation are the same code for all but the textbook loop. Every "
        "worker is a session of its own, because Linux may share processors by session: the "
        "launchers of pfl and Flower see to that themselves, for fedsched and the loops this "
        "benchmark does. fedsched's pool alone keeps its workers in one session and gets a smaller "
        "share of a loaded machine than these ratios say.",
        "",
        "| engine | steps/s best | median | to the bare loop | CPU ms/step best | median "
        "| fedsched to it: steps/s | CPU | peak MiB of its processes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for engine in ENGINES:
        if engine.name in result["missing"]:
            lines.append(f"| {engine.label} | {result['missing'][engine.name]} |" + " |" * 7)
            continue
        row = result["engines"][engine.name]
        speed, cpu = row["steps_per_s"], row["cpu_ms_per_step"]
        label = f"{engine.label} ({row['version']})"
        large = [peak for peak in row["peak_rss_mib"] if peak >= 100]
        rest = sum(row["peak_rss_mib"]) - sum(large)
        memory = " + ".join(map(str, large)) + (f" + {rest} in smaller ones" if rest else "")
        lines.append(
            f"| {label} | {speed['best']:.1f} | {speed['median']:.1f} "
            f"| {row['ratio_to_bare']['median']:.3f} | {cpu['best']:.2f} | {cpu['median']:.2f} "
            f"| {row['fedsched_to_it']['median']:.3f} | {row['fedsched_to_it']['cpu_median']:.3f} "
            f"| {memory} |"
        )
    lines += ["", *(f"- {sentence}" for sentence in verdicts(result))]
    return "\n".join(lines)


def verdicts(result) -> list[str]:
    """A sentence for every aim, and for the company the measurement had."""
    own = result["engines"][OWN.name]
    ratio, peak = own["ratio_to_bare"]["median"], own["peak_rss_mib"][0]
    sentences = [
        f"fedsched does {ratio:.3f} of the bare loop's steps per second (aim: at least "
        f"{LEAST_RATIO}): {'met' if ratio >= LEAST_RATIO else 'MISSED'}.",
        f"Its largest process peaks at {peak} MiB (aim: under {MEMORY_LIMIT_MIB:.0f}): "
        f"{'met' if peak < MEMORY_LIMIT_MIB else 'MISSED'}.",
    ]
    for name in ("pfl", "flower"):
        if name in result["engines"]:
            to_it = result["engines"][name]["fedsched_to_it"]["median"]
            sentences.append(
                f"fedsched does {to_it:.3f} of the steps per second of {name} (aim: not behind): "
                f"{'met' if to_it >= 1 else 'MISSED'}."
            )
    others = [row["others_cores"] for row in result["engines"].values()]
    sentences.append(
        f"Everything else on the machine kept {min(others):.1f} to {max(others):.1f} cores busy "
        "during the rounds (median by engine)."
    )
    return sentences


def _now() -> float:
    return time.perf_counter()


def write(result) -> str:
    """Write ``training.json`` and ``training.md``; returns the page."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2)
    (RESULTS / "training.json").write_text(text + "\n", encoding="utf-8")
    page = f"# Local training\n\n{as_markdown(result)}\n"
    (RESULTS / "training.md").write_text(page, encoding="utf-8")
    return page


def main() -> None:
    try:
        print(write(measure()))
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
