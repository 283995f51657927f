"""Random probability problems for the solver and for its slow twin."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "TWO_MINIMA_ON_ONE_BRANCH",
    "DrawProblem",
    "draw_problems",
    "feasible_floor",
    "objective",
    "prices",
    "sample_problem",
    "weights",
]

_MOST_T = 15.0  # floors closer to 1 than exp(-15) would be rounded away in q itself


@dataclass(frozen=True, kw_only=True)
class DrawProblem:
    """Arguments of a probability problem with draws; ``**problem.arguments`` calls a solver."""

    price: NDArray[np.float64]
    weight: float | NDArray[np.float64]
    draws: int
    floor: float = 0.0

    @property
    def arguments(self) -> dict[str, object]:
        return {
            "price": self.price,
            "weight": self.weight,
            "draws": self.draws,
            "floor": self.floor,
        }


# Equal weights. The cheapest device has two minima and a saddle on its falling branch, at omega
# 0.287, 0.307 and 0.326, and no minimum has all devices rising; the first is the better by 1e-7.
TWO_MINIMA_ON_ONE_BRANCH = DrawProblem(
    price=np.array([1.155524, 1.156048, 1.156966, 1.524959]), weight=1.0, draws=10
)


def objective(price: ArrayLike, weight: ArrayLike, probability: ArrayLike) -> float:
    """Sum of weight / q + price * q over the last axis."""
    b, a, q = (np.asarray(x, dtype=np.float64) for x in (price, weight, probability))
    return float(np.sum(a / q + b * q, axis=-1))


def feasible_floor(devices: int, draws: int, share: float) -> float:
    """The floor that takes this share of the simplex, 0 where it cannot be told from 1."""
    if devices == 1:
        return share
    t = -draws * np.log1p(-share / devices)
    return float(-np.expm1(-t)) if t < _MOST_T else 0.0


def prices(devices: int) -> st.SearchStrategy[NDArray[np.float64]]:
    """Spread over nine decades, or near-ties: equal up to 1e-12, 1e-6 or a few per cent."""
    exponent = st.floats(-4.0, 5.0)
    wild = st.lists(exponent, min_size=devices, max_size=devices).map(
        lambda e: np.power(10.0, np.array(e))
    )
    steps = st.lists(st.integers(-3, 3), min_size=devices, max_size=devices)
    tied = st.builds(
        lambda e, s, gap: 10.0**e * (1.0 + gap * np.array(s, dtype=np.float64)),
        exponent,
        steps,
        st.sampled_from([0.0, 1e-12, 1e-6, 0.03]),
    )
    return st.one_of(wild, tied)


def weights(devices: int) -> st.SearchStrategy[float | NDArray[np.float64]]:
    """One number for all, or one each, often repeated, over four decades."""
    one = st.floats(-2.0, 2.0).map(lambda e: 10.0**e)
    few = st.sampled_from([0.01, 0.1, 1.0, 1.0 + 1e-12, 3.0, 100.0])
    each = st.lists(st.one_of(few, one), min_size=devices, max_size=devices).map(np.array)
    return st.one_of(one, each)


@st.composite
def draw_problems(
    draw: st.DrawFn,
    *,
    min_devices: int = 1,
    max_devices: int = 8,
    equal_weights: bool = False,
    floors: bool = True,
) -> DrawProblem:
    """Feasible problems with draws, from convex ones to those with many local minima."""
    devices = draw(st.integers(min_devices, max_devices))
    draws = draw(st.one_of(st.sampled_from([1, 2, 5, 10, 1000]), st.integers(1, 1000)))
    weight = draw(weights(1 if equal_weights else devices))
    if equal_weights:
        weight = float(np.max(weight))
    share = draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9, 0.999])) if floors else 0.0
    return DrawProblem(
        price=draw(prices(devices)),
        weight=weight,
        draws=draws,
        floor=feasible_floor(devices, draws, share),
    )


def sample_problem(
    random: np.random.Generator, *, devices: int, equal_weights: bool = False, floors: bool = True
) -> DrawProblem:
    """One seeded problem of the same kind, rich in problems with several local minima."""
    draws = int(random.choice([1, 2, 3, 5, 10, 30, 100, 1000]))
    price = 10.0 ** random.uniform(-4.0, 5.0, devices)
    kind = random.integers(4)
    if kind == 0:
        price = price[0] * (1.0 + 1e-12 * random.standard_normal(devices))
    elif kind == 1:
        price = price[0] * (1.0 + 0.3 * random.random(devices))
    weight = 10.0 ** random.uniform(-2.0, 2.0, 1 if equal_weights else devices)
    if kind == 2:  # alone, each device would take less than its share: room for a leader
        price = (
            weight * max(1.0, (devices / draws) ** 2) * 10.0 ** random.uniform(0.0, 2.0, devices)
        )
    share = float(random.choice([0.0, 0.0, 0.1, 0.9])) if floors else 0.0
    return DrawProblem(
        price=price,
        weight=float(weight[0]) if equal_weights else weight,
        draws=draws,
        floor=feasible_floor(devices, draws, share),
    )
