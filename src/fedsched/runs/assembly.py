"""Assembly: the link, the policy, the schedule and the trainer that a scenario describes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedsched.errors import InputError
from fedsched.learning.aggregation import AbstractAggregator, make_aggregator
from fedsched.learning.compression import Sending, make_compressors
from fedsched.learning.influence import bounded
from fedsched.learning.pool import AbstractTrainingPool
from fedsched.learning.spec import TrainerSpec
from fedsched.policies import (
    AbstractBudget,
    AbstractPolicy,
    Airtime,
    AveragePower,
    Energy,
    Participation,
    System,
    Traffic,
    build_policy,
    policy_info,
)
from fedsched.policies.auto import FIRST_CREDIT
from fedsched.radio import AbstractChannel, Trace, make_channel
from fedsched.radio.access import AbstractAccess, AbstractOFDMA, make_access
from fedsched.radio.units import Quantity
from fedsched.rounds import Air, Training, scheduled_rounds
from fedsched.runs.scenario import Scenario
from fedsched.solve.uplink import AbstractLink, RateLink, Uplink
from fedsched.values import PerDevice, ScheduledRound, Sizes

__all__ = [
    "about_run",
    "about_trace",
    "access_of",
    "aggregator_of",
    "air_of",
    "budgets_of",
    "channel_of",
    "data_weight_of",
    "policy_of",
    "schedule_of",
    "sending_of",
    "sizes_of",
    "trainer_spec_of",
    "training_of",
    "uplink_of",
]


def channel_of(scenario: Scenario) -> AbstractChannel:
    """The channel of a scenario; a trace in whatever unit."""
    section, link = scenario.channel, scenario.uplink
    return make_channel(
        section.kind,
        section.devices,
        unit=section.unit,
        noise_w=link.noise_w,
        bandwidth_hz=link.bandwidth_hz,
    )


def uplink_of(scenario: Scenario, parameters: int, quantity: Quantity = "gain") -> AbstractLink:
    """The link of a scenario, for a model with so many parameters and what its channel yields."""
    section = scenario.uplink
    bits, max_power_w = _update_bits(scenario, parameters), float(np.max(section.max_power_w))
    if quantity == "rate":
        known = _power_is_known(scenario)
        return RateLink(bits=bits, max_power_w=max_power_w if known else math.nan)
    return Uplink(
        bits=bits,
        bandwidth_hz=section.bandwidth_hz,
        noise_w=section.noise_w,
        max_power_w=max_power_w,
    )


def _each(value: float | tuple[float, ...]) -> float | PerDevice:
    """One number for all devices, or one for each."""
    return np.array(value, dtype=np.float64) if isinstance(value, tuple) else value


def sending_of(scenario: Scenario) -> Sending:
    """What becomes of the updates of a scenario on their way."""
    return Sending(make_compressors(scenario.training.compress, field="training.compress"))


def sizes_of(scenario: Scenario, parameters: int) -> Sizes | None:
    """The sizes of an update on air, before anything is known of its numbers."""
    return sending_of(scenario).sizes(_numbers(scenario, parameters))


def _numbers(scenario: Scenario, parameters: int) -> int:
    """Of an update on air. ``uplink.bits`` counts before compression, 32 for each number."""
    given = scenario.uplink.bits
    return parameters if given is None else math.ceil(given / 32.0)


def _update_bits(scenario: Scenario, parameters: int) -> float:
    """Of one update on air; where sizes are chosen, of the one that is best for Gaussians."""
    sending, numbers = sending_of(scenario), _numbers(scenario, parameters)
    if not sending.compressors:
        return 32.0 * parameters if scenario.uplink.bits is None else scenario.uplink.bits
    if (sizes := sending.sizes(numbers)) is not None:
        return float(sizes.bits[sizes.best])
    return float(sending.compressors[0].bits(numbers))


def access_of(scenario: Scenario, uplink: AbstractLink) -> AbstractAccess:
    """How the cohorts of a scenario share its link."""
    section = scenario.uplink
    # How measured rates would change with the whole power on fewer blocks nobody knows.
    unit_s = uplink.bits / uplink.bandwidth_hz if isinstance(uplink, Uplink) else None
    return make_access(section.access, blocks=section.blocks, unit_s=unit_s)


_DAY_S = 86_400.0


def budgets_of(scenario: Scenario, uplink: AbstractLink) -> tuple[AbstractBudget, ...]:
    """What the devices of a scenario may spend."""
    given, rounds = scenario.budgets, scenario.run.rounds
    budgets: list[AbstractBudget] = []
    if uplink.has_watts and scenario.uplink.budget_w != math.inf:
        budgets.append(AveragePower(_each(scenario.uplink.budget_w)))
    joules = partial(Energy, circuit_w=_each(given.circuit_w), compute_j=_each(given.compute_j))
    kinds: dict[str, Callable[[float | PerDevice], AbstractBudget]] = {
        "energy_j": joules,
        "energy_j_per_day": lambda limit: joules(limit / _DAY_S, "second"),
        "battery_j": lambda limit: joules(limit / rounds),
        "airtime_s": Airtime,
        "duty_cycle": lambda limit: Airtime(limit, "second"),
        "bytes": Traffic,
        "bytes_per_day": lambda limit: Traffic(limit / _DAY_S, "second"),
        "participation": Participation,
    }
    limits = {name: getattr(given, name) for name in kinds}
    made = (kinds[name](_each(limit)) for name, limit in limits.items() if limit is not None)
    return (*budgets, *made)


def _planned_by(
    scenario: Scenario, budgets: tuple[AbstractBudget, ...]
) -> tuple[AbstractBudget, ...]:
    """The budgets as a policy has them: a battery that is empty lends no rounds in advance.

    ``auto`` may spend up to T limits and those that an account begins with, so a limit is so much
    less than a battery's share of a round.
    """
    if scenario.budgets.battery_j is None or scenario.policy.kind != "auto":
        return budgets
    rounds, ahead = scenario.run.rounds, FIRST_CREDIT[scenario.policy.budget_mode]
    return tuple(
        replace(each, limit=each.limit * (rounds / (rounds + ahead)))
        if isinstance(each, Energy)
        else each
        for each in budgets
    )


# Over measured rates nobody sets a power, and none need be known unless a budget counts it.
_NO_POWER = (
    "channel.kind: {!r} holds rates, and the power that its modems send with is not known, but {}; "
    "set uplink.max_power_w to it, or name a preset"
)


def _power_is_known(scenario: Scenario) -> bool:
    """Whether the peak power means something: over rates the paper's default is nobody's."""
    default, section = type(scenario.uplink)(), scenario.uplink
    known = bool(section.max_power_w != default.max_power_w)
    if not known and section.budget_w not in (default.budget_w, math.inf):
        raise InputError(_NO_POWER.format(scenario.channel.kind, "uplink.budget_w limits it"))
    energies = ("energy_j", "energy_j_per_day", "battery_j")
    limited = [name for name in energies if getattr(scenario.budgets, name) is not None]
    if limited and not known:
        raise InputError(
            _NO_POWER.format(scenario.channel.kind, f"budgets.{limited[0]} counts its joules")
        )
    return known


def policy_of(scenario: Scenario, uplink: AbstractLink) -> AbstractPolicy:
    """The policy of a scenario."""
    peaks = _each(scenario.uplink.max_power_w)
    system = System(
        link=uplink,
        budgets=_planned_by(scenario, budgets_of(scenario, uplink)),
        peak_w=peaks if isinstance(peaks, np.ndarray) else None,
        access=access_of(scenario, uplink),
        compute_s=scenario.uplink.computation.mean_s,
        data_weight=data_weight_of(scenario),
        steps=scenario.training.steps,
    )
    return build_policy(
        policy_info(scenario.policy.kind),
        scenario.policy,
        system,
        samples=float(np.mean(scenario.data.samples)),
    )


def air_of(scenario: Scenario, channel: AbstractChannel, parameters: int) -> Air:
    """What the rounds of a scenario run on, for a model with so many parameters."""
    _check_sizes(scenario, channel.devices)
    uplink = uplink_of(scenario, parameters, channel.quantity)
    return Air(
        channel=channel,
        policy=policy_of(scenario, uplink),
        uplink=uplink,
        seed=scenario.run.seed,
        access=access_of(scenario, uplink),
        computation=scenario.uplink.computation,
        budgets=budgets_of(scenario, uplink),
        knowledge=scenario.knowledge.knowledge,
        feedback_bits=scenario.uplink.feedback_bits,
        sizes=sizes_of(scenario, parameters),
    )


def training_of(scenario: Scenario, pool: AbstractTrainingPool) -> Training:
    """How a scenario trains."""
    return Training(
        pool=pool,
        eval_every=scenario.run.eval_every,
        last_round=scenario.run.rounds - 1,
        aggregator=aggregator_of(scenario),
        average_rounds=scenario.training.average_rounds,
        sending=sending_of(scenario),
    )


def aggregator_of(scenario: Scenario) -> AbstractAggregator:
    """How the updates of a scenario move the model."""
    section = scenario.training
    return bounded(section.bounds, make_aggregator(section.aggregator))


def data_weight_of(scenario: Scenario) -> PerDevice | None:
    """Each device's share of the data where sizes differ; None where all have the same."""
    sizes = scenario.data.samples
    if isinstance(sizes, int):
        return None
    return np.array(sizes, dtype=np.float64) / sum(sizes)


def _check_sizes(scenario: Scenario, devices: int) -> None:
    """Refuse lists of sizes and of times that have not one for each device."""
    sizes = scenario.data.samples
    if not isinstance(sizes, int) and len(sizes) != devices:
        raise InputError(
            f"data.samples has {len(sizes)} numbers and there are {devices} devices; give one for "
            "each, or a single number for all"
        )
    for part in ("uplink", "budgets"):
        for name, value in vars(getattr(scenario, part)).items():
            if isinstance(value, tuple) and len(value) != devices:
                raise InputError(
                    f"{part}.{name} has {len(value)} numbers and there are {devices} devices; give "
                    "one for each, or a single number for all"
                )


def schedule_of(scenario: Scenario, parameters: int) -> Iterator[ScheduledRound]:
    """The rounds of a scenario without training, without end, for a model with so many parameters.

    A run of the scenario has the same ones, if its policy reads channel gains alone and sizes are
    not chosen by what its updates are like.
    """
    air = air_of(scenario, channel_of(scenario), parameters)
    return (done for done, _ in scheduled_rounds(air))


def trainer_spec_of(scenario: Scenario, devices: int, torch_device: str) -> TrainerSpec:
    """How to build what trains a scenario's devices."""
    _check_sizes(scenario, devices)
    sizes = scenario.data.samples
    return TrainerSpec(
        dataset=scenario.data.name,
        model=scenario.training.model,
        alpha=scenario.data.alpha,
        devices=devices,
        steps=scenario.training.steps,
        batch_size=scenario.training.batch_size,
        learning_rate=scenario.training.learning_rate,
        seed=scenario.run.seed,
        size=sizes if isinstance(sizes, int) else np.array(sizes, dtype=np.int64),
        torch_device=torch_device,
    )


def about_run(scenario: Scenario, channel: AbstractChannel, uplink: AbstractLink) -> dict[str, Any]:
    """What a manifest says of a run besides its scenario."""
    return {
        "update_bits": uplink.bits,
        **_about_blocks(access_of(scenario, uplink)),
        "budgets": [
            {
                "name": each.name,
                "unit": each.unit,
                "per": each.per,
                "limit": float(np.max(each.limit)),
            }
            for each in budgets_of(scenario, uplink)
        ],
        "unread": [f"policy.{name}" for name in scenario.policy.unread()],
        "devices": channel.devices,
        # Updates out of memory are of older models, whoever takes part.
        "biased": policy_info(scenario.policy.kind).biased
        or aggregator_of(scenario).biased
        or sending_of(scenario).biased,
        **about_trace(channel),
    }


def _about_blocks(access: AbstractAccess) -> dict[str, Any]:
    """What a manifest keeps of an access with blocks, to time its rounds again."""
    return {"unit_s": access.unit_s} if isinstance(access, AbstractOFDMA) else {}


def about_trace(channel: AbstractChannel) -> dict[str, Any]:
    """What a manifest keeps of a recorded channel, to know it again; nothing of a model."""
    if not isinstance(channel, Trace):
        return {}
    about = {"sha256": channel.sha256, "rounds": channel.rounds, "devices": channel.devices}
    return {"trace": about}
