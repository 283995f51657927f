"""Rules that rank devices by loss: power-of-choice, Active FL and Oort. All are biased."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import one_of, positive_number, whole_number
from fedsched.policies.base import Need, PolicyState
from fedsched.policies.choice import (
    AbstractChoicePolicy,
    Choice,
    Context,
    chance_of,
    smallest,
)
from fedsched.policies.successive import successive
from fedsched.values import Experience, Observation, PerDevice, Question

__all__ = ["ActiveFL", "Oort", "PowerOfChoice", "StalePowerOfChoice"]


def _top(score: PerDevice, count: int, chance: PerDevice) -> NDArray[np.int64]:
    """Places of the largest scores; among equal ones chance decides."""
    return np.lexsort((chance, -score))[:count].astype(np.int64)


def _candidates(given: int | None, draws: int) -> int:
    """d: 2 m unless told otherwise, never below m."""
    return 2 * draws if given is None else max(given, draws)


@final
@dataclass(frozen=True, kw_only=True)
class PowerOfChoice(AbstractChoicePolicy):
    """The m largest losses among d random devices that are asked for theirs (Cho et al.).

    Candidates are drawn without replacement by their shares of the data. Biased, unless d = m.

    Attributes:
        candidates: d; 2 m if None.
        measure: "loss" on all of a device's data, or "batch-loss" on one minibatch (cheap).
    """

    candidates: int | None = None
    measure: str = "loss"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.CURRENT})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates is not None:
            whole_number("candidates", self.candidates)
        one_of("measure", self.measure, ("loss", "batch-loss"))

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "power-of-choice" if self.measure == "loss" else "power-of-choice-cheap"

    def ask(self, observed: Observation, state: PolicyState) -> Question:
        """The losses of d reachable devices."""
        del state
        gain = observed.gain
        weight = np.where(np.isnan(gain), 0.0, self.system.shares(len(gain)))
        count = _candidates(self.candidates, self.draws)
        return Question(kind=self.measure, device=successive(weight, count, chance_of(observed)[0]))

    def choose(self, context: Context) -> Choice:
        """The m largest answers, each with weight 1 / m."""
        asked = context.answers.device
        place = _top(context.answers.value, self.draws, context.chance[1, asked])
        device = asked[place]
        return Choice(device=device, weight=np.full(len(device), 1.0 / max(len(device), 1)))


@dataclass(frozen=True, kw_only=True)
class _ByLastLoss(AbstractChoicePolicy):
    """A rule that ranks devices by the loss of their last local training."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.STALE})
    unknown: ClassVar[float]  # the loss of a device that never took part

    def start(self, devices: int) -> PolicyState:
        """No loss is known."""
        return {"loss": np.full(devices, self.unknown)}

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """The losses of the cohort replace the old ones."""
        known = experience.with_losses()
        return {**state, "loss": _replaced(state["loss"], known.device, known.loss)}


@final
@dataclass(frozen=True, kw_only=True)
class StalePowerOfChoice(_ByLastLoss):
    """Power-of-choice by the loss of a device's last local training; nobody is asked.

    A device that never took part counts as infinitely bad.
    """

    candidates: int | None = None

    unknown: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates is not None:
            whole_number("candidates", self.candidates)

    name = "power-of-choice-stale"

    def choose(self, context: Context) -> Choice:
        """The m largest known losses among d random devices."""
        chance = context.chance
        weight = context.share[context.reach]
        count = _candidates(self.candidates, self.draws)
        asked = context.reach[successive(weight, count, chance[0, context.reach])]
        device = asked[_top(context.state["loss"][asked], self.draws, chance[1, asked])]
        return Choice(device=device, weight=np.full(len(device), 1.0 / len(device)))


@final
@dataclass(frozen=True, kw_only=True)
class ActiveFL(_ByLastLoss):
    r"""A softmax of valuations :math:`\sqrt{n_k} \times` mean loss (Goetz et al.).

    Valuations are those of the last participation; a device that never took part has the largest
    one known. The ``drop`` share of the smallest is set aside; of the others
    :math:`\lfloor (1 - \text{explore}) m \rfloor` are drawn without replacement in proportion to
    :math:`e^{\text{heat} \, v}`, the rest uniformly from all that are left.

    Attributes:
        drop: alpha1.
        heat: alpha2.
        explore: alpha3.
        samples: the mean number of samples of a device.
    """

    drop: float = 0.75
    heat: float = 0.01
    explore: float = 0.1
    samples: float = 500.0

    unknown: ClassVar[float] = np.nan

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("samples", self.samples)

    name = "active-fl"

    def choose(self, context: Context) -> Choice:
        """Draw from the softmax, then uniformly."""
        reach, chance = context.reach, context.chance
        size = np.sqrt(self.samples * len(context.gain) * context.share[reach])
        value = size * context.state["loss"][reach]
        known = ~np.isnan(value)
        value = np.where(known, value, value[known].max() if known.any() else 0.0)
        weight = np.exp(self.heat * (value - value.max()))
        weight[np.lexsort((chance[2, reach], value))[: int(self.drop * len(reach))]] = 0.0
        count = min(self.draws, len(reach))
        by_value = successive(weight, math.floor((1.0 - self.explore) * count), chance[0, reach])
        others = np.setdiff1d(np.arange(len(reach)), by_value)
        luck = smallest(chance[1, reach[others]], count - len(by_value))
        device = reach[np.concatenate([by_value, others[luck]])]
        return context.average(device)


@final
@dataclass(frozen=True, kw_only=True)
class Oort(AbstractChoicePolicy):
    r"""Utility times speed, with exploration (Lai et al.).

    The utility of a device that took part is :math:`n_k` times the root of the mean squared loss
    of the samples it then trained on; clipped at the 0.98 quantile, scaled to [0, 1], plus
    :math:`\sqrt{0.1 \ln t / t_k}` for waiting since round :math:`t_k`, times
    :math:`(T / \tau_k)^2` if its upload would take longer than T. Of the devices whose score is at
    least 0.7 of the :math:`(1-\epsilon) m`-th best, that many are drawn in proportion to it. The
    :math:`\epsilon m` others are the fastest new ones; epsilon falls from 0.9 by 5 % a round to
    0.2. T is a percentile of upload times, 10 at first, and 5 more after every 20 rounds in which
    the utility gathered did not grow.
    """

    penalty: float = 2.0
    cut_off: float = 0.7
    clip: float = 0.98
    pacer_rounds: int = 20

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GAIN, Need.STALE})

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("penalty", self.penalty, allow_zero=True)

    name = "oort"
    own_shared_state = frozenset({"round", "percentile", "gathered"})  # the others pace it

    def start(self, devices: int) -> PolicyState:
        """Nobody is known."""
        return {
            "utility": np.full(devices, np.nan),
            "last": np.zeros(devices),
            "round": np.ones(()),
            "percentile": np.array(10.0),
            "gathered": np.zeros(2),  # utility in this window of rounds, and in the one before
        }

    def observe(self, state: PolicyState, experience: Experience) -> PolicyState:
        """Utilities of the cohort; the pacer adds them up."""
        experience = experience.with_losses()
        share = self.system.shares(len(state["utility"]))[experience.device]
        utility = len(state["utility"]) * share * np.sqrt(experience.square_loss)
        return {
            **state,
            "utility": _replaced(state["utility"], experience.device, utility),
            "gathered": state["gathered"] + np.array([utility.sum(), 0.0]),
        }

    def choose(self, context: Context) -> Choice:
        """Exploit by score, explore by speed."""
        reach, chance, state = context.reach, context.chance, context.state
        t = float(state["round"])
        percentile, gathered = self._paced(state)
        upload_s = context.plan.upload_s[reach]
        preferred_s = float(np.percentile(upload_s, percentile))
        utility = state["utility"][reach]
        known, new = np.flatnonzero(~np.isnan(utility)), np.flatnonzero(np.isnan(utility))
        count = min(self.draws, len(reach))
        epsilon = max(0.2, 0.9 * 0.95 ** (t - 1.0))
        explored = min(len(new), max(round(epsilon * count), count - len(known)))
        fresh = new[smallest(upload_s[new], explored)]
        best = np.empty(0, dtype=np.int64)
        if count > explored:
            score = self._score(utility[known], state["last"][reach[known]], t)
            slow = upload_s[known] > preferred_s
            score[slow] *= (preferred_s / upload_s[known][slow]) ** self.penalty
            level = np.sort(score)[::-1][min(count - explored, len(score)) - 1]
            weight = np.where(score >= self.cut_off * level, np.maximum(score, 1e-12), 0.0)
            best = known[successive(weight, count - explored, chance[0, reach[known]])]
        device = reach[np.concatenate([best, fresh])]
        last = state["last"].copy()
        last[device] = t
        return context.average(
            device,
            round=np.array(t + 1.0),
            last=last,
            percentile=np.array(percentile),
            gathered=gathered,
        )

    def _paced(self, state: PolicyState) -> tuple[float, NDArray[np.float64]]:
        """The percentile and what was gathered; where a window of rounds is over, a new one begins.

        Rounds that reach nobody choose nobody and are not counted, so the windows are judged here.
        """
        percentile, (now, before) = float(state["percentile"]), state["gathered"]
        done = int(state["round"]) - 1
        if done == 0 or done % self.pacer_rounds:
            return percentile, state["gathered"]
        return min(percentile + 5.0, 100.0) if now <= before else percentile, np.array([0.0, now])

    def _score(self, utility: PerDevice, last: PerDevice, t: float) -> PerDevice:
        top = float(np.quantile(utility, self.clip))
        low = float(utility.min())
        scaled = (np.minimum(utility, top) - low) / max(top - low, 1e-12)
        return np.asarray(scaled + np.sqrt(0.1 * math.log(max(t, 1.0)) / np.maximum(last, 1.0)))


def _replaced(old: PerDevice, device: NDArray[np.int64], value: PerDevice) -> PerDevice:
    """A copy with new values for some devices."""
    new = old.copy()
    new[device] = value
    return new
