"""The theory, computed: the paper's bound, one that holds, and problems that tell them apart."""

from fedsched.theory.bounds import (
    Bound,
    ProblemConstants,
    corollary_step,
    corrected_bound,
    corrected_step_limit,
    least_uniform_probability,
    mean_inverse,
    printed_bound,
    printed_step_limit,
    uniform_probability,
    variance_factor,
)
from fedsched.theory.correlation import correlation_factor
from fedsched.theory.lyapunov import (
    drift_constant,
    optimality_gap,
    power_excess,
    power_excess_of_queue,
    realised_drift,
)
from fedsched.theory.quadratics import TWO_QUADRATICS, stationary_gradient_norm, with_replacement

__all__ = [
    "TWO_QUADRATICS",
    "Bound",
    "ProblemConstants",
    "corollary_step",
    "corrected_bound",
    "corrected_step_limit",
    "correlation_factor",
    "drift_constant",
    "least_uniform_probability",
    "mean_inverse",
    "optimality_gap",
    "power_excess",
    "power_excess_of_queue",
    "printed_bound",
    "printed_step_limit",
    "realised_drift",
    "stationary_gradient_norm",
    "uniform_probability",
    "variance_factor",
    "with_replacement",
]
