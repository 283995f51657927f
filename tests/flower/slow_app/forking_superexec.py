"""Flower's SuperExec, but for one thing: it forks client apps in the place of starting them anew.

A client app is a process of its own for every message, and takes a second of a core to start. Ten
nodes with a machine each start theirs side by side; on one machine they would wait for each other.
"""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np  # noqa: F401 - so that those who are forked have it
from flwr.supercore.cli import flower_superexec
from flwr.supercore.superexec.executor import subprocess_executor
from flwr.supernode.cli import flwr_clientapp


def launch(arguments, **streams):
    if arguments[0] != "flwr-clientapp":
        return subprocess.Popen(arguments, **streams)
    if os.fork() == 0:
        code = 1
        try:
            sys.argv = arguments
            flwr_clientapp()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            os._exit(code)
    return None


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    subprocess_executor.subprocess = SimpleNamespace(Popen=launch, DEVNULL=subprocess.DEVNULL)
    flower_superexec()
