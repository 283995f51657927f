"""The engine ray, on a real cluster of two nodes that lives on loopback addresses."""

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fedsched.errors import InputError, MissingExtraError
from fedsched.runs import engines
from fedsched.runs.checkpoint import rounds_done
from fedsched.runs.engines import Job, run_jobs
from fedsched.runs.experiment import run
from fedsched.runs.scenario import run_name, scenario_from
from fedsched.runs.scenario_file import load_scenarios

pytestmark = pytest.mark.slow

ROUNDS = 300
GRID = f"""
[run]
rounds = {ROUNDS}
eval_every = 50
checkpoint_every = 5
[channel]
devices = 20
[policy]
kind = "uniform"
draws = 4
[training]
model = "softmax"
steps = 2
batch_size = 8
[sweep]
policy = ["uniform", "lyapunov"]
seeds = [1, 2]
"""
ONE = {"run": {"rounds": 2, "seed": 1}, "channel": {"devices": 4}, "policy": {"kind": "uniform"},
       "training": {"model": "softmax"}}  # fmt: skip

# Addresses of this machine: Ray would swap 127.0.0.1 for that of a network card. Two of them, so
# that the driver cannot take the node that is to be killed for its own.
HEAD, WORKER = "127.0.0.2", "127.0.0.3"
PATIENCE_S = 240.0

linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs /proc and the loopback addresses of Linux"
)


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def wait_until(something, deadline, what):
    while not (found := something()):
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)
    return found


def session(leader):
    """Live processes of the session that a process leads."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:  # ended in the meantime
            continue
        if int(fields[3]) == leader.pid and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def kill_session(leader, deadline):
    """Kill all processes of a node at once, as a power cut would."""

    def gone():
        for pid in session(leader):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not session(leader)

    wait_until(gone, deadline, "a node to be gone")
    leader.wait()


def held_runs(node):
    """Run folders whose lock a process of the node has open."""
    for pid in session(node):
        try:
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        yield from (Path(link).parent for link in links if link.endswith("/.lock"))


def ray_environment(home):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {
        "HOME": str(home),
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": str(home),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        # A node that is gone is given up after about three seconds in place of about fifteen.
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_failure_threshold": "3",
    }


@contextmanager
def node(home, name, environment, *options):
    """A Ray node of one core: all of its processes in a session, all of its files in a folder."""
    place = home / name
    place.mkdir()
    command = [
        sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block",
        "--num-cpus=1", "--num-gpus=0", "--object-store-memory=80000000", "--disable-usage-stats",
        "--include-log-monitor=false", f"--temp-dir={place}", f"--plasma-directory={place}",
        *options,
    ]  # fmt: skip
    with (place / "output").open("w") as output:
        leader = subprocess.Popen(
            command, env=environment, cwd=place, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield leader
    finally:
        kill_session(leader, time.monotonic() + 30.0)


@contextmanager
def cluster(home, environment, deadline):
    """A head and a worker node; the address, and the worker to be killed."""
    port = free_port(HEAD)
    with ExitStack() as nodes:
        head = nodes.enter_context(
            node(
                home, "h", environment, "--head", f"--node-ip-address={HEAD}", f"--port={port}",
                f"--ray-client-server-port={free_port(HEAD)}", "--include-dashboard=false",
            )
        )  # fmt: skip

        def answers():
            assert head.poll() is None, (home / "h" / "output").read_text()
            with socket.socket() as probe:
                return probe.connect_ex((HEAD, port)) == 0

        wait_until(answers, deadline, "the head of the cluster")
        worker = nodes.enter_context(
            node(
                home, "w", environment, f"--node-ip-address={WORKER}", f"--address={HEAD}:{port}"
            )
        )  # fmt: skip
        yield f"{HEAD}:{port}", worker


@pytest.fixture
def home():
    # Not tmp_path: Ray's sockets are in it, and the path of a socket has 107 characters at most.
    place = Path(tempfile.mkdtemp(prefix="fs-", dir="/tmp"))
    yield place
    shutil.rmtree(place)


@linux_only
def test_a_grid_that_loses_a_node_ends_with_the_bits_of_the_local_engine(tmp_path, home):
    deadline = time.monotonic() + PATIENCE_S
    (tmp_path / "grid.toml").write_text(GRID)
    jobs = [
        Job(name=run_name(each), scenario=each, folder=tmp_path / "local" / run_name(each))
        for each in load_scenarios(tmp_path / "grid.toml")
    ]
    environment = ray_environment(home)
    with cluster(home, environment, deadline) as (address, worker):
        # The folder by a relative name: workers of the cluster start in places of their own.
        command = [sys.executable, "-m", "fedsched", "run", "grid.toml", "--out", "ray"]
        with subprocess.Popen(
            [*command, "--engine", "ray", "--address", address], cwd=tmp_path, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as driver:  # fmt: skip
            try:

                def lost_run():
                    assert driver.poll() is None, driver.stdout.read()
                    for folder in held_runs(worker):
                        if 5 <= rounds_done(folder) < ROUNDS - 100:
                            return folder

                lost = wait_until(lost_run, deadline, "a run on the worker to get on")
                begun = (lost / "manifest.json").stat()
                kill_session(worker, deadline)
                assert not (lost / "model.npz").exists()
                assert all(outcome.failure is None for outcome in run_jobs(jobs))
                said, _ = driver.communicate(timeout=deadline - time.monotonic())
            finally:
                driver.kill()
    assert driver.returncode == 0, said
    assert "wrote 4 of 4 runs" in said
    # A manifest is written when a run begins: this one did not begin again.
    assert (lost / "manifest.json").stat().st_mtime_ns == begun.st_mtime_ns
    for job in jobs:
        for name in ("rounds.arrows", "model.npz"):
            theirs = tmp_path / "ray" / job.name / name
            assert theirs.read_bytes() == (job.folder / name).read_bytes(), f"{job.name} {name}"
    assert not (home / ".ray").exists()


LOCAL = """
import socket
from fedsched.runs import engines
ray = engines._ray("local")
engines._connect(ray, "local")
(node,) = ray.nodes()
ports = [node["NodeManagerPort"], node["ObjectManagerPort"]]
ports.append(int(ray.get_runtime_context().gcs_address.rpartition(":")[2]))
for port in ports:
    socket.create_connection(("127.0.0.1", port), timeout=10).close()
    try:  # an address of loopback too, which answers only if all addresses do
        socket.create_connection(("127.0.0.2", port), timeout=10).close()
    except ConnectionRefusedError:
        print("refused")
ray.shutdown()
"""


@linux_only
def test_a_cluster_of_this_machine_alone_listens_on_loopback_alone(home):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOCAL],
        env=ray_environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.split() == ["refused"] * 3, done.stdout + done.stderr


def test_without_ray_the_error_names_the_extra(monkeypatch, tmp_path):
    # Or what the engine sets would stay set.
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setitem(sys.modules, "ray", None)
    job = Job(name="one", scenario=scenario_from(ONE), folder=tmp_path)
    with pytest.raises(MissingExtraError, match=r"the engine ray needs .*fedsched\[ray\]"):
        next(run_jobs([job], engine="ray"))


def test_an_address_where_nobody_answers_is_refused_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    job = Job(name="one", scenario=scenario_from(ONE), folder=tmp_path)
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    with pytest.raises(InputError, match=f"the Ray cluster at '{address}' cannot be joined"):
        next(run_jobs([job], engine="ray", address=address))


def test_a_run_is_given_up_once_it_has_cost_several_workers_without_getting_on(tmp_path):
    job = Job(name="one", scenario=scenario_from(ONE), folder=tmp_path)
    attempts = engines._Attempts(job=job)
    left = []
    for checkpoint in (None, "checkpoint-000000005.npz", None, None):
        if checkpoint is not None:
            (tmp_path / checkpoint).touch()
        attempts = attempts.after_loss()
        left.append(attempts.left)
    assert left == [2, 2, 1, 0]


def test_a_folder_held_by_a_worker_that_is_dying_is_waited_for(tmp_path):
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="is being run by another process"):
            run(scenario_from(ONE), tmp_path, wait_s=0.3)
        death = threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN))
        death.start()
        assert run(scenario_from(ONE), tmp_path, wait_s=60.0).finished
        death.join()
