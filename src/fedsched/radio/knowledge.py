r"""What the server knows of the channel: late, or wrong by decibels; and whether uploads arrive.

A device sends at the rate that its known gain promises. Where the true gain is lower the upload
fails: it takes its power and its time, and does not arrive. A margin below the known gain makes
failures rare, and is found as the run goes on:

.. math:: M \leftarrow \max(M + \eta \, (F - \epsilon), 0)

after each attempt of a device, F being 1 if it failed and 0 if not. So of any number of attempts of
a device in a row at most a share :math:`\epsilon`, and :math:`M / \eta` more, fail.
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import number_within, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.values import PerDevice

__all__ = ["PERFECT", "Knowledge", "Known"]

Memory = Mapping[str, NDArray[Any]]

STEP_DB = 1.0  # of the margin, for one failure


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What is known of the gains of a round."""

    gain: PerDevice  # what a policy plans with; NaN where unreachable, or not known yet
    memory: Memory


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """How well the server knows the channel, and what becomes of uploads.

    Attributes:
        late_rounds: how many rounds old the gains are that it knows.
        error_db: standard deviation of their error, in decibels.
        outage: the share of uploads that may fail; a margin is found that holds it.
            None: no margin.
        resend: whether an upload that failed is sent again, at the rate that the channel has.
        loss: the chance that an update is lost for another reason; one for all, or one each.

    Example:
        >>> Knowledge(late_rounds=1, outage=0.05).is_perfect
        False
    """

    late_rounds: int = 0
    error_db: float = 0.0
    outage: float | None = None
    resend: bool = False
    loss: float | PerDevice = field(default=0.0, compare=False)
    place: InitVar[str] = ""  # what errors say before the name of a field

    def __post_init__(self, place: str) -> None:
        whole_number(f"{place}late_rounds", self.late_rounds, least=0, most=10_000)
        positive_number(f"{place}error_db", self.error_db, allow_zero=True)
        if self.outage is not None:
            about = "it is the share of uploads that may fail, for instance 0.05"
            number_within(f"{place}outage", self.outage, "(0, 1)", about)
        loss = np.asarray(self.loss, dtype=float)
        if not np.all((loss >= 0.0) & (loss < 1.0)):
            raise InputError(
                f"{place}loss must lie in [0, 1), got {self.loss}; it is the chance that an update "
                "is lost"
            )

    @property
    def is_perfect(self) -> bool:
        """Whether all gains are known as they are, and every upload arrives."""
        return self.late_rounds == 0 and self.error_db == 0.0 and not np.any(self.loss)

    def init(self, devices: int) -> Memory:
        """What is remembered before the first round: the latest gains, and the margins."""
        if self.is_perfect:
            return {}
        return {
            "knowledge.past": np.full((self.late_rounds, devices), np.nan),
            "knowledge.margin_db": np.zeros(devices),
        }

    def of(self, gain: PerDevice, memory: Memory, rng: np.random.Generator) -> Known:
        """What is known of these gains, less the margin."""
        if self.is_perfect:
            return Known(gain=gain, memory=memory)
        past = np.concatenate([memory["knowledge.past"], gain[None]])
        # In the first rounds the oldest that there is.
        late = next((row for row in past if not np.isnan(row).all()), gain)
        wrong_db = self.error_db * rng.standard_normal(len(gain))
        seen = late * 10.0 ** ((wrong_db - memory["knowledge.margin_db"]) / 10.0)
        return Known(gain=seen, memory={**memory, "knowledge.past": past[1:]})

    def failed(self, device: NDArray[np.int64], gain: PerDevice, known: PerDevice) -> NDArray[Any]:
        """Which members sent at a rate that the channel did not have."""
        return ~(gain[device] >= known[device])

    def lost(
        self, device: NDArray[np.int64], devices: int, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Which members' updates are lost for another reason."""
        chance = rng.random(devices)[device]
        return chance < np.broadcast_to(self.loss, devices)[device]

    def learned(
        self, memory: Memory, device: NDArray[np.int64], failed: NDArray[np.bool_]
    ) -> Memory:
        """The margins after these attempts."""
        if self.is_perfect or self.outage is None:
            return memory
        margin_db = memory["knowledge.margin_db"].copy()
        margin_db[device] += STEP_DB * (failed - self.outage)
        return {**memory, "knowledge.margin_db": np.maximum(margin_db, 0.0)}


PERFECT = Knowledge()
