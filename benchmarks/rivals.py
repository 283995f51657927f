"""The same problem for general solvers, from the uniform start and with exact gradients."""

import time
from dataclasses import dataclass

import autograd.numpy as differentiable
import numpy as np
import pymanopt
from pymanopt.manifolds import Sphere
from pymanopt.optimizers import ConjugateGradient
from scipy.optimize import minimize


@dataclass(frozen=True)
class Answer:
    draw_probability: np.ndarray
    seconds: float  # of processor time
    finished: bool  # by its own criteria, not by the time limit


class _OutOfTimeError(Exception):
    pass


class _Terms:
    """Objective and gradient in omega, the best point seen, and the clock."""

    def __init__(self, price, weight, draws, limit_s):
        self.b, self.a, self.m = price, weight, draws
        self.start = time.process_time()
        self.deadline = self.start + limit_s
        self.best, self.best_cost = None, np.inf

    def cost(self, omega):
        if time.process_time() > self.deadline:
            raise _OutOfTimeError
        q = -np.expm1(self.m * np.log1p(-np.minimum(omega, 1.0 - 1e-16)))
        value = float((self.a / q + self.b * q).sum())
        if value < self.best_cost and abs(omega.sum() - 1.0) < 1e-6:
            self.best, self.best_cost = omega.copy(), value
        return value

    def gradient(self, omega):
        rest = 1.0 - np.minimum(omega, 1.0 - 1e-16)
        q = -np.expm1(self.m * np.log(rest))
        return self.m * rest ** (self.m - 1) * (self.b - self.a / q**2)

    def answer(self, omega, finished):
        return Answer(omega, time.process_time() - self.start, finished)


def solve_with_pymanopt(price, weight, draws, limit_s, start=None):
    """Riemannian conjugate gradients for omega = x^2 on the unit sphere, default criteria.

    The gradient is written out, which is several times faster than the usual way below. It starts
    at the draw probabilities ``start``, or where all are equal.
    """
    terms = _Terms(price, weight, draws, limit_s)
    sphere = Sphere(len(price))

    @pymanopt.function.numpy(sphere)
    def cost(x):
        return terms.cost(x * x)

    @pymanopt.function.numpy(sphere)
    def gradient(x):
        return 2.0 * x * terms.gradient(x * x)

    return _run(pymanopt.Problem(sphere, cost, euclidean_gradient=gradient), price, terms, start)


def solve_with_pymanopt_autograd(price, weight, draws, limit_s):
    """The same with the gradient by automatic differentiation, the usual way."""
    terms = _Terms(price, weight, draws, limit_s)
    sphere = Sphere(len(price))

    @pymanopt.function.autograd(sphere)
    def cost(x):
        q = 1.0 - (1.0 - x * x) ** draws
        return differentiable.sum(weight / q + price * q)

    return _run(pymanopt.Problem(sphere, cost), price, terms)


def _run(problem, price, terms, start=None):
    start = np.full(len(price), 1.0 / len(price)) if start is None else start
    try:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            result = ConjugateGradient(verbosity=0).run(problem, initial_point=np.sqrt(start))
        return terms.answer(result.point**2, True)
    except _OutOfTimeError:
        return terms.answer(terms.best, False)


def solve_with_slsqp(price, weight, draws, limit_s):
    """Sequential quadratic programming over the simplex, default criteria."""
    devices = len(price)
    terms = _Terms(price, weight, draws, limit_s)
    ones = np.ones(devices)
    try:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            result = minimize(
                terms.cost,
                np.full(devices, 1.0 / devices),
                jac=terms.gradient,
                method="SLSQP",
                bounds=[(1e-12, 1.0)] * devices,
                constraints={
                    "type": "eq",
                    "fun": lambda omega: omega.sum() - 1.0,
                    "jac": lambda _: ones,
                },
            )
        return terms.answer(np.clip(result.x, 1e-12, 1.0), True)
    except _OutOfTimeError:
        return terms.answer(terms.best, False)
