r"""Problems on which the bounds can be checked without chance: quadratics of one curvature.

Device n has :math:`f_n(x) = \frac12 (x-a_n)^\top A (x-a_n)` with A diagonal and the same for all,
and gradients with independent noise of variance :math:`\nu^2`. Then L is A's largest entry and
:math:`\epsilon^2 = \max_n\|A(a_n-\bar a)\|^2`, exactly. K local steps are a linear map, so the mean
and the second moment of every coordinate obey a recursion that needs of the design nothing but the
covariance of its indicators: :math:`E\|\nabla f(x_t)\|^2` comes out to rounding.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.checks import finite_array, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.theory.bounds import ProblemConstants

__all__ = [
    "TWO_QUADRATICS",
    "GradientPath",
    "Participation",
    "Quadratics",
    "gradient_path",
    "stationary_gradient_norm",
    "with_replacement",
]

Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Quadratics:
    """Devices whose losses have one curvature and minima of their own."""

    curvature: Values  # the diagonal of A, shape (d,), positive
    minimum: Values  # a_n, shape (devices, d)
    noise_sq: float = 0.0  # of one gradient, spread evenly over the coordinates

    def __post_init__(self) -> None:
        curvature = finite_array("curvature", self.curvature, allow_zero=False)
        minimum = np.asarray(self.minimum, dtype=np.float64)
        if minimum.ndim != 2 or minimum.shape[1:] != curvature.shape or not minimum.size:
            raise InputError(
                f"minimum must have shape (devices, {curvature.size}), got {minimum.shape}"
            )
        object.__setattr__(self, "curvature", curvature)
        object.__setattr__(self, "minimum", minimum)
        positive_number("noise_sq", self.noise_sq, allow_zero=True)

    def constants(self, steps: int) -> ProblemConstants:
        """L, nu^2, epsilon^2, N and K, exactly."""
        divergence = self.curvature * self.offset
        return ProblemConstants(
            smoothness=float(self.curvature.max()),
            noise_sq=self.noise_sq,
            divergence_sq=float((divergence**2).sum(axis=1).max()),
            devices=len(self.minimum),
            steps=steps,
        )

    @property
    def offset(self) -> Values:
        """Each device's minimum as seen from the minimum of all."""
        return np.asarray(self.minimum - self.minimum.mean(axis=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Participation:
    """One round of a design: its probabilities, and the covariance of who takes part."""

    probability: Values  # q, shape (devices,)
    covariance: Values  # of the indicators, shape (devices, devices)


def with_replacement(draw_probability: ArrayLike, draws: int) -> Participation:
    r"""The distinct results of m draws with replacement, exactly.

    :math:`P(I_i I_j = 1) = 1 - (1-\omega_i)^m - (1-\omega_j)^m + (1-\omega_i-\omega_j)^m`.

    Example:
        >>> with_replacement([0.5, 0.5], 1).covariance.tolist()
        [[0.25, -0.25], [-0.25, 0.25]]
    """
    omega = finite_array("draw_probability", draw_probability, allow_zero=True)
    whole_number("draws", draws)
    away = (1.0 - omega) ** draws
    both_away = np.maximum(1.0 - omega[:, None] - omega[None, :], 0.0) ** draws
    np.fill_diagonal(both_away, away)
    # Cov(I_i, I_j) is the covariance of the two staying away.
    return Participation(
        probability=1.0 - away, covariance=both_away - away[:, None] * away[None, :]
    )


# (x - 1)^2 / 2 and (x + 1)^2 / 2: the smallest problem on which Theorem 1 fails.
TWO_QUADRATICS = Quadratics(curvature=np.array([1.0]), minimum=np.array([[1.0], [-1.0]]))


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientPath:
    """Expectations over rounds."""

    gradient_sq: Values  # E ||grad f(x_t)||^2 for t = 0 .. T - 1
    start_gap: float  # f(x_0) less the minimum
    final_gap: float  # E f(x_T) less the minimum


@dataclass(frozen=True, kw_only=True, eq=False)
class _Round:
    """What one round does to the moments of each coordinate."""

    keep: Values  # E x' = keep * E x
    keep_sq: Values  # E x'^2 = keep_sq * E x^2 + cross * E x + add
    cross: Values
    add: Values


def gradient_path(
    problem: Quadratics,
    rounds: list[Participation],
    *,
    start: ArrayLike,
    learning_rate: float,
    steps: int,
) -> GradientPath:
    """The squared gradient norm after each round of Algorithm 1, in expectation, exactly.

    Args:
        problem: the devices' losses.
        rounds: the design of each round.
        start: x_0, shape (d,).
        learning_rate: gamma.
        steps: K.

    Example:
        >>> half = with_replacement([0.5, 0.5], 1)
        >>> path = gradient_path(TWO_QUADRATICS, [half] * 3, start=[0.0], learning_rate=0.1,
        ...                      steps=1)
        >>> path.gradient_sq.round(4).tolist()
        [0.0, 0.01, 0.0181]
    """
    shifted = np.asarray(start, dtype=np.float64) - problem.minimum.mean(axis=0)
    mean, second = shifted, shifted**2
    seen: dict[int, _Round] = {}
    gradient_sq = np.empty(len(rounds))
    for t, each in enumerate(rounds):
        gradient_sq[t] = float((problem.curvature**2 * second).sum())
        if id(each) not in seen:
            seen[id(each)] = _round(problem, each, learning_rate, steps)
        now = seen[id(each)]
        second = now.keep_sq * second + now.cross * mean + now.add
        mean = now.keep * mean
    return GradientPath(
        gradient_sq=gradient_sq,
        start_gap=float(0.5 * (problem.curvature * shifted**2).sum()),
        final_gap=float(0.5 * (problem.curvature * second).sum()),
    )


def stationary_gradient_norm(
    problem: Quadratics, each: Participation, *, learning_rate: float, steps: int
) -> float:
    """What E ||grad f||^2 and its time average tend to if every round is alike; maybe infinity.

    Example:
        >>> half = with_replacement([0.5, 0.5], 1)
        >>> value = stationary_gradient_norm(TWO_QUADRATICS, half, learning_rate=0.1, steps=1)
        >>> round(value * (2 - 0.1), 12)  # gamma / (2 - gamma)
        0.1
    """
    now = _round(problem, each, learning_rate, steps)
    if not (now.keep_sq < 1.0).all():
        return float("inf")
    return float((problem.curvature**2 * now.add / (1.0 - now.keep_sq)).sum())


def _round(problem: Quadratics, each: Participation, gamma: float, steps: int) -> _Round:
    q, devices = each.probability, len(problem.minimum)
    if q.shape != (devices,) or not ((q > 0.0) & (q <= 1.0)).all():
        raise InputError(f"probability must hold {devices} values in (0, 1], got {q.tolist()}")
    spread = each.covariance / np.outer(q, q) / devices**2
    offset, shrink = problem.offset, 1.0 - gamma * problem.curvature
    move = 1.0 - shrink**steps  # of the K local steps together
    step_noise = gamma**2 * problem.noise_sq / problem.curvature.size
    local_noise = step_noise * (shrink[:, None] ** (2 * np.arange(steps))).sum(axis=1)
    weights, pulls = float(spread.sum()), spread.sum(axis=0) @ offset
    return _Round(
        keep=1.0 - move,
        keep_sq=(1.0 - move) ** 2 + move**2 * weights,
        cross=-2.0 * move**2 * pulls,
        add=move**2 * ((spread @ offset) * offset).sum(axis=0)
        + local_noise * float((1.0 / q).sum()) / devices**2,
    )
