r"""Sizes of updates: which of them each device sends.

An update of size k that is sent with probability q adds :math:`a (1 + \omega_k) / q` to the
objective and costs :math:`b_k q`. At the best q their sum is :math:`2 \sqrt{a (1 + \omega_k) b_k}`:
the size to send has the least product :math:`(1 + \omega_k) b_k`, whatever a is.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsched.errors import InputError
from fedsched.policies.pricing import Pricing, Queues
from fedsched.solve.uplink import AbstractLink
from fedsched.values import PerDevice, Plan, Sizes

__all__ = ["Offer", "cheapest", "resized"]

Sized = TypeVar("Sized")
# (1 + omega) and price, both of shape (sizes, devices), to what is to be least.
Worth = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def resized(policy: Sized, bits: float) -> Sized:
    """The same policy for updates of another size: every link within it has the new bits.

    Example:
        >>> from fedsched.policies import make_policy
        >>> from fedsched.solve.uplink import PAPER_UPLINK
        >>> resized(make_policy("uniform", uplink=PAPER_UPLINK), 1000.0).system.link.bits
        1000.0
    """
    new: Sized = _resized(policy, bits)
    if new is policy:
        raise InputError(
            f"policy: {type(policy).__name__} has no link whose bits could change from round to "
            "round; let it have a field `system`, or choose one compressor for all rounds"
        )
    return new


def _resized(thing: Any, bits: float) -> Any:
    if isinstance(thing, AbstractLink) and dataclasses.is_dataclass(thing):
        return dataclasses.replace(thing, bits=bits)
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return thing
    old = {each.name: getattr(thing, each.name) for each in dataclasses.fields(thing) if each.init}
    new = {name: _resized(value, bits) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    return dataclasses.replace(thing, **changed) if changed else thing


class Offer(NamedTuple):
    """What each device would do in its best size, at which price."""

    plan: Plan
    price: PerDevice
    factor: PerDevice  # 1 + omega


def _product(factor: NDArray[np.float64], price: NDArray[np.float64]) -> NDArray[np.float64]:
    return factor * price


def cheapest(
    pricing: Pricing, gain: PerDevice, queues: Queues, sizes: Sizes | None, worth: Worth = _product
) -> Offer:
    """Each device in the size of least worth, with the power that is best for that size.

    Args:
        pricing: of one upload.
        gain: NaN where a device cannot send.
        queues: the prices of the budgets.
        sizes: to choose from; None: updates are exact and have the size of the link.
        worth: what is to be least, of 1 + omega and the price; their product.
    """
    if sizes is None or len(sizes.bits) == 1:
        plan = pricing.plan(gain, queues)
        factor = np.full(len(gain), 1.0 if sizes is None else sizes.factor[0])
        return Offer(plan, pricing.price(plan, queues), factor)
    plans = [resized(pricing, bits).plan(gain, queues) for bits in sizes.bits.tolist()]
    price = np.stack([pricing.price(plan, queues) for plan in plans])
    factor = np.broadcast_to(sizes.factor[:, None], price.shape)
    with np.errstate(divide="ignore", invalid="ignore"):  # out of reach: any size will do
        size = np.argmin(worth(factor, price), axis=0)

    def chosen(values: NDArray[np.float64]) -> PerDevice:
        return np.asarray(np.take_along_axis(values, size[None], axis=0)[0])

    plan = dataclasses.replace(
        plans[0],
        power_w=chosen(np.stack([plan.power_w for plan in plans])),
        upload_s=chosen(np.stack([plan.upload_s for plan in plans])),
        bits=sizes.bits[size],
        size=size,
    )
    return Offer(plan, chosen(price), chosen(factor))
