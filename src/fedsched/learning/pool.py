"""Devices of a round side by side: the same updates, in the same order, with any number of workers.

Workers are processes with one thread each. The parameters of a round and the updates travel
through one block of shared memory: a row for the parameters, and a fixed number of slots for
updates, whatever the size of the cohort. Commands and small results travel through pipes; a pipe
that ends tells a worker that its parent is gone, and the parent that a worker is.
"""

import os
import signal
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import connection, get_context
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import FedschedError, InputError
from fedsched.learning.shared_block import SharedBlock
from fedsched.learning.spec import TrainerSpec
from fedsched.learning.updates import Evaluation, LocalUpdate, add_up

__all__ = ["AbstractTrainingPool", "InProcessPool", "ProcessPool", "training_pool"]

SLOTS_PER_WORKER = 3  # one being filled, one waiting its turn to be read, one to start on
EXIT_TIMEOUT_S = 5.0

Parameters: TypeAlias = NDArray[np.float32]  # of the model, shape (d,)
Devices: TypeAlias = Sequence[int] | NDArray[np.int64]
Shares: TypeAlias = NDArray[np.float64] | None  # of local steps, one a device; None: all of them
Command: TypeAlias = tuple[Any, ...]  # the name of a command and its arguments


class AbstractTrainingPool(ABC):
    """Something that trains the devices of a round and evaluates the model."""

    @property
    @abstractmethod
    def initial_parameters(self) -> Parameters:
        """The model's parameters before the first round, shape (d,)."""

    @abstractmethod
    def train_cohort(
        self, parameters: Parameters, devices: Devices, round: int, work: Shares = None
    ) -> Iterator[LocalUpdate]:
        """Train each device from the same parameters; updates come in the order of ``devices``.

        With ``work`` each takes only that share of its local steps, the first ones.
        """

    @abstractmethod
    def losses(
        self, parameters: Parameters, devices: Devices, round: int, *, whole: bool
    ) -> Iterator[float]:
        """The model's mean loss on each device's data, all of it or one minibatch of it."""

    @abstractmethod
    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy and loss on the test set."""

    @abstractmethod
    def close(self) -> None:
        """Stop the workers and give back their memory; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _each(work: Shares, devices: Devices) -> list[float]:
    return [1.0] * len(devices) if work is None else work.tolist()


def training_pool(spec: TrainerSpec, workers: int) -> AbstractTrainingPool:
    """The pool for a number of workers, at most one a device; one is this process itself.

    Example:
        >>> spec = TrainerSpec(dataset="digits", model="softmax", alpha=1.0, devices=10, steps=2,
        ...                    batch_size=8, learning_rate=0.1, seed=1)
        >>> with training_pool(spec, workers=1) as pool:
        ...     updates = list(pool.train_cohort(pool.initial_parameters, [3, 7], round=0))
        >>> [update.delta.shape for update in updates]
        [(650,), (650,)]
    """
    if workers < 1:
        raise InputError(f"workers must be >= 1, got {workers}")
    workers = min(workers, spec.devices)
    return InProcessPool(spec) if workers == 1 else ProcessPool(spec, workers)


@final
class InProcessPool(AbstractTrainingPool):
    """Trains one device after the other in the calling process."""

    def __init__(self, spec: TrainerSpec) -> None:
        self._trainer = spec.build()

    @property
    def initial_parameters(self) -> Parameters:
        """The model's parameters before the first round, shape (d,)."""
        return self._trainer.initial_parameters.copy()

    def train_cohort(
        self, parameters: Parameters, devices: Devices, round: int, work: Shares = None
    ) -> Iterator[LocalUpdate]:
        """One device after the other."""
        for device, share in zip(devices, _each(work, devices), strict=True):
            yield self._trainer.train(parameters, int(device), round, share)

    def losses(
        self, parameters: Parameters, devices: Devices, round: int, *, whole: bool
    ) -> Iterator[float]:
        """The model's mean loss on each device's data, all of it or one minibatch of it."""
        for device in devices:
            yield self._trainer.loss(parameters, int(device), round, whole=whole)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy and loss on the test set."""
        return self._trainer.evaluate(parameters)

    def close(self) -> None:
        """Nothing to stop."""


@final
class ProcessPool(AbstractTrainingPool):
    """Trains devices in worker processes.

    The calling process itself loads neither the data nor torch. Close it, or use it as a context
    manager; workers also end by themselves when the calling process ends in whatever way.
    """

    def __init__(self, spec: TrainerSpec, workers: int) -> None:
        self._closed = False
        self._memory: SharedBlock | None = None
        self._workers = [_Worker(spec, number) for number in range(workers)]
        try:
            replies = [worker.receive() for worker in self._workers]
            (dimension, self._chunks), *_ = replies
            slots = SLOTS_PER_WORKER * workers
            self._memory = SharedBlock.create(1 + slots, dimension)
            self._rows = self._memory.rows
            self._slots = range(1, 1 + slots)
            for worker in self._workers:
                worker.send("attach", self._memory.name, dimension)
                worker.receive()
            self._memory.forget_name()
            self._workers[0].send("initial", 1)
            self._workers[0].receive()
            self._initial: Parameters = self._rows[1].copy()
        except BaseException:
            self.close()
            raise

    @property
    def initial_parameters(self) -> Parameters:
        """The model's parameters before the first round, shape (d,)."""
        return self._initial.copy()

    def train_cohort(
        self, parameters: Parameters, devices: Devices, round: int, work: Shares = None
    ) -> Iterator[LocalUpdate]:
        """Side by side; updates come in the order of ``devices`` all the same."""
        shares = zip(devices, _each(work, devices), strict=True)
        commands = [("train", int(device), round, share) for device, share in shares]
        for slot, (loss, square_loss, steps) in self._in_order(parameters, commands):
            yield LocalUpdate(
                delta=self._rows[slot].copy(), loss=loss, square_loss=square_loss, steps=steps
            )

    def losses(
        self, parameters: Parameters, devices: Devices, round: int, *, whole: bool
    ) -> Iterator[float]:
        """The model's mean loss on each device's data, all of it or one minibatch of it."""
        commands = [("loss", int(device), round, whole) for device in devices]
        for _, loss in self._in_order(parameters, commands):
            yield loss

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy and loss on the test set."""
        commands = [("evaluate", start) for start in self._chunks]
        return add_up(result for _, result in self._in_order(parameters, commands))

    def close(self) -> None:
        """Stop the workers and give back their memory; may be called twice."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.stop()
        if self._memory is not None:
            self._rows = np.empty((0, 0), np.float32)  # the block cannot be closed while viewed
            self._memory.close()

    def _in_order(
        self, parameters: Parameters, commands: Sequence[Command]
    ) -> Iterator[tuple[int, Any]]:
        """Slot and result of each command, in the order given, whoever finishes first."""
        if self._closed:
            raise FedschedError("the training pool is closed; open another")
        if any(worker.pending for worker in self._workers):
            raise FedschedError("the training pool is at work; finish the cohort under way first")
        self._rows[0] = parameters
        free = deque(self._slots)
        given = 0
        finished: dict[int, tuple[int, Any]] = {}
        try:
            try:
                for position in range(len(commands)):
                    while position not in finished:
                        given = self._hand_out(commands, given, free)
                        finished.update(self._collect())
                    slot, result = finished.pop(position)
                    yield slot, result
                    free.append(slot)
            finally:
                # A consumer that leaves early must find the workers idle the next time.
                while any(worker.pending for worker in self._workers):
                    self._collect()
        except FedschedError:
            self.close()
            raise

    def _hand_out(self, commands: Sequence[Command], given: int, free: deque[int]) -> int:
        """Give commands to workers with room while there are slots; returns how many are given.

        A worker may have a second command waiting, so that it never idles while its result is
        read; not near the end, where the last commands are best left to whoever is free first.
        """
        while given < len(commands) and free:
            worker = min(self._workers, key=lambda worker: len(worker.pending))
            ahead = 2 if len(commands) - given > len(self._workers) else 1
            if len(worker.pending) >= ahead:
                break
            slot = free.popleft()
            name, *arguments = commands[given]
            worker.send(name, slot, *arguments)
            worker.pending.append((given, slot))
            given += 1
        return given

    def _collect(self) -> dict[int, tuple[int, Any]]:
        """Wait for at least one result; position to slot and result."""
        by_pipe = {worker.pipe: worker for worker in self._workers if worker.pending}
        results = {}
        for pipe in connection.wait(list(by_pipe)):
            worker = by_pipe[pipe]  # type: ignore[index]
            result = worker.receive()
            position, slot = worker.pending.popleft()
            results[position] = (slot, result)
        return results


class _Worker:
    """The parent's side of one worker process."""

    def __init__(self, spec: TrainerSpec, number: int) -> None:
        # Spawned: a fork would copy locks that torch's threads may hold.
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.pending: deque[tuple[int, int]] = deque()  # position and slot, oldest first
        self._process = context.Process(
            target=_work, args=(theirs, spec), name=f"fedsched-worker-{number}", daemon=True
        )
        self._process.start()
        theirs.close()  # or the end of the worker would not end the pipe

    def send(self, *command: Any) -> None:
        try:
            self.pipe.send(command)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> Any:
        try:
            failed, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if failed is not None:
            self.pending.clear()  # it has ended, and answers nothing any more
            raise (InputError if failed == "input" else FedschedError)(value)
        return value

    def stop(self) -> None:
        """End the process: kindly first, as it may be in the middle of a device."""
        self.pipe.close()
        self._process.join(0 if self.pending else EXIT_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _death(self) -> FedschedError:
        self.pending.clear()
        self._process.join(EXIT_TIMEOUT_S)
        code = self._process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return FedschedError(
            f"{self._process.name} ended unexpectedly ({how}); if memory is short, use fewer "
            "workers. A script that opens a pool must do so under: if __name__ == '__main__'"
        )


def _work(pipe: "connection.Connection[Any, Any]", spec: TrainerSpec) -> None:
    """The worker's side: answer every command with one result until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    with suppress(EOFError, OSError):
        try:
            trainer = spec.build()
            pipe.send((None, (trainer.dimension, trainer.chunks())))
            _, name, dimension = pipe.recv()
            memory = SharedBlock.attach(name, dimension)
            rows = memory.rows
            pipe.send((None, None))
            while True:
                match pipe.recv():
                    case ("initial", slot):
                        rows[slot] = trainer.initial_parameters
                        pipe.send((None, None))
                    case ("train", slot, device, round_, work):
                        update = trainer.train(rows[0], device, round_, work)
                        rows[slot] = update.delta
                        pipe.send((None, (update.loss, update.square_loss, update.steps)))
                    case ("loss", _, device, round_, whole):
                        loss = trainer.loss(rows[0], device, round_, whole=whole)
                        pipe.send((None, loss))
                    case ("evaluate", _, start):
                        pipe.send((None, trainer.evaluate_chunk(rows[0], start)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except InputError as error:
            pipe.send(("input", str(error)))
        except FedschedError as error:
            pipe.send(("other", str(error)))
        except Exception:
            text = traceback.format_exc()
            pipe.send(("other", f"a training worker failed:\n{text}"))
    os._exit(0)  # taking torch apart in order would cost each worker half a second
