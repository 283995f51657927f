"""The numbers the paper prints, to stand beside ours."""

import math
from collections.abc import Mapping, Sequence

__all__ = ["BEST_CONFIGURATIONS", "SECONDS_TO_TARGET", "SPEEDUPS"]

# (channel, draws, computation time) -> how many times sooner than uniform, to accuracy 0.775.
SPEEDUPS = {
    ("heterogeneous", 1, 0.0): 1.3,
    ("heterogeneous", 10, 0.0): 8.5,
    ("heterogeneous", 5, 2.0): 1.31,
    ("homogeneous", 1, 0.0): 1.24,
    ("homogeneous", 10, 0.0): 6.7,
}

# (policy, draws) -> seconds to 0.775, heterogeneous channels, instantaneous computation.
SECONDS_TO_TARGET = {("lyapunov", 10): 5_339.0, ("uniform", 10): 45_748.0}

# (channel, policy, alpha) -> [(from, to, draws, lambda)] by computation time. The homogeneous
# table gives two targets (0.74, 0.73) for one case and leaves 1.3 to 1.8 s open; as printed.
BEST_CONFIGURATIONS: Mapping[
    tuple[str, str, float], Sequence[tuple[float, float, int, int | None]]
] = {
    ("heterogeneous", "lyapunov", math.inf): [
        (0.0, 0.83, 1, 100), (0.83, 2.3, 10, 100), (2.3, 7.5, 5, 10), (7.5, 16.3, 10, 10),
        (16.3, math.inf, 10, 1),
    ],
    ("heterogeneous", "lyapunov", 1.0): [
        (0.0, 0.61, 1, 100), (0.61, 3.1, 10, 100), (3.1, 15.6, 5, 1), (15.6, math.inf, 10, 1),
    ],
    ("heterogeneous", "lyapunov", 0.0): [
        (0.0, 0.26, 1, 100), (0.26, 1.8, 10, 100), (1.8, math.inf, 10, 10),
    ],
    ("heterogeneous", "uniform", math.inf): [(0.0, 2.0, 1, None), (2.0, math.inf, 5, None)],
    ("heterogeneous", "uniform", 1.0): [
        (0.0, 0.84, 1, None), (0.84, 46.0, 5, None), (46.0, math.inf, 10, None),
    ],
    ("heterogeneous", "uniform", 0.0): [
        (0.0, 0.74, 1, None), (0.74, 6.1, 5, None), (6.1, math.inf, 10, None),
    ],
    ("homogeneous", "lyapunov", math.inf): [
        (0.0, 2.48, 1, 100), (2.48, 13.1, 5, 100), (13.1, math.inf, 10, 1),
    ],
    ("homogeneous", "lyapunov", 1.0): [
        (0.0, 0.69, 1, 100), (0.69, 10.1, 10, 100), (10.1, math.inf, 10, 1),
    ],
    ("homogeneous", "uniform", math.inf): [(0.0, 2.5, 1, None), (2.5, math.inf, 5, None)],
    ("homogeneous", "uniform", 1.0): [
        (0.0, 1.3, 1, None), (1.8, 18.0, 5, None), (18.0, math.inf, 10, None),
    ],
}  # fmt: skip
