"""Updates on their way: encoded on the device and decoded on the server."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.learning.compression.base import AbstractCompressor, Vector
from fedsched.learning.compression.omega import RunningOmega, some_of
from fedsched.learning.compression.sparse import ErrorFeedback
from fedsched.learning.updates import LocalUpdate
from fedsched.randomness import stream
from fedsched.values import Sizes

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

    Every update tells the omega of all compressors, whichever of them sends it; a running mean of
    each is kept.

    What cannot be encoded or decoded arrives as NaN, which every aggregator leaves out and counts.
    The residual then stays as it was.

    Args:
        compressors: that may be chosen, one by one, for each device and round; without any,
            updates are sent as they are. A biased one stands alone.
    """

    compressors: tuple[AbstractCompressor, ...] = ()

    def __post_init__(self) -> None:
        if self.biased and len(self.compressors) > 1:
            raise InputError(
                "compressors: a biased one has residuals of its own and must be the only one, got "
                f"{len(self.compressors)} of them; choose among unbiased ones"
            )

    @property
    def biased(self) -> bool:
        """Whether the mean of what is received is not what was sent."""
        return not all(each.unbiased for each in self.compressors)

    def sizes(self, numbers: int) -> Sizes | None:
        """Of an update of so many numbers, with the omega of Gaussian numbers.

        None if there is nothing to count: updates go as they are, or with a bias.
        """
        if not self.compressors or self.biased:
            return None
        bits = np.array([each.bits(numbers) for each in self.compressors], dtype=np.float64)
        return Sizes(bits=bits, omega=self._first_omega())

    def _first_omega(self) -> NDArray[np.float64]:
        return np.array([each.gaussian_omega() or 0.0 for each in self.compressors])

    def init(self, devices: int, dimension: int) -> dict[str, NDArray[Any]]:
        """Residuals of devices that have sent nothing, 4 N d bytes; or what is known of omega."""
        if self.biased:
            return {"residual": np.zeros((devices, dimension), np.float32)}
        if not self.compressors:
            return {}
        return {"omega": self._first_omega(), "omega_updates": np.zeros(())}

    def received(
        self,
        updates: Iterable[LocalUpdate],
        devices: NDArray[np.int64],
        state: Mapping[str, NDArray[Any]],
        *,
        seed: int,
        round: int,  # noqa: A002 - the project's word for t
        sizes: NDArray[np.int64] | None = None,
    ) -> Iterator[LocalUpdate]:
        """The updates as the server has them, one at a time; the state changes in place.

        Args:
            updates: of the devices, in their order.
            devices: who sends.
            state: as :meth:`init` made it.
            seed: of the run.
            round: t.
            sizes: which of the compressors each of the devices has; the first if None.
        """
        if not self.compressors:
            yield from updates
            return
        chosen = np.zeros(len(devices), np.int64) if sizes is None else sizes
        for device, update, place in zip(devices.tolist(), updates, chosen.tolist(), strict=True):
            rng = stream(seed, "compression", round, device)
            omega = math.nan
            try:
                residual = state["residual"][device] if self.biased else None
                delta = _sent(self.compressors[place], update.delta, residual, rng)
                if not self.biased:
                    omega = self._observe(state, some_of(update.delta, round + device), place)
            except InputError as error:
                _log.warning("round %d: device %d cannot send its update: %s", round, device, error)
                delta = np.full_like(update.delta, np.nan)
            yield replace(update, delta=delta, omega=omega)

    def _observe(self, state: Mapping[str, NDArray[Any]], seen: Vector, place: int) -> float:
        """Move the running means on by one update; its own omega as it was sent."""
        shown = [each.expected_omega(seen) for each in self.compressors]
        mean, updates = state["omega"], int(state["omega_updates"])
        for k, omega in enumerate(shown):
            mean[k] = RunningOmega(mean=float(mean[k]), updates=updates).observe(omega).mean
        state["omega_updates"][...] = updates + 1
        return shown[place]


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
