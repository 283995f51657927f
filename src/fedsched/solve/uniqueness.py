r"""Bounds that prove how many stationary points one round's problem has.

All of them are about the case in which too little is wanted (see ``newton``): k, the cheapest
device, may sit on its falling branch and leave :math:`U = 1 - \omega_k` to the others.
"""

import math

import numpy as np

from fedsched.solve.blocks import blocks
from fedsched.solve.response import Cheapest, Values, newton_step

__all__ = ["count_falling", "no_root_at_all", "none_rising", "one_root_at_most"]

_SHRINKS = 8
_SCAN = 16
_SWEEPS = 16
# Where minima merge no scan is fine enough; the search has a better way.
_MOST_SCANNED = 512
# Bounds are pushed outwards by this much, far more than rounding can move them.
_SLACK = 1e-12


def one_root_at_most(k: Cheapest, floor: float) -> bool:
    """Whether no two stationary points exist, and none has k on its rising branch.

    While k sits at or beyond its inflection the others pay at most ``nu``. So each of their q is
    at most the fixed point of q = (b - nu kappa(q) / m)^(-1/2) that is reached from above; their
    sum bounds U, and U bounds nu again. U - others(U) rises all the way to that bound, and hence
    has one root, if the steepest response of the others times the steepest rise of nu is below 1.
    """
    m, r = k.m, (k.m - 1) / k.m
    log_rest = np.empty_like(k.others)
    nu, _ = k.price_of(k.rest_turn)
    for shrink in range(_SHRINKS):
        upper = slope = 0.0
        for block in blocks(len(log_rest)):
            if shrink == 0:
                # At its inflection k pays nu kappa / m = b_k - y_k, the others no more than that.
                q = k.others[block] - (k.b - k.y_turn)
            else:
                q = np.exp(log_rest[block] * -r)
                q *= -nu / m
                q += k.others[block]
            np.sqrt(q, out=q)
            np.divide(1.0, q, out=q)
            if floor > 0.0:
                np.maximum(q, floor, out=q)
            rest = np.log1p(-q, out=log_rest[block])
            w = np.expm1(rest * (1.0 / m))
            # The curvature of a device's term, its price eliminated by stationarity.
            curvature = np.exp(rest * (2.0 * r))
            curvature *= 2.0 * m * m
            curvature /= q * q * q
            upper -= float(w.sum())
            w += 1.0
            np.divide((m - 1) * nu, w, out=w)
            curvature -= w
            if not float(curvature.min()) > 0.0:
                slope = math.inf
            np.divide(1.0, curvature, out=curvature)
            slope += float(curvature.sum())
        upper *= 1.0 + _SLACK
        if upper < k.rest_turn:
            steepest = m * (m - 1) * upper ** (m - 2) * (k.b - 1.0)
            if slope * steepest < 1.0 - 1e-9:
                return True
        nu, _ = k.price_of(min(upper, k.rest_turn))
    return False


def no_root_at_all(k: Cheapest, floor: float, least: float) -> bool:
    """Whether no stationary point has k on its falling branch.

    The mirror image: the others take at least what they want alone, so U and nu are at least so
    much, so the others take at least so much more; if U is pushed past the inflection, k has
    nowhere to fall.
    """
    m, r = k.m, (k.m - 1) / k.m
    lower = least * (1.0 - _SLACK)
    q = 1.0 / np.sqrt(k.others)
    np.maximum(q, floor, out=q)
    for _ in range(_SHRINKS):
        if lower > k.rest_turn:
            return True
        nu, _ = k.price_of(lower)
        y = np.exp(np.log1p(-q) * -r)
        y *= -nu / m
        y += k.others
        np.maximum(y, k.y_turn, out=y)
        q = 1.0 / np.sqrt(y)
        np.maximum(q, floor, out=q)
        pushed = -float(np.expm1(np.log1p(-q) * (1.0 / m)).sum()) * (1.0 - _SLACK)
        if pushed < lower * 1.001:
            return False
        lower = pushed
    return False


def count_falling(k: Cheapest, floor: float, least: float) -> int | None:
    """How many minima have k on its falling branch; None if a scan of U cannot tell.

    Between two points s < t of the scan, others(s) > t or others(t) < s excludes a stationary
    point. Where one is possible, U - others(U) must be provably rising (a minimum where it
    changes sign) or provably falling (none); where neither can be told the scan is refined.
    """
    if not least < k.rest_turn:
        return 0
    rest = np.linspace(least * (1.0 - _SLACK), k.rest_turn, _SCAN)
    others, slope = _responses(k, floor, rest)
    for _ in range(_SHRINKS):
        unclear, count = [], 0
        for i in range(len(rest) - 1):
            s, t = float(rest[i]), float(rest[i + 1])
            if others[i] * (1.0 - 1e-9) > t or others[i + 1] * (1.0 + 1e-9) < s:
                continue
            flattest, steepest = k.price_slopes(s, t)
            # The response of the others rises with U, so its ends bound it.
            if slope[i + 1] * max(steepest, 0.0) < 1.0 - 1e-9:
                count += bool(s < others[i] and t >= others[i + 1])
            elif not slope[i] * max(flattest, 0.0) > 1.0 + 1e-9:
                unclear.append(i)
        if not unclear:
            return count
        if len(rest) + 6 * len(unclear) > _MOST_SCANNED:
            break
        inner = np.concatenate([np.linspace(rest[i], rest[i + 1], 8)[1:-1] for i in unclear])
        inner_others, inner_slope = _responses(k, floor, inner)
        order = np.argsort(np.concatenate([rest, inner]))
        rest = np.concatenate([rest, inner])[order]
        others = np.concatenate([others, inner_others])[order]
        slope = np.concatenate([slope, inner_slope])[order]
    return None


def none_rising(k: Cheapest, floor: float, least: float) -> bool:
    """Whether the sum stays below 1 up to k's inflection, so that no point has all rising."""
    if not least < k.rest_turn:
        return False
    (others,), _ = _responses(k, floor, np.array([k.rest_turn]))
    return bool(others < k.rest_turn * (1.0 - 1e-9))


def _responses(k: Cheapest, floor: float, rest: Values) -> tuple[Values, Values]:
    """What the others take when k leaves each of ``rest``, and its derivative in nu.

    Not a number where Newton's method has not settled.
    """
    nu = np.array([k.price_of(each)[0] for each in rest.tolist()])
    others, slope = np.zeros(len(rest)), np.zeros(len(rest))
    for block in blocks(len(k.others)):
        b = k.others[block]
        for points in blocks(len(rest), len(b)):
            taken, response = _settle(k, b, floor, nu[points, np.newaxis])
            others[points] += taken
            slope[points] += response
    return others, slope


def _settle(k: Cheapest, b: Values, floor: float, nu: Values) -> tuple[Values, Values]:
    """The sums over devices of what they take at each nu, and of its derivative.

    They start where kappa is 1, above the root, from where Newton's method on a convex function
    comes down to it step by step.
    """
    y_most = b if floor == 0.0 else np.minimum(b, 1.0 / floor**2)
    y = np.clip(b - nu / k.m, k.y_turn, y_most)
    step, response = np.empty_like(y), np.empty_like(y)
    for _ in range(_SWEEPS):
        omega, fall = newton_step(y, b, nu, k.m, floor, step=step, response=response)
        moved = (fall * np.abs(step)).sum(axis=1)
        settled = moved <= 1e-7
        if settled.all():
            break
        y = np.clip(y - step, k.y_turn, y_most)
    taken, slope = (omega + fall * step).sum(axis=1), (fall * response).sum(axis=1)
    return np.where(settled, taken, np.nan), np.where(settled, slope, np.nan)
