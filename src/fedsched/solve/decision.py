"""The whole decision of a round in one call: powers, prices, probabilities and certificate."""

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsched.checks import finite_array, one_of, positive_number, whole_number
from fedsched.errors import InputError
from fedsched.solve import _kernel
from fedsched.solve.power import log2_factor
from fedsched.solve.probabilities import DESIGNS, check_floor
from fedsched.solve.solution import RoundSolution
from fedsched.solve.uplink import Uplink
from fedsched.values import PerDevice

__all__ = ["decide"]


def decide(
    gain: ArrayLike,
    queue: ArrayLike,
    *,
    uplink: Uplink,
    v: float,
    lam: float,
    draws: int,
    design: str = "with-replacement",
    data_weight: ArrayLike | None = None,
    floor: float = 0.0,
    as_printed: bool = False,
    threads: int = 1,
) -> RoundSolution:
    r"""What the paper's policy decides in a round, given the queues Z.

    Minimises, first over the powers P and then over the probabilities q the design allows,

    .. math:: V \sum_n \Big( \frac{N p_n^2}{q_n} + \lambda \tau_n(P_n) q_n \Big)
              + \sum_n Z_n P_n q_n .

    The powers are those of :func:`~fedsched.optimal_power`, the weights
    :math:`a_n = V N p_n^2`, the prices :math:`b_n = V \lambda \tau_n + Z_n P_n`.

    Args:
        gain: |h|^2 > 0, shape (..., devices); NaN for a device out of reach.
        queue: Z >= 0, of the same shape.
        uplink: the link that is shared.
        v: V, the weight of the objective against the queues.
        lam: lambda, the price of a second of airtime.
        draws: m, the draws of a round, or the size of its cohort.
        design: "with-replacement", "fixed-size" or "independent".
        data_weight: p, each device's share of the data; equal shares if None.
        floor: the least probability of a reachable device.
        as_printed: Theorem 2 with the paper's ln(2)^2.
        threads: how many may share a long array; the bits do not depend on it.

    Example:
        >>> import fedsched
        >>> decided = fedsched.decide(
        ...     [0.5, 2.0, 9.0], [0.0, 3.0, 3.0], uplink=fedsched.PAPER_UPLINK,
        ...     v=100.0, lam=100.0, draws=2,
        ... )
        >>> decided.power_w.round(1).tolist()
        [3162.3, 74.0, 49.9]
        >>> decided.probability.round(3).tolist(), bool(decided.gap < 1e-9)
        ([0.965, 0.167, 0.191], True)
    """
    if not (v > 0 and lam > 0):
        positive_number("v", v)
        positive_number("lam", lam)
    one_of("design", design, DESIGNS)
    whole_number("draws", draws)
    if threads != 1:
        whole_number("threads", threads)
    g, z = np.ascontiguousarray(gain, dtype=float), np.ascontiguousarray(queue, dtype=float)
    if g.shape != z.shape or g.size == 0:
        raise InputError(
            f"gain and queue must have one shape and at least one device, got {g.shape} and "
            f"{z.shape}; give one queue length per device"
        )
    devices = g.shape[-1]
    if data_weight is None:
        weight = np.array([v / devices])
    else:
        weight = v * devices * finite_array("data_weight", data_weight, allow_zero=False) ** 2
        if weight.shape != (devices,):
            raise InputError(
                f"data_weight must hold one share for each of {devices} devices, got shape "
                f"{weight.shape}"
            )
    if floor != 0.0:
        check_floor(design, floor, int(np.max((g == g).sum(axis=-1))), draws, float(draws))
    cost = v * lam * uplink.bits / uplink.bandwidth_hz
    link = (cost, log2_factor(as_printed), uplink.noise_w, uplink.max_power_w)
    problem = _Problem(*link, design, draws, floor, threads)
    return problem.solved(g, z, weight) or _where_reachable(problem, g, z, weight)


class _Problem(NamedTuple):
    """What one round has in common with the next."""

    cost: float
    factor: float
    noise: float
    max_power: float
    design: str
    draws: int
    floor: float
    threads: int

    def solved(self, g: PerDevice, z: PerDevice, weight: PerDevice) -> RoundSolution | None:
        """One call of the kernel; None if it refuses a gain or a queue."""
        shape = g.shape
        power, price, q = np.empty(shape), np.empty(shape), np.empty(shape)
        omega = np.empty(shape) if self.design == "with-replacement" else None
        certificate = np.empty((*shape[:-1], 4))
        if _kernel.decide(
            g, z, power, self.cost, self.factor, self.noise, self.max_power,
            price, weight, omega, q, certificate,
            shape[-1], DESIGNS[self.design], self.draws, self.draws, self.floor, self.threads,
        ):  # fmt: skip
            return None
        return RoundSolution(
            probability=q,
            draw_probability=omega,
            objective=certificate[..., 0],
            multiplier=certificate[..., 1],
            gap=certificate[..., 2],
            power_w=power,
            price=price,
        )


def _where_reachable(
    problem: _Problem, g: PerDevice, z: PerDevice, weight: PerDevice
) -> RoundSolution:
    """Row by row, without the devices out of reach; what is refused is named."""
    near: NDArray[np.bool_] = g == g
    _check(g, near)
    finite_array("queue", np.where(near, z, 0.0), allow_zero=True)
    weights = np.broadcast_to(weight, g.shape)
    rows = [_row(problem, *each) for each in zip(*map(_rows, (g, z, weights, near)), strict=True)]

    def together(name: str) -> Any:
        values = [getattr(row, name) for row in rows]
        if values[0] is None:
            return None
        return np.stack(values).reshape(g.shape if values[0].ndim else g.shape[:-1])

    return RoundSolution(**{each.name: together(each.name) for each in fields(RoundSolution)})


def _rows(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(-1, values.shape[-1])


def _row(
    problem: _Problem, g: PerDevice, z: PerDevice, weight: PerDevice, near: NDArray[np.bool_]
) -> RoundSolution:
    """One round among those in reach, spread over all; nobody takes part if there are none."""
    if not near.any():
        zero, nothing = np.zeros(()), np.zeros(len(near))
        omega = nothing if problem.design == "with-replacement" else None
        return RoundSolution(
            probability=nothing, draw_probability=omega, power_w=nothing, price=nothing,
            objective=zero, multiplier=zero, gap=zero,
        )  # fmt: skip
    found = problem.solved(g[near], z[near], weight[near])
    if found is None:
        raise InputError(
            "the prices of this round are beyond what a double holds; check the units of gain, "
            "queue, v and lam"
        )

    def spread(values: PerDevice) -> PerDevice:
        full = np.zeros(len(near))
        full[near] = values
        return full

    return replace(
        found,
        probability=spread(found.probability),
        draw_probability=None if found.draw_probability is None else spread(found.draw_probability),
        power_w=spread(found.power_w),
        price=spread(found.price),
    )


def _check(gain: PerDevice, reachable: NDArray[np.bool_]) -> None:
    bad = reachable & ~((gain > 0.0) & (gain < np.inf))
    if bad.any():
        where = ", ".join(str(int(i)) for i in np.argwhere(bad)[0])
        raise InputError(
            f"gain[{where}] must be positive and finite, or NaN for a device out of reach, "
            f"got {gain[bad][0]}"
        )
