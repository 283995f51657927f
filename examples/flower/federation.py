"""Run the app of this folder on one machine, offline: in simulation, or as real processes with TLS.

    python federation.py simulate --out ../flower-runs/simulated
    python federation.py deploy --out ../flower-runs/deployed

Everything listens on loopback alone, and whatever was started is stopped at the end.
"""

import argparse
import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

APP = Path(__file__).parent
BIN = Path(sys.executable).parent
HOST = "127.0.0.1"


def free_port():
    """A port that nobody listens on."""
    with socket.create_server((HOST, 0)) as server:
        return server.getsockname()[1]


def make_certificates(folder):
    """A certificate authority of our own, and a certificate for loopback; returns their files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def name(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject, issuer, key):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = (
        builder("example authority", "example authority", root_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), False)
        .sign(root_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
    own = (
        builder("superlink", "example authority", key)
        .add_extension(names, critical=False)
        .add_extension(authority, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    files = {each: folder / f"{each}.pem" for each in ("ca", "server", "key")}
    files["ca"].write_bytes(root.public_bytes(pem))
    files["server"].write_bytes(own.public_bytes(pem))
    files["key"].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    files["key"].chmod(0o600)
    return files


class Federation:
    """A SuperLink and SuperNodes as processes of this machine, and a place for their files."""

    def __init__(self, folder, *, simulation=False):
        self.folder = Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.simulation, self.port = simulation, free_port()
        self.tls = None if simulation else make_certificates(self.folder)
        self.processes = {}
        self.environment = os.environ | {
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",  # Flower starts its own programs
        }
        (self.folder / "flwr").mkdir(exist_ok=True)
        trust = f'root-certificates = "{self.tls["ca"]}"' if self.tls else "insecure = true"
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n'
            f'[superlink.here]\naddress = "{HOST}:{self.port}"\n{trust}\n'
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.stop(name)

    def _start(self, name, *command):
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [str(BIN / command[0]), *map(str, command[1:])],
            env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        log.close()
        return self.processes[name]

    def start_superlink(self):
        """The server's end: it takes runs, and starts the server app."""
        secure = (
            ["--ssl-ca-certfile", self.tls["ca"], "--ssl-certfile", self.tls["server"],
             "--ssl-keyfile", self.tls["key"]]
            if self.tls
            else ["--insecure"]
        )  # fmt: skip
        kind = ["--simulation"] if self.simulation else []
        self._start(
            "superlink", "flower-superlink", "--host", HOST, "--port", self.port, *secure, *kind,
            "--disable-runtime-dependency-installation",
            "--database", self.folder / "superlink.db",  # so that it can be started again
        )  # fmt: skip
        self._wait_until_it_answers()

    def _wait_until_it_answers(self):
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((HOST, self.port), timeout=1).close()
                return
            if time.monotonic() > until or self.processes["superlink"].poll() is not None:
                raise RuntimeError(f"the SuperLink did not start; see {self.folder}/superlink.log")
            time.sleep(0.2)

    def start_supernode(self, part, parts, name=None):
        """A node with one part of the data."""
        trust = ["--root-certificates", self.tls["ca"]] if self.tls else ["--insecure"]
        return self._start(
            name or f"supernode-{part}", "flower-supernode", *trust,
            "--superlink", f"{HOST}:{self.port}", "--port", free_port(),
            "--node-config", f"partition-id={part} num-partitions={parts}",
        )  # fmt: skip

    def stop(self, name, how=signal.SIGTERM):
        """End a process; and what it started, which Flower puts into sessions of their own."""
        process = self.processes.pop(name)
        family = descendants(process.pid)
        _signal(process.pid, how)
        if how != signal.SIGKILL:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        for pid in [process.pid, *family]:
            _signal(pid, signal.SIGKILL)
        process.wait()

    def begin(self, nodes=None, **config):
        """Hand the app in and return the process that waits for its end."""
        settings = " ".join(
            f"{name.replace('_', '-')}={_toml(value)}" for name, value in config.items()
        )
        command = ["flwr", "run", APP, "here", "--stream", "--run-config", settings]
        if nodes is not None:
            resources = "client-resources-num-cpus=1 init-args-num-cpus=2"
            command += ["--federation-config", f"num-supernodes={nodes} {resources}"]
        return self._start("run", *command)


def descendants(pid, called=""):
    """Processes that a process has started, directly or not, whose command holds a word."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    found, ancestors = [], {pid}
    while new := [row for row in rows if int(row[1]) in ancestors and int(row[0]) not in ancestors]:
        ancestors |= {int(row[0]) for row in new}
        found += new
    return [int(row[0]) for row in found if called in row[-1]]


def _signal(pid, how):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)


def _toml(value):
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def main():
    parser = argparse.ArgumentParser(description="Run the app of this folder on one machine.")
    parser.add_argument("how", choices=["simulate", "deploy"])
    parser.add_argument("--out", required=True, type=Path, help="run folder; run again to go on")
    parser.add_argument("--rounds", type=int, default=5, help="in all [5]")
    parser.add_argument("--nodes", type=int, help="[10 in simulation, 3 in deployment]")
    given = parser.parse_args()
    if APP.resolve() in (given.out.resolve(), *given.out.resolve().parents):
        parser.error(
            f"--out {given.out} lies in the folder of the app, and Flower would send it to every "
            "node with the app; name a place outside, such as ../flower-runs/simulated"
        )
    simulation = given.how == "simulate"
    nodes = given.nodes or (10 if simulation else 3)
    work = given.out.absolute().parent / f".{given.out.name}-processes"
    with Federation(work, simulation=simulation) as federation:
        federation.start_superlink()
        for part in range(0 if simulation else nodes):
            federation.start_supernode(part, nodes)
        run = federation.begin(
            nodes if simulation else None,
            folder=given.out.absolute(), num_rounds=given.rounds, min_nodes=nodes,
        )  # fmt: skip
        print(f"{nodes} nodes, {given.rounds} rounds; their words are in {work}")
        code = run.wait()
    finished = (given.out / "model.npz").is_file()
    print(f"the run is in {given.out}" if finished else f"the run did not end; see {work}/run.log")
    sys.exit(code or not finished)


if __name__ == "__main__":
    main()
