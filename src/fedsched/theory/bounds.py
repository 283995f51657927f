r"""The convergence bound: as the paper prints it, and one that holds.

Algorithm 1 moves the model by :math:`\frac1N\sum_n \frac{I_n}{q_n}\Delta_n`. What participation
costs enters through :math:`Q_t = \frac1N\sum_n 1/q_n^t`; every function here takes these numbers,
one a round, from :func:`mean_inverse` or from a run log's ``mean_inverse_probability``.

The printed proof bounds :math:`E\|\sum_n (I_n/q_n) z_n\|^2` by :math:`\|\sum_n z_n\|^2/q_{\min}`.
That is false where the devices' gradients point against each other: with :math:`z_1=-z_2` the right
side is 0. What holds is

.. math:: E\Big\|\sum_n \tfrac{I_n}{q_n} z_n\Big\|^2 \le \Big\|\sum_n z_n\Big\|^2
          + \kappa \sum_n \Big(\tfrac1{q_n}-1\Big)\|z_n\|^2,

with :math:`\kappa` from :func:`variance_factor`. ``docs/theory.md`` has the derivation.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.checks import finite_array, number_within, positive_number, whole_number
from fedsched.errors import InputError, UnknownNameError

__all__ = [
    "Bound",
    "ProblemConstants",
    "corollary_step",
    "corrected_bound",
    "corrected_step_limit",
    "least_uniform_probability",
    "mean_inverse",
    "printed_bound",
    "printed_step_limit",
    "uniform_probability",
    "variance_factor",
]


@dataclass(frozen=True, kw_only=True)
class ProblemConstants:
    r"""What the bound knows of a learning problem.

    Attributes:
        smoothness: L, with :math:`\|\nabla f_n(x)-\nabla f_n(y)\| \le L\|x-y\|` for every device.
        noise_sq: :math:`\nu^2 \ge E\|g_n(x)-\nabla f_n(x)\|^2`, of one minibatch gradient.
        divergence_sq: :math:`\epsilon^2 \ge \|\nabla f_n(x)-\nabla f(x)\|^2`.
        devices: N.
        steps: K, local steps a round.
    """

    smoothness: float
    noise_sq: float
    divergence_sq: float
    devices: int
    steps: int

    def __post_init__(self) -> None:
        positive_number("smoothness", self.smoothness)
        positive_number("noise_sq", self.noise_sq, allow_zero=True)
        positive_number("divergence_sq", self.divergence_sq, allow_zero=True)
        whole_number("devices", self.devices)
        whole_number("steps", self.steps)


@dataclass(frozen=True, kw_only=True)
class Bound:
    r"""A bound on :math:`\frac1T\sum_{t<T} E\|\nabla f(x_t)\|^2`, term by term.

    Attributes:
        start: what is left of the start, :math:`2(f_0-f^*)/(c\gamma KT)`.
        drift: what K local steps cost, whoever takes part.
        noise: what minibatches cost, times :math:`\bar Q`.
        heterogeneity: what unlike devices cost when some stay away; 0 in the printed bound.
        c: the constant that divides every term; where it is not positive all terms are infinite.
        conditions_met: whether the step size is one for which the bound is claimed.
    """

    start: float
    drift: float
    noise: float
    heterogeneity: float
    c: float
    conditions_met: bool

    @property
    def total(self) -> float:
        """The bound."""
        return self.start + self.drift + self.noise + self.heterogeneity

    def as_dict(self) -> dict[str, Any]:
        """The terms and their sum by name; infinite ones are None, so that it is strict JSON."""
        names = ("start", "drift", "noise", "heterogeneity", "total", "c")
        values = {name: float(getattr(self, name)) for name in names}
        finite = {name: v if math.isfinite(v) else None for name, v in values.items()}
        return {**finite, "conditions_met": self.conditions_met}


def mean_inverse(probability: ArrayLike) -> NDArray[np.float64]:
    r""":math:`Q_t = \frac1N\sum_n 1/q_n^t` of a schedule's probabilities, shape (rounds, devices).

    Example:
        >>> mean_inverse([[1.0, 0.5], [0.25, 0.25]]).tolist()
        [1.5, 4.0]
    """
    q = finite_array("probability", probability, allow_zero=False)
    if q.ndim != 2 or q.max(initial=0.0) > 1.0:
        raise InputError(
            f"probability must have shape (rounds, devices) and lie in (0, 1], got shape {q.shape} "
            f"and maximum {q.max(initial=0.0):.6g}"
        )
    return np.asarray((1.0 / q).mean(axis=1))


def variance_factor(design: str, devices: int, *, uniform: bool = False) -> float:
    r"""The :math:`\kappa` with :math:`\mathrm{Cov}(I) \preceq \kappa\,\mathrm{diag}(q(1-q))`.

    Independent coins have 1. Draws with replacement and pivotal sampling never make two devices
    more likely together than apart, so their correlation matrix is the identity less a matrix P
    without negative entries. That it has no negative eigenvalue says that P's largest is at most 1;
    by Perron its smallest is then at least -1: 2. Where all probabilities are equal (``uniform``),
    all correlations are one number, at least -1/(N-1): N/(N-1).

    Example:
        >>> variance_factor("independent", 100), variance_factor("with-replacement", 100)
        (1.0, 2.0)
        >>> round(variance_factor("fixed-size", 100, uniform=True), 4)
        1.0101
    """
    whole_number("devices", devices)
    if design == "independent":
        return 1.0
    if design not in ("with-replacement", "fixed-size"):
        raise UnknownNameError("design", design, ("fixed-size", "independent", "with-replacement"))
    return devices / (devices - 1.0) if uniform and devices > 1 else 2.0


def printed_step_limit(constants: ProblemConstants, least_probability: float) -> float:
    r"""Theorem 1's condition, :math:`\gamma \le q_{\min}/(8LK)`.

    Example:
        >>> printed_step_limit(_TWO, 0.5)
        0.0625
    """
    number_within("least_probability", least_probability, "(0, 1]", "it is a probability")
    return least_probability / (8.0 * constants.smoothness * constants.steps)


def corrected_step_limit(
    constants: ProblemConstants, inverse: ArrayLike, *, kappa: float = 2.0
) -> float:
    r"""A step size for which the corrected bound holds with :math:`c \ge 9/32`.

    .. math:: \gamma \le \min\Big\{\frac1{8LK},\ \frac{N}{40\kappa LK R}\Big\},
              \qquad R = \max_t Q_t - 1 .

    Theorem 1's :math:`q_{\min}/(8LK)` is enough for it where :math:`N \ge 5\kappa`, because
    :math:`q_{\min} R < 1`; for large N this one allows steps up to some :math:`N/5\kappa` times
    larger.

    Example:
        >>> corrected_step_limit(_TWO, [2.0])
        0.025
    """
    positive_number("kappa", kappa)
    excess = float(_inverse(inverse).max()) - 1.0
    scale = constants.smoothness * constants.steps
    lemma = 1.0 / (8.0 * scale)
    if excess <= 0.0:
        return lemma
    return min(lemma, constants.devices / (40.0 * kappa * scale * excess))


def printed_bound(
    constants: ProblemConstants,
    inverse: ArrayLike,
    *,
    learning_rate: float,
    start_gap: float,
    least_probability: float | None = None,
    c: float | None = None,
) -> Bound:
    r"""Theorem 1 as it is printed. **It is false**: see ``docs/theory.md``.

    .. math:: \frac1T\sum_{t<T} E\|\nabla f(x_t)\|^2 \overset{?}{\le}
              \frac{2(f_0 - E f(x_T))}{c\gamma KT}
              + \frac{5\gamma^2KL^2(\nu^2+6K\epsilon^2)}{c} + \frac{2L\gamma\nu^2}{cN}\bar Q

    Args:
        constants: L, nu^2, epsilon^2, N, K.
        inverse: Q_t, one a round.
        learning_rate: gamma.
        start_gap: f(x_0) less E f(x_T), or less the minimum, which is larger.
        least_probability: q_min, for the step condition; without it 1 / max Q_t stands in, the
            largest value that any schedule with these Q_t can have.
        c: the theorem's "constant"; :math:`1-30\gamma^2K^2L^2`, the largest its proof allows, if
            left out.

    Example:
        >>> bound = printed_bound(_TWO, [2.0], learning_rate=1e-3, start_gap=0.0)
        >>> round(bound.total * 1e5, 3)
        3.0
    """
    q = _inverse(inverse)
    gamma = positive_number("learning_rate", learning_rate)
    least = 1.0 / float(q.max()) if least_probability is None else least_probability
    squared = (gamma * constants.steps * constants.smoothness) ** 2
    chosen = 1.0 - 30.0 * squared if c is None else c
    return _bound(
        chosen,
        start=2.0 * start_gap / (gamma * constants.steps * len(q)),
        drift=_drift(constants, gamma),
        noise=2.0 * constants.smoothness * gamma * constants.noise_sq * float(q.mean())
        / constants.devices,
        heterogeneity=0.0,
        conditions_met=gamma <= printed_step_limit(constants, least),
    )  # fmt: skip


def corrected_bound(
    constants: ProblemConstants,
    inverse: ArrayLike,
    *,
    learning_rate: float,
    start_gap: float,
    kappa: float = 2.0,
) -> Bound:
    r"""A bound that holds for any design of a known :math:`\kappa`.

    With :math:`R_t = Q_t - 1`, for :math:`\gamma \le 1/(8LK)`, while

    .. math:: c = 1 - 30\gamma^2K^2L^2 - \frac{4\gamma LK\kappa}{N}\max_t R_t\,
              (2 + 30\gamma^2K^2L^2) > 0,

    .. math:: \frac1T\sum_{t<T} E\|\nabla f(x_t)\|^2 \le \frac{2(f_0 - f^*)}{c\gamma KT}
              + \frac{5\gamma^2KL^2(\nu^2+6K\epsilon^2)}{c}
                \Big(1+\frac{4\gamma LK\kappa\bar R}{N}\Big)
              + \frac{2L\gamma}{cN}\big[\nu^2\bar Q + 4\kappa K\epsilon^2\bar R\big].

    Unlike devices (epsilon) cost more the fewer take part, by :math:`4\kappa K\epsilon^2\bar R`;
    the printed bound denies it.

    Args:
        constants: L, nu^2, epsilon^2, N, K.
        inverse: Q_t, one a round.
        learning_rate: gamma.
        start_gap: f(x_0) less the minimum of f.
        kappa: of the design, see :func:`variance_factor`.

    Example:
        >>> bound = corrected_bound(_TWO, [2.0], learning_rate=1e-3, start_gap=0.0)
        >>> round(bound.total, 5), bound.conditions_met
        (0.0081, True)
    """
    q = _inverse(inverse)
    gamma = positive_number("learning_rate", learning_rate)
    positive_number("kappa", kappa)
    smoothness, steps, devices = constants.smoothness, constants.steps, constants.devices
    squared = (gamma * steps * smoothness) ** 2
    per_excess = 4.0 * gamma * smoothness * steps * kappa / devices
    mean, most = float(q.mean()), float(q.max())
    c = 1.0 - 30.0 * squared - per_excess * (most - 1.0) * (2.0 + 30.0 * squared)
    return _bound(
        c,
        start=2.0 * start_gap / (gamma * steps * len(q)),
        drift=_drift(constants, gamma) * (1.0 + per_excess * (mean - 1.0)),
        noise=2.0 * smoothness * gamma * constants.noise_sq * mean / devices,
        heterogeneity=2.0 * per_excess * (mean - 1.0) * constants.divergence_sq,
        conditions_met=c > 0.0 and gamma <= 1.0 / (8.0 * smoothness * steps),
    )


def corollary_step(constants: ProblemConstants, least_probability: float, rounds: int) -> float:
    r"""Corollary 1's step size, :math:`\min\{q_{\min}/(8LK),\ \sqrt{Nq_{\min}/(TK)}/L\}`.

    With it the drift term is at most :math:`5Nq_{\min}(\nu^2+6K\epsilon^2)/(cT)`. The corollary
    prints :math:`Nq_{\min}\epsilon^2/(TK)` for it: epsilon's part is wrong by K^2, nu's is missing.

    Example:
        >>> corollary_step(_TWO, 0.5, rounds=10_000)
        0.01
    """
    whole_number("rounds", rounds)
    printed = printed_step_limit(constants, least_probability)  # checks the probability
    asymptotic = math.sqrt(constants.devices * least_probability / (rounds * constants.steps))
    return min(printed, asymptotic / constants.smoothness)


def uniform_probability(devices: int, draws: int) -> float:
    r""":math:`q = 1-(1-1/N)^m`: uniform draws with replacement.

    Example:
        >>> round(uniform_probability(100, 10), 5)
        0.09562
    """
    whole_number("devices", devices)
    whole_number("draws", draws)
    return 1.0 if devices == 1 else -math.expm1(draws * math.log1p(-1.0 / devices))


def least_uniform_probability(devices: int, draws: int) -> float:
    r"""Corollary 2's inequality: :math:`1-(1-1/N)^m \ge (1-1/e)\,\min(m,N)/N`.

    Example:
        >>> least_uniform_probability(100, 10) <= uniform_probability(100, 10)
        True
    """
    whole_number("devices", devices)
    whole_number("draws", draws)
    return -math.expm1(-1.0) * min(draws, devices) / devices


def _drift(constants: ProblemConstants, gamma: float) -> float:
    """5 g^2 K L^2 (nu^2 + 6 K eps^2), the paper's Phi_1 without c."""
    steps = constants.steps
    inner = constants.noise_sq + 6.0 * steps * constants.divergence_sq
    return 5.0 * gamma**2 * steps * constants.smoothness**2 * inner


def _bound(c: float, *, conditions_met: bool, **terms: float) -> Bound:
    scaled = {name: value / c if c > 0.0 else math.inf for name, value in terms.items()}
    return Bound(c=c, conditions_met=conditions_met, **scaled)


def _inverse(values: ArrayLike) -> NDArray[np.float64]:
    inverse = finite_array("inverse", values, allow_zero=False)
    # A mean over rounds of rounded numbers may fall short of 1 by a bit or two.
    if inverse.ndim != 1 or not inverse.size or inverse.min() < 1.0 - 1e-12:
        raise InputError(
            f"inverse must hold Q_t >= 1 for one round or more, got shape {inverse.shape}; it is "
            "the mean of 1/q over devices"
        )
    return inverse


# (x - 1)^2 / 2 and (x + 1)^2 / 2: the counterexample, on which the doctests work.
_TWO = ProblemConstants(smoothness=1.0, noise_sq=0.0, divergence_sq=1.0, devices=2, steps=1)
