"""The bound of a finished run, beside the gradients that it really had.

What is measured: the squared gradient of the training loss over all devices, at the first model,
at a checkpoint that it keeps, and at the last; or at more rounds by training again, to the bit.
What is estimated: L, nu^2 and epsilon^2, the largest over those models of the run. The theory wants
suprema over all models, so the bound that comes out may be too small for this reason.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsched.checks import whole_number
from fedsched.errors import InputError, RunLogError, require
from fedsched.randomness import stream
from fedsched.rounds import Training, train
from fedsched.runs.assembly import air_of, channel_of, schedule_of, trainer_spec_of
from fedsched.runs.checkpoint import read_checkpoint
from fedsched.runs.manifest import MODEL, PACKED, run_id
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, scenario_from
from fedsched.runs.sections import PolicySection
from fedsched.theory.bounds import (
    Bound,
    ProblemConstants,
    corrected_bound,
    corrected_step_limit,
    mean_inverse,
    printed_bound,
    printed_step_limit,
    variance_factor,
)
from fedsched.theory.correlation import correlation_factor
from fedsched.theory.lyapunov import optimality_gap, realised_drift

__all__ = ["RunBound", "bound_of_run", "schedule_probabilities"]

Parameters: TypeAlias = NDArray[np.float32]
Values: TypeAlias = NDArray[np.float64]

# Policies that weigh by 1 / (N q) and draw by a design whose kappa is known.
_BOUNDED = ("full", "lyapunov", "uniform")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunBound:
    """What the theory says of a run, and what was measured."""

    rounds: int
    learning_rate: float
    constants: ProblemConstants
    intervals: dict[str, tuple[float, float]]  # of L, nu^2 and epsilon^2, by field
    kappa: float  # the largest of the run's rounds, or of the design
    realised_drift_gap: float | None  # realised D / V; None without queues or one budget for all
    inverse: Values  # Q_t
    least_probability: float
    start_gap: float  # f(x_0), since no loss is below 0
    measured_round: NDArray[np.int64]
    measured_gradient_sq: Values
    ended_early: bool = False  # by run.stop_accuracy, so that luck chose the number of rounds

    def printed(self, learning_rate: float | None = None) -> Bound:
        """Theorem 1 at the run's step, or at another."""
        return printed_bound(
            self.constants,
            self.inverse,
            learning_rate=learning_rate or self.learning_rate,
            start_gap=self.start_gap,
            least_probability=self.least_probability,
        )

    def corrected(self, learning_rate: float | None = None, *, rounds: int | None = None) -> Bound:
        """The bound that holds, at the run's step or another, after all rounds or fewer."""
        return corrected_bound(
            self.constants,
            self.inverse[:rounds],
            learning_rate=learning_rate or self.learning_rate,
            start_gap=self.start_gap,
            kappa=self.kappa,
        )

    @property
    def printed_step_limit(self) -> float:
        """The largest step of Theorem 1."""
        return printed_step_limit(self.constants, self.least_probability)

    @property
    def corrected_step_limit(self) -> float:
        """A step for which the corrected bound holds."""
        return corrected_step_limit(self.constants, self.inverse, kappa=self.kappa)

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as strict JSON takes it."""
        limit = self.corrected_step_limit
        names = ("smoothness", "noise_sq", "divergence_sq")
        return {
            "rounds": self.rounds,
            "ended_early": self.ended_early,
            "learning_rate": self.learning_rate,
            "devices": self.constants.devices,
            "steps": self.constants.steps,
            "constants": {
                name: {
                    "value": getattr(self.constants, name),
                    "low": self.intervals[name][0],
                    "high": self.intervals[name][1],
                }
                for name in names
            },
            "kappa": self.kappa,
            "realised_drift_gap": self.realised_drift_gap,
            "mean_inverse_probability": float(self.inverse.mean()),
            "least_probability": self.least_probability,
            "start_gap": self.start_gap,
            "measured": {
                "round": self.measured_round.tolist(),
                "gradient_sq": self.measured_gradient_sq.tolist(),
            },
            "printed_step_limit": self.printed_step_limit,
            "corrected_step_limit": limit,
            "printed": self.printed().as_dict(),
            "corrected": self.corrected().as_dict(),
            "corrected_at_its_step_limit": self.corrected(limit).as_dict(),
        }


def schedule_probabilities(scenario: Scenario, *, bits: float, rounds: int) -> Values:
    """The q's of a scenario's first rounds, shape (rounds, devices), without any training."""
    return _schedule(scenario, bits, rounds)[0]


def _schedule(scenario: Scenario, bits: float, rounds: int) -> tuple[Values, Values]:
    """The q's, and the expected powers P q."""
    running = schedule_of(scenario, int(bits) // 32)
    both = [
        (done.decision.probability, done.decision.expected_power_w)
        for done in islice(running, rounds)
    ]
    return np.array([q for q, _ in both]), np.array([spent_w for _, spent_w in both])


def bound_of_run(
    folder: str | Path,
    *,
    replay_every: int | None = None,
    devices: int = 10,
    batches: int = 32,
    track: Callable[..., Iterable[Any]] = lambda items, **_: items,
) -> RunBound:
    """Measure a finished run and compute its bounds. Imports torch.

    Args:
        folder: of the run.
        replay_every: train again and measure the gradient every so many rounds; without it, only
            at the models that the folder holds and at the first.
        devices: on how many devices L and nu^2 are estimated.
        batches: minibatches for each.
        track: passes items through, with their ``total`` and a ``label``, to show how far it is.
    """
    log = read_run(folder)
    if not log.finished:
        raise RunLogError(f"{str(folder)!r} is not finished; run it to its end first")
    if replay_every is not None:
        whole_number("replay_every", replay_every)
    scenario, bits = scenario_from(log.manifest["scenario"]), float(log.manifest["update_bits"])
    if PACKED in log.manifest:
        raise RunLogError(
            f"{str(folder)!r} is a packed copy, which holds no models, and gradients are measured "
            "at models; name the folder the run was made in, or run it again"
        )
    _check_bounded(scenario)
    if rejected := int(log.column("rejected").sum()):
        raise InputError(
            f"{str(folder)!r} left out {rejected} updates that were not finite, and the bounds are "
            "for runs that use every update; train with a smaller training.learning_rate"
        )
    q, spent_w = _schedule(scenario, bits, log.rounds)
    if not (q > 0.0).all():
        t = int(np.argmin(q.min(axis=1)))
        raise InputError(
            f"round {t}: a device is out of reach, so its probability is 0 and neither bound says "
            "anything; use a channel that reaches everybody"
        )
    inverse = mean_inverse(q)
    if not np.allclose(inverse, log.column("mean_inverse_probability"), rtol=1e-9, atol=0.0):
        raise RunLogError(
            f"{str(folder)!r} was scheduled otherwise than its scenario says; was it made by "
            "another version, or has its trace changed?"
        )
    return replace(
        _measured(log, scenario, q, replay_every, devices, batches, track),
        realised_drift_gap=_drift_gap(scenario, spent_w),
    )


def _drift_gap(scenario: Scenario, spent_w: Values) -> float | None:
    """By how much the mean objective of these rounds may exceed the best, of the paper's policy."""
    policy, budget_w = scenario.policy, scenario.uplink.budget_w
    if policy.kind != "lyapunov" or policy.scale_v or not isinstance(budget_w, float | int):
        return None
    if not np.isfinite(spent_w).all() or not np.isfinite(budget_w):
        return None
    return optimality_gap(realised_drift(spent_w, budget_w), policy.v)


def _kappa(policy: PolicySection, q: Values) -> float:
    """The largest of the rounds where it is known, else that of the design."""
    if policy.kind == "full":
        return 1.0
    if policy.design == "with-replacement":
        return correlation_factor(q, policy.draws)
    return variance_factor(policy.design, q.shape[1], uniform=policy.kind == "uniform")


def _check_bounded(scenario: Scenario) -> None:
    """Refuse what both bounds say nothing of: they are for steps (1/N) sum I/q of new updates."""
    kind, sizes = scenario.policy.kind, scenario.data.samples
    if not isinstance(sizes, int) and len(set(sizes)) > 1:
        raise InputError(
            f"data.samples has sizes from {min(sizes)} to {max(sizes)}, so devices weigh by their "
            "shares of the data, and the bounds are for equal weights 1/N; give all devices the "
            "same number of samples"
        )
    if scenario.training.aggregator != "sum":
        raise InputError(
            f"training.aggregator = {scenario.training.aggregator!r} moves the model by updates of "
            "earlier rounds as well, and the bounds are for those of the round alone; use "
            'aggregator = "sum"'
        )
    if scenario.training.compress != "none":
        raise InputError(
            f"training.compress = {scenario.training.compress!r} adds the variance of its rounding "
            "to every update, and the bounds are for updates as they are; run it with "
            'compress = "none"'
        )
    if kind not in _BOUNDED:
        raise InputError(
            f"policy.kind: {kind!r} chooses in a way of its own, whose probabilities or variance "
            f"are not known here; run one of {', '.join(_BOUNDED)}"
        )


def _measured(
    log: RunLog, scenario: Scenario, q: Values, replay_every: int | None, devices: int,
    batches: int, track: Callable[..., Iterable[Any]],
) -> RunBound:  # fmt: skip
    require("torch", extra="torch", purpose="measuring the gradients of a run")
    from fedsched.learning.constants import Effort, estimate_constants, measure_gradient
    from fedsched.learning.models import build_model, flatten

    spec = trainer_spec_of(scenario, q.shape[1], "cpu")
    dataset, partition = spec.data()
    model = build_model(spec.model, dataset, spec.seed)
    held = {0: flatten(model).copy(), **_models(log)}
    where: dict[str, Any] = {"model": model, "dataset": dataset, "partition": partition}
    found = [
        estimate_constants(
            parameters=held[t], batch_size=spec.batch_size,
            effort=Effort(devices=devices, batches=batches),
            random=stream(scenario.run.seed, "bound", t), **where,
        )
        for t in track(sorted(held), total=len(held), label="gradients at models")
    ]  # fmt: skip
    gradients = dict(zip(sorted(held), (each.gradient_sq for each in found), strict=True))
    if replay_every is not None:
        again = _replayed(log, scenario, q.shape[1])
        for t, parameters in track(again, total=log.rounds, label="training again"):
            if t % replay_every == 0 and t not in gradients:
                gradients[t], _ = measure_gradient(parameters=parameters, **where)
    largest: dict[str, Any] = {}
    intervals = {}
    for name in ("smoothness", "noise_sq", "divergence_sq"):
        top = max((getattr(each, name) for each in found), key=lambda estimate: estimate.value)
        largest[name], intervals[name] = top.value, (top.low, top.high)
    measured = np.array(sorted(gradients), dtype=np.int64)
    return RunBound(
        rounds=log.rounds,
        learning_rate=spec.learning_rate,
        constants=ProblemConstants(devices=q.shape[1], steps=spec.steps, **largest),
        intervals=intervals,
        kappa=_kappa(scenario.policy, q),
        realised_drift_gap=None,
        inverse=mean_inverse(q),
        least_probability=float(q.min()),
        start_gap=found[0].loss,
        measured_round=measured,
        measured_gradient_sq=np.array([gradients[t] for t in measured.tolist()]),
        ended_early=log.rounds < scenario.run.rounds,
    )


def _models(log: RunLog) -> dict[int, Parameters]:
    """The models that a run folder holds, by the rounds done."""
    with np.load(log.folder / MODEL, allow_pickle=False) as arrays:
        models: dict[int, Parameters] = {log.rounds: arrays["parameters"]}
    newest = read_checkpoint(log.folder, before=log.rounds, run=run_id(log.manifest))
    if newest is not None:
        models[newest.round] = newest.parameters
    return models


def _replayed(log: RunLog, scenario: Scenario, devices: int) -> Iterator[tuple[int, Parameters]]:
    """Every model of a run again, by the rounds done."""
    from fedsched.learning.pool import training_pool

    with training_pool(trainer_spec_of(scenario, devices, "cpu"), workers=1) as pool:
        air = air_of(scenario, channel_of(scenario), len(pool.initial_parameters))
        unmeasured = Training(pool=pool, eval_every=log.rounds, last_round=log.rounds - 1)
        for done, state in train(air, unmeasured, pool.initial_parameters):
            yield state.round, done.parameters
