"""Memory that processes share, which goes when the last of them does, however they end."""

import mmap
import os
import sys
from multiprocessing.shared_memory import SharedMemory
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import FedschedError

__all__ = ["SharedBlock"]


@final
class SharedBlock:
    """Rows of numbers in shared memory.

    On Linux the memory has no name in any file system: nothing is left behind when all processes
    are killed at once, and the size of /dev/shm, 64 MB in many containers, does not matter.
    Elsewhere it has a name until :meth:`forget_name`.
    """

    def __init__(
        self, name: str, dimension: int, owner: "_Anonymous | SharedMemory", *, named: bool = False
    ) -> None:
        self.name = name  # by which another process finds it while this one lives
        self._owner: _Anonymous | SharedMemory | None = owner
        count = owner.size // (dimension * 4)  # the system may round up to whole pages
        self.rows: NDArray[np.float32] = np.ndarray(
            (count, dimension), np.float32, buffer=owner.buf
        )
        self._named = named  # and the name is this process's to take away

    @classmethod
    def create(cls, count: int, dimension: int) -> Self:
        """Room for so many rows, all zero."""
        size = max(count * dimension * 4, 1)
        try:
            if sys.platform == "linux":
                block = _Anonymous(os.memfd_create("fedsched"), size)
                return cls(f"/proc/{os.getpid()}/fd/{block.descriptor}", dimension, block)
            memory = SharedMemory(create=True, size=size)
        except OSError as error:
            raise FedschedError(
                f"{size / 1e6:,.0f} MB of shared memory cannot be had ({error.strerror}); use "
                "fewer workers"
            ) from error
        return cls(memory.name, dimension, memory, named=True)

    @classmethod
    def attach(cls, name: str, dimension: int) -> Self:
        """The block that another process has created."""
        if name.startswith("/proc/"):
            return cls(name, dimension, _Anonymous(os.open(name, os.O_RDWR)))
        return cls(name, dimension, SharedMemory(name=name))

    def forget_name(self) -> None:
        """No other process will attach: from here on nothing is left behind."""
        if self._named and isinstance(self._owner, SharedMemory):
            self._owner.unlink()
            self._named = False

    def close(self) -> None:
        """Give the memory back; may be called twice."""
        self.rows = np.empty((0, 0), np.float32)  # it cannot be closed while viewed
        self.forget_name()
        if self._owner is not None:
            self._owner.close()
            self._owner = None


class _Anonymous:
    """Memory behind a descriptor, as wide as it is or as it is made."""

    def __init__(self, descriptor: int, size: int | None = None) -> None:
        self.descriptor = descriptor
        try:
            if size is not None:
                os.ftruncate(descriptor, size)
            self.size = os.fstat(descriptor).st_size
            self.buf = mmap.mmap(descriptor, self.size)
        except BaseException:
            os.close(descriptor)
            raise

    def close(self) -> None:
        self.buf.close()
        os.close(self.descriptor)
