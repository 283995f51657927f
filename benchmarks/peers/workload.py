"""The workload all engines share, and the gate at which each waits for its turn.

CIFAR-10 and the paper's CNN: a round is 10 of 100 devices, each 10 steps at batch 32, in two
processes of one thread. The model's arithmetic, a device's samples and the preparation of a
minibatch are the same code for every engine but "textbook".
"""

import os
import socket

import numpy as np

from fedsched.learning.spec import TrainerSpec
from fedsched.randomness import stream

DEVICES = 100
COHORT = 10
STEPS = 10
BATCH = 32
LEARNING_RATE = 0.01
SEED = 1
PROCESSES = 2
STEPS_A_ROUND = COHORT * STEPS

SPEC = TrainerSpec(
    dataset="cifar10",
    model="paper-cnn",
    alpha=float("inf"),
    devices=DEVICES,
    steps=STEPS,
    batch_size=BATCH,
    learning_rate=LEARNING_RATE,
    seed=SEED,
)


class Finished(Exception):  # noqa: N818 - an end, not an error
    """The driver wants no more rounds."""


class Gate:
    """A process's place to wait between rounds.

    A message to the driver is the number of local steps done since the last one; the driver
    answers with one byte when the next round may begin.
    """

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)

    def wait(self, steps_done: int) -> None:
        self._socket.sendall(f"{steps_done}\n".encode())
        if self._socket.recv(1) != b"g":
            raise Finished


def cohort(round_: int) -> np.ndarray:
    return stream(SEED, "sampling", round_).choice(DEVICES, size=COHORT, replace=False)


def own_session() -> None:
    """Make this worker a session of its own, as the launchers of pfl and Flower do with theirs.

    Linux may share the processors by session first (autogroup): on a loaded machine two workers in
    one session get half the share of two workers in two, whatever they compute.
    """
    os.setsid()


def one_thread() -> None:
    """Hold torch to one thread, whatever the engine made of the environment."""
    import torch

    if os.environ.get("OMP_NUM_THREADS") != "1":
        raise RuntimeError("OMP_NUM_THREADS must be 1")
    torch.set_num_threads(1)
