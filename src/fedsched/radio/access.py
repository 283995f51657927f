"""Access: how the uploads of a cohort share the link, and how long they therefore take together.

A policy prices a device by its access and the clock counts by the same one, so both agree.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import UnknownNameError
from fedsched.values import PerDevice

__all__ = ["ACCESSES", "TDMA", "AbstractAccess", "Parallel", "make_access"]


class AbstractAccess(ABC):
    """How a cohort's uploads share the link."""

    name: ClassVar[str]

    @abstractmethod
    def uploads_s(self, upload_s: NDArray[np.float64]) -> float:
        """Seconds that uploads of these lengths take together."""

    def price_s(self, upload_s: PerDevice) -> PerDevice:
        """Seconds that each device adds to a round, at most, if it takes part."""
        return upload_s


@final
@dataclass(frozen=True)
class TDMA(AbstractAccess):
    """Devices take turns: their times add up.

    Example:
        >>> TDMA().uploads_s(np.array([0.5, 0.25]))
        0.75
    """

    name: ClassVar[str] = "tdma"

    def uploads_s(self, upload_s: NDArray[np.float64]) -> float:
        """Their sum."""
        return float(upload_s.sum())


@final
@dataclass(frozen=True)
class Parallel(AbstractAccess):
    """Each device has a link of its own: the slowest decides.

    The price of a device is its own upload, as if all took turns: no round is longer than that.

    Example:
        >>> Parallel().uploads_s(np.array([0.5, 0.25]))
        0.5
    """

    name: ClassVar[str] = "parallel"

    def uploads_s(self, upload_s: NDArray[np.float64]) -> float:
        """The longest."""
        return float(upload_s.max(initial=0.0))


ACCESSES: Mapping[str, type[AbstractAccess]] = MappingProxyType(
    {access.name: access for access in (TDMA, Parallel)}
)


def make_access(name: str) -> AbstractAccess:
    """The access of that name.

    Example:
        >>> make_access("parallel")
        Parallel()
    """
    if name not in ACCESSES:
        raise UnknownNameError("access", name, ACCESSES)
    return ACCESSES[name]()
