"""How much the draws of one round depend on each other: the kappa that a schedule really has."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.checks import whole_number
from fedsched.theory.bounds import mean_inverse

__all__ = ["correlation_factor"]


def correlation_factor(probability: ArrayLike, draws: int) -> float:
    r"""The largest :math:`\lambda_{\max}` of the correlation matrices of draws with replacement.

    With m draws of a device with probability p it is absent with :math:`a = (1-p)^m = 1 - q`, and
    two are both absent with :math:`(1-p_i-p_j)^m`. So the covariance of their indicators is
    :math:`(1-p_i-p_j)^m - a_i a_j`. The worst case over all schedules is 2, see
    :func:`fedsched.theory.variance_factor`; it takes a fleet of two.

    Args:
        probability: q of each round and device, shape (rounds, devices).
        draws: m.

    Example:
        >>> round(correlation_factor([[0.5, 0.5]], 1), 12)
        2.0
        >>> round(correlation_factor([[1 - 0.99**10] * 100], 10), 4)
        1.0096
    """
    whole_number("draws", draws)
    mean_inverse(probability)  # checks it
    q = np.asarray(probability, dtype=np.float64)
    return max(_factor(each, draws) for each in np.unique(q, axis=0))


def _factor(q: NDArray[np.float64], draws: int) -> float:
    absent = 1.0 - q
    p = 1.0 - absent ** (1.0 / draws)
    both = np.maximum(1.0 - p[:, None] - p[None, :], 0.0) ** draws
    covariance = both - absent[:, None] * absent[None, :]
    np.fill_diagonal(covariance, q * absent)
    deviation = np.sqrt(q * absent)
    sure = deviation == 0.0  # certain to take part: no variance, and nothing to bound
    scale = np.where(sure, 0.0, 1.0 / np.where(sure, 1.0, deviation))
    return float(np.linalg.eigvalsh(covariance * scale[:, None] * scale[None, :])[-1])
