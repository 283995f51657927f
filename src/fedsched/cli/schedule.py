"""``fedsched schedule``: scheduling without training."""

import itertools
import sys
import time
import typing
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np

from fedsched.analysis.tally import ScheduleTally
from fedsched.cli.budgets import mean_power, print_budgets
from fedsched.cli.interrupts import Interrupt, gentle_interrupt
from fedsched.cli.options import NUMBER, WHOLE, joined, json_option, out_option, set_option
from fedsched.cli.output import print_json, print_table, track
from fedsched.files import output_path
from fedsched.policies import POLICIES, POWERS, policy_info, policy_names, reads_of
from fedsched.policies.designs import DESIGNS
from fedsched.policies.pricing import STARTS
from fedsched.radio import CHANNELS, PRESETS
from fedsched.rounds import Air, scheduled_rounds
from fedsched.runs.assembly import air_of, channel_of
from fedsched.runs.scenario import Scenario, scenario_from
from fedsched.runs.scenario_file import Settings, load_scenario
from fedsched.runs.schedule_table import SUFFIXES, write_schedule
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.values import ScheduledRound
from fedsched.views.figures import FIGURE_SUFFIXES, save_figure, schedule_figure

__all__ = ["command"]

# What is scheduled without a file: the paper's radio and fleet.
_PAPER: dict[str, dict[str, Any]] = {
    "run": {"rounds": 4000, "seed": 0},
    "uplink": {"bits": float(PAPER_UPLINK.bits)},
}
# What --compare runs unless told otherwise: auto, and the paper's with each design they can have.
_COMPARED = (
    "auto,lyapunov:with-replacement,lyapunov:independent,lyapunov:fixed-size,"
    "uniform:with-replacement,uniform:fixed-size,full"
)

# Options that are short for --set: the field each one sets, and what to say of it.
_SHORT = {
    "preset": ("uplink.preset", f"A link and its cell: {', '.join(PRESETS)}."),
    "channel": ("channel.kind", f"One of {', '.join(CHANNELS)}, or a trace: .csv, .parquet, .npz."),
    "devices": ("channel.devices", "Number of devices.  [default: 100, or the trace's]"),
    "unit": ("channel.unit", "Of the trace's numbers: gain, db, snr-db@23dbm, mbit/s, ..."),
    "policy": ("policy.kind", f"One of {', '.join(POLICIES)}, or module:Class."),
    "design": ("policy.design", f"One of {', '.join(DESIGNS)}."),
    "draws": ("policy.draws", "m: draws a round, or devices for fixed-size."),
    "lam": ("policy.lam", "lambda: price of a second on air against 1/q."),
    "v": ("policy.v", "V: weight of the objective against the power queues."),
    "qmin": ("policy.qmin", "Least probability of every reachable device."),
    "rounds": ("run.rounds", "How many rounds."),
    "seed": ("run.seed", "Seed of channel and sampling."),
    "budget-w": ("uplink.budget_w", "Average power a device may spend."),
    "max-power-w": ("uplink.max_power_w", "Peak power of a device."),
    "noise-w": ("uplink.noise_w", "Noise power."),
    "bits": ("uplink.bits", "Size of an update."),
    "bandwidth-hz": ("uplink.bandwidth_hz", "Bandwidth of the link."),
    "power": ("policy.power", f"{' or '.join(POWERS)}.  [default: the policy's own]"),
    "start": ("policy.start", f"Power queues at first: {' or '.join(STARTS)}."),
    "scale-v": ("policy.scale_v", "V = v * 100 / lambda: one v serves every lambda."),
    "candidates": ("policy.candidates", "Devices fedcs considers.  [default: all]"),
    "deadline-s": ("policy.deadline_s", "Of fedcs.  [default: m uploads at 4 bit/s/Hz]"),
    "computation-s": ("uplink.computation_s", "Computation time a round."),
    "kappa": ("policy.kappa", "Of auto: mean 1/q that doubles the rounds.  [default: devices]"),
    "weight-limit": ("policy.weight_limit", "Of auto: no update counts for more."),
    "budget-mode": ("policy.budget_mode", "Of auto: average or strict."),
    "as-printed": ("policy.as_printed", "Theorem 2 with the paper's ln(2)^2."),
}


_SYMBOLS = {"draws": ("m",), "lam": ("lambda",)}  # what the paper calls them
_KINDS: dict[type, Any] = {int: WHOLE, float: NUMBER, str: str}


def _short_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the table above, with the types and the defaults of their fields."""
    paper = scenario_from(_PAPER)
    for name, (field, about) in reversed(_SHORT.items()):
        section_name, _, field_name = field.partition(".")
        section = getattr(paper, section_name)
        (kind, *_) = _types(typing.get_type_hints(type(section))[field_name])
        default = getattr(section, field_name)
        if default is not None and kind is not bool:
            about = f"{about}  [default: {default}]"
        form: dict[str, Any] = {"is_flag": True} if kind is bool else {"type": _KINDS[kind]}
        if name == "channel":
            form["metavar"] = "NAME|FILE"
        names = [f"--{each}" for each in (name, *_SYMBOLS.get(name, ()))]
        command = click.option(*names, default=None, help=about, **form)(command)
    return command


def _types(hint: Any) -> tuple[type, ...]:
    return typing.get_args(hint) or (hint,)


@click.command("schedule")
@click.argument("scenario", required=False)
@set_option
@_short_options
@click.option(
    "--compare",
    is_flag=False,
    flag_value=_COMPARED,
    metavar="[POLICY[:DESIGN],...]",
    help="Run several policies over the same channel draws, side by side, in place of --policy.",
)
@out_option(f"Write every round and device: {', '.join(SUFFIXES)}.", metavar="FILE")
@click.option(
    "--plot",
    metavar="FILE",
    help=f"Draw power, selection and devices a round: {', '.join(FIGURE_SUFFIXES)}.",
)
@json_option
def command(
    scenario: str | None, settings: dict[str, Any], compare: str | None, out: str | None,
    plot: str | None, as_json: bool, **short: Any,
) -> None:  # fmt: skip
    """Schedule without training: who would upload, at what power, and how long it takes.

    SCENARIO is a scenario file; without one it is the paper's radio and fleet, scheduled by auto,
    with the defaults below. Options set fields of it: --computation-s 0.5 is short for --set
    uplink.computation_s=0.5.
    """
    given = _joined(short, settings)

    def case(**policy: Any) -> Scenario:
        named = {f"policy.{name}": value for name, value in policy.items()}
        return load_scenario(scenario or _PAPER, settings={**given, **named})

    cases = [case()] if compare is None else [case(**each) for each in _compared(compare)]
    asked = cases[0]
    channel = channel_of(asked)
    parameters = _parameters(asked)

    def air(each: Scenario) -> Air:
        return air_of(each, channel, parameters)

    # Whatever cannot be made is refused before anything runs.
    airs = [air(each) for each in cases]
    if out is not None:
        output_path("out", out, SUFFIXES)
        if len(cases) > 1:
            raise click.UsageError("--out takes one policy; leave out --compare")
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    _remark_draws(cases, channel.devices)
    reports, tallies = [], {}
    with gentle_interrupt() as interrupt:
        for each, its_air in zip(cases, airs, strict=True):
            report, tally = _report(each, its_air, out, interrupt)
            reports.append(report)
            tallies[_name(report)] = tally
            if interrupt.asked:
                break
    if plot is not None:
        save_figure(schedule_figure(tallies, budget_w=float(np.max(asked.uplink.budget_w))), plot)
    if as_json:
        about = {"channel": asked.channel.kind, "devices": channel.devices, "seed": asked.run.seed}
        print_json({**about, **(reports[0] if compare is None else {"compared": reports})})
        _end(reports[-1], asked.run.rounds)
        return
    _print(
        reports,
        f"{asked.channel.kind}, {channel.devices} devices, {asked.run.rounds} rounds, seed "
        f"{asked.run.seed}",
    )
    for name in filter(None, (out, plot)):
        click.echo(f"wrote {name}")
    _end(reports[-1], asked.run.rounds)


def _end(last: dict[str, Any], rounds: int) -> None:
    """Whoever interrupted learns what is kept; the command has then failed."""
    if last["rounds"] < rounds:
        click.echo(
            f"stopped: {last['policy']} after {last['rounds']} of {rounds} rounds; what is printed "
            "and written is of the rounds that are done",
            err=True,
        )
        sys.exit(1)


def _joined(short: dict[str, Any], settings: Settings) -> Settings:
    """What short options and ``--set`` say together."""
    return joined(
        {_SHORT[option.replace("_", "-")][0]: value for option, value in short.items()}, settings
    )


def _compared(names: str) -> Iterator[dict[str, str]]:
    """Options of the policies that are named, each with a design or without, by path or by name."""
    known = {*policy_names()}
    for name in dict.fromkeys(each.strip() for each in names.split(",")):
        kind, _, design = name.rpartition(":")
        if kind in known or (kind and design in DESIGNS):
            yield {"kind": kind, "design": design}
        else:
            yield {"kind": name}


def _parameters(scenario: Scenario) -> int:
    """Of the model, whose size is that of an update unless the scenario names its bits."""
    if scenario.uplink.bits is not None:
        return 0
    from fedsched.theory.advice import model_parameters

    return model_parameters(scenario)


def _tally(
    air: Air, rounds: int, label: str, out: str | None, interrupt: Interrupt
) -> ScheduleTally:
    tally = ScheduleTally(air.channel.devices, air.budgets)
    running: Iterator[ScheduledRound] = interrupt.until_asked(
        done for done, _ in itertools.islice(scheduled_rounds(air), rounds)
    )
    if out is not None:
        running = write_schedule(out, running, air.channel.quantity, watts=air.uplink.has_watts)
    for done in track(running, total=rounds, label=label):
        tally.add(done)
    return tally


def _remark_draws(cases: list[Scenario], devices: int) -> None:
    """More draws than devices are allowed with replacement, and seldom what was meant."""
    for draws in dict.fromkeys(each.policy.draws for each in cases if _reads_draws(each)):
        if draws > devices:
            click.echo(
                f"draws: {draws} a round of {devices} devices; each is drawn several times, and "
                f"uploads once. Did you mean {devices} or fewer?",
                err=True,
            )


def _reads_draws(scenario: Scenario) -> bool:
    return "draws" in reads_of(scenario.policy.kind, scenario.policy.power)


def _name(report: dict[str, Any]) -> str:
    """Of a schedule in figures and tables."""
    return f"{report['policy']} ({report['design']})" if report["design"] else str(report["policy"])


def _report(
    scenario: Scenario, air: Air, out: str | None, interrupt: Interrupt
) -> tuple[dict[str, Any], ScheduleTally]:
    """The figures of one schedule; an option that its policy does not read is None."""
    policy = scenario.policy
    reads = reads_of(policy.kind, policy.power)
    names = ("design", "draws", "lam", "v", "kappa")
    options = {name: getattr(policy, name) if name in reads else None for name in names}
    began = time.perf_counter()
    label = f"{policy.kind}:{policy.design}" if options["design"] else policy.kind
    tally = _tally(air, scenario.run.rounds, label, out, interrupt)
    if tally.tuning:  # as it stands at the end
        options |= {"lam": tally.tuning["price_of_time"], "kappa": tally.tuning["kappa"]}
    report = {
        "policy": policy.kind,
        **options,
        **tally.summary().as_dict(),
        "budgets": [use.as_dict() for use in tally.uses],
        "seconds": time.perf_counter() - began,
    }
    return report, tally


def _print(reports: list[dict[str, Any]], title: str) -> None:
    header = ["policy", "draws", "airtime s/round", "devices/round", "mean 1/q",
              "worst mean power W", "seconds"]  # fmt: skip
    lossy = any(report["lost_share"] is not None for report in reports)
    rows = [
        [
            _name(report) + policy_info(report["policy"]).mark,
            "-" if report["draws"] is None else str(report["draws"]),
            f"{report['airtime_s_per_round']:.4f}",
            f"{report['devices_per_round']:.2f}",
            _inverse(report["mean_inverse_probability"]),
            mean_power(report["worst_mean_power_w"], report["budgets"]),
            f"{report['seconds']:.1f}",
            *([f"{100 * report['lost_share']:.1f} %"] if lossy else []),
        ]
        for report in reports
    ]
    print_table(title, [*header, "updates lost"] if lossy else header, rows)
    print_budgets([(_name(report), report["budgets"]) for report in reports])


def _inverse(value: float | None) -> str:
    """The mean of 1/q, where there is a q."""
    return "-" if value is None else f"{value:.1f}"
