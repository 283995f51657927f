"""Updates on their way: encoded on the device and decoded on the server."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.learning.compression.base import AbstractCompressor, Vector
from fedsched.learning.compression.sparse import ErrorFeedback
from fedsched.learning.updates import LocalUpdate
from fedsched.randomness import stream

__all__ = ["Sending"]

_log = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Sending:
    r"""What the server receives of each update x of device n in round t.

    .. math:: C(x) = \text{decode}(\text{encode}(x))

    The chance comes from ``stream(seed, "compression", t, n)``, so it does not matter who encodes
    when. A biased compressor sends :math:`C(x + e_n)`, and the device keeps what was left out in
    :math:`e_n`, its residual, until it takes part again.

    What cannot be encoded or decoded arrives as NaN, which every aggregator leaves out and counts.
    The residual then stays as it was.

    Args:
        compressor: of all devices; None sends updates as they are.
    """

    compressor: AbstractCompressor | None = None

    @property
    def biased(self) -> bool:
        """Whether the mean of what is received is not what was sent."""
        return self.compressor is not None and not self.compressor.unbiased

    def bits(self, numbers: int) -> int:
        """Of an update of so many numbers: 32 each, or exactly as the compressor packs them."""
        return 32 * numbers if self.compressor is None else self.compressor.bits(numbers)

    def init(self, devices: int, dimension: int) -> dict[str, NDArray[Any]]:
        """Residuals of devices that have sent nothing, 4 N d bytes; nothing if there are none."""
        return {"residual": np.zeros((devices, dimension), np.float32)} if self.biased else {}

    def received(
        self,
        updates: Iterable[LocalUpdate],
        devices: NDArray[np.int64],
        state: Mapping[str, NDArray[Any]],
        *,
        seed: int,
        round: int,  # noqa: A002 - the project's word for t
    ) -> Iterator[LocalUpdate]:
        """The updates as the server has them, one at a time; residuals change in place."""
        if self.compressor is None:
            yield from updates
            return
        for device, update in zip(devices.tolist(), updates, strict=True):
            rng = stream(seed, "compression", round, device)
            try:
                residual = state["residual"][device] if self.biased else None
                delta = _sent(self.compressor, update.delta, residual, rng)
            except InputError as error:
                _log.warning("round %d: device %d cannot send its update: %s", round, device, error)
                delta = np.full_like(update.delta, np.nan)
            yield replace(update, delta=delta)


def _sent(
    compressor: AbstractCompressor, delta: Vector, residual: Vector | None, rng: np.random.Generator
) -> Vector:
    """What arrives; what was left out is in the residual afterwards."""
    if residual is None:
        return compressor.decode(compressor.encode(delta, rng), len(delta))
    payload, left = ErrorFeedback(compressor).encode(delta, residual, rng)
    arrived = compressor.decode(payload, len(delta))
    residual[:] = left
    return arrived
