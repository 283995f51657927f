"""Rules that weigh devices by the norm of the update they would send."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import number_within, positive_number
from fedsched.policies.base import Need, PolicyState
from fedsched.policies.choice import (
    AbstractChoicePolicy,
    AbstractTossedPolicy,
    Choice,
    Context,
)
from fedsched.policies.successive import (
    des_raj_weights,
    inclusion_probabilities,
    successive,
)
from fedsched.solve.probabilities import optimal_probabilities
from fedsched.values import Observation, PerDevice, Question

__all__ = [
    "ImportanceChannel",
    "NormThreshold",
    "OptimalSampling",
    "approximate_probabilities",
    "importance_channel_probabilities",
    "optimal_sampling_probabilities",
]

# A device that reports nothing keeps a chance of this size against the largest.
_LEAST = 1e-9


def _answers(context: Context) -> PerDevice:
    """Share times norm of the reachable devices; never 0, so that no weight is infinite."""
    norm = np.zeros(len(context.gain))
    norm[context.answers.device] = context.answers.value
    u = (context.share * norm)[context.reach]
    largest = float(u.max())
    return np.maximum(u, _LEAST * largest) if largest > 0.0 else np.ones(len(u))


def _everyone(gain: PerDevice) -> NDArray[np.int64]:
    return np.flatnonzero(~np.isnan(gain)).astype(np.int64)


def optimal_sampling_probabilities(u: PerDevice, size: float) -> PerDevice:
    r"""The p in (0, 1] that minimise :math:`\sum u_n^2 / p_n` with :math:`\sum p \le m` (OCS).

    With u ascending and l the largest number with
    :math:`0 < m + l - n \le \sum_{j \le l} u_j / u_l`,
    :math:`p_i = (m + l - n) u_i / \sum_{j \le l} u_j` for the l smallest and 1 for the others.

    Example:
        >>> optimal_sampling_probabilities(np.array([1.0, 1.0, 8.0]), 2).tolist()
        [0.5, 0.5, 1.0]
    """
    n = len(u)
    if size >= n:
        return np.ones(n)
    order = np.argsort(u, kind="stable")
    sums = np.cumsum(u[order])
    places = np.arange(1, n + 1)
    room = size + places - n
    allowed = (room > 0.0) & (room * u[order] <= sums * (1.0 + 1e-15))
    last = int(np.flatnonzero(allowed)[-1])
    p = np.ones(n)
    small = order[: last + 1]
    p[small] = np.minimum(1.0, room[last] * u[small] / sums[last])
    return p


def approximate_probabilities(u: PerDevice, size: float, *, passes: int = 4) -> PerDevice:
    """OCS by sums alone, as secure aggregation allows (AOCS): scale, clip, and again."""
    n = len(u)
    if size >= n:
        return np.ones(n)
    p: PerDevice = np.minimum(1.0, size * u / u.sum())
    for _ in range(passes):
        free = p < 1.0
        scale = (size - n + free.sum()) / p[free].sum()
        p = np.asarray(np.where(free, np.minimum(1.0, scale * p), p))
        if scale <= 1.0:
            break
    return p


@final
@dataclass(frozen=True, kw_only=True)
class OptimalSampling(AbstractTossedPolicy):
    """Independent coins that minimise the variance for m devices on average (Chen et al.).

    Attributes:
        approximate: AOCS, which needs only sums of the norms.
    """

    approximate: bool = False

    needs: ClassVar[frozenset[Need]] = frozenset({Need.CURRENT})

    @property
    def name(self) -> str:
        """What tables and figures call it."""
        return "aocs" if self.approximate else "ocs"

    def ask(self, observed: Observation, state: PolicyState) -> Question:
        """The norm of everybody in reach."""
        del state
        return Question(kind="norm", device=_everyone(observed.gain))

    def choose(self, context: Context) -> Choice:
        """Toss for each; weights are share over probability."""
        solve = approximate_probabilities if self.approximate else optimal_sampling_probabilities
        q = np.zeros(len(context.gain))
        q[context.reach] = solve(_answers(context), float(self.draws))
        device = np.flatnonzero(context.chance[0] < q).astype(np.int64)
        return Choice(device=device, weight=context.share[device] / q[device], probability=q)


def importance_channel_probabilities(u: PerDevice, upload_s: PerDevice, *, rho: float) -> PerDevice:
    r"""The draw probabilities of Ren et al., which weigh variance against time.

    .. math:: \min_p \rho \sum_n u_n^2 / p_n + (1 - \rho) \sum_n p_n T_n, \quad \sum p = 1,
              \qquad p_n = u_n \sqrt{\rho / ((1 - \rho) T_n + \lambda)}

    It is the problem of the paper for one draw, without power queues, so its solver serves.
    """
    if len(u) == 1:
        return np.ones(1)
    # The scale of u cancels against rho in print; here it is the mean, so that rho means the same
    # late in training, when norms are small.
    scaled = u / u.mean() / len(u)
    solution = optimal_probabilities((1.0 - rho) * upload_s, weight=rho * scaled**2, draws=1)
    return solution.probability


@final
@dataclass(frozen=True, kw_only=True)
class ImportanceChannel(AbstractTossedPolicy):
    """Importance- and channel-aware draws (Ren et al.).

    One device a round as published. More are drawn one after the other without replacement, each
    in proportion to the probabilities left, and weighed by Des Raj's estimator, which stays
    unbiased; the multi-device form of the publication is not known to be this one.

    Attributes:
        rho: variance (towards 1) against upload time (towards 0).
    """

    rho: float = 0.5

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GAIN, Need.CURRENT})

    def __post_init__(self) -> None:
        super().__post_init__()
        number_within("rho", self.rho, "(0, 1)", "1 is variance alone")

    name = "importance-channel"

    def ask(self, observed: Observation, state: PolicyState) -> Question:
        """The norm of everybody in reach."""
        del state
        return Question(kind="norm", device=_everyone(observed.gain))

    def choose(self, context: Context) -> Choice:
        """M draws without replacement."""
        reach = context.reach
        upload_s = context.plan.upload_s[reach]
        omega = importance_channel_probabilities(_answers(context), upload_s, rho=self.rho)
        drawn = successive(omega, self.draws, context.chance[0, reach])
        q = np.zeros(len(context.gain))
        q[reach] = inclusion_probabilities(omega, self.draws)
        device = reach[drawn]
        weight = context.share[device] * des_raj_weights(omega, drawn)
        return Choice(device=device, weight=weight, probability=q)


@final
@dataclass(frozen=True, kw_only=True)
class NormThreshold(AbstractChoicePolicy):
    """A device sends if its update is large, in the style of Ribero and Vikalo.

    Everybody trains and compares its norm with a threshold the server announces, so the test
    costs no airtime. The missing updates are taken to be like those that were sent: the model
    moves by the average over the cohort. (Counted as zero they would shrink every step to about
    m / N of its length.) The next threshold is the m-th largest norm that was heard; if fewer
    than m were, it falls.

    Attributes:
        step: the threshold is divided by 1 + step if nobody sent, by less if some did.
    """

    step: float = 0.1

    needs: ClassVar[frozenset[Need]] = frozenset({Need.CURRENT})

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("step", self.step)

    name = "norm-threshold"
    own_shared_state = frozenset({"threshold"})  # one for all

    def start(self, devices: int) -> PolicyState:
        """No threshold yet: the first round sets it at its m-th largest norm."""
        del devices
        return {"threshold": np.array(np.nan)}

    def ask(self, observed: Observation, state: PolicyState) -> Question:
        """Everybody in reach tests its own norm; only those above the threshold are heard."""
        del state
        return Question(kind="norm", device=_everyone(observed.gain), on_air=False)

    def choose(self, context: Context) -> Choice:
        """Everybody at the threshold or above it."""
        norm, threshold = context.answers.value, float(context.state["threshold"])
        if len(norm) == 0:
            return Choice(device=context.answers.device, weight=norm)
        if np.isnan(threshold):
            threshold = float(np.sort(norm)[::-1][min(self.draws, len(norm)) - 1])
        sent = norm >= threshold
        device, heard = context.answers.device[sent], np.sort(norm[sent])[::-1]
        if len(heard) >= self.draws:
            following = float(heard[self.draws - 1])
        else:
            following = threshold / (1.0 + self.step) ** (1.0 - len(heard) / self.draws)
        return context.average(device, threshold=np.array(following))
