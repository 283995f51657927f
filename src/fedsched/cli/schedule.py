"""``fedsched schedule``: scheduling without training."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import click

from fedsched.analysis.tally import ScheduleTally
from fedsched.checks import whole_number
from fedsched.cli.output import print_json, print_table, track
from fedsched.files import output_path
from fedsched.policies import (
    POLICIES,
    POWERS,
    AbstractPolicy,
    make_policy,
    policy_info,
    reads_of,
)
from fedsched.policies.designs import DESIGNS
from fedsched.policies.pricing import STARTS
from fedsched.radio import CHANNELS, AbstractChannel, make_channel
from fedsched.rounds import schedule
from fedsched.runs.schedule_table import SUFFIXES, write_schedule
from fedsched.solve.uplink import PAPER_UPLINK, Uplink
from fedsched.values import ScheduledRound
from fedsched.views.figures import FIGURE_SUFFIXES, save_figure, schedule_figure

__all__ = ["command"]

# What --compare runs unless told otherwise: the paper's policies, with each design they can have.
_COMPARED = (
    "lyapunov:with-replacement,lyapunov:independent,lyapunov:fixed-size,"
    "uniform:with-replacement,uniform:fixed-size,full"
)
_FIGURE_V = (1.0, 100.0, 1_000.0, 100_000.0)
_FIGURE_LAM = (1.0, 10.0, 100.0)


@dataclass(frozen=True, kw_only=True)
class _Case:
    """One policy on one channel."""

    policy: str
    design: str
    draws: int
    v: float
    lam: float
    budget_w: float
    qmin: float
    as_printed: bool
    uplink: Uplink
    power: str | None
    start: str
    scale_v: bool
    candidates: int | None
    deadline_s: float | None

    def make(self) -> AbstractPolicy:
        return make_policy(
            self.policy,
            uplink=self.uplink,
            draws=self.draws,
            design=self.design,
            v=self.v,
            lam=self.lam,
            budget_w=self.budget_w,
            qmin=self.qmin,
            as_printed=self.as_printed,
            power=self.power,
            start=self.start,
            scale_v=self.scale_v,
            candidates=self.candidates,
            deadline_s=self.deadline_s,
        )

    def reads(self, name: str) -> bool:
        return name in reads_of(self.policy, self.power)

    @property
    def label(self) -> str:
        return f"{self.policy}:{self.design}" if self.reads("design") else self.policy


@click.command("schedule", context_settings={"show_default": True})
@click.option(
    "--channel",
    "channel_name",
    default="heterogeneous",
    metavar="NAME|FILE",
    help=f"One of {', '.join(CHANNELS)}, or a trace: .csv, .parquet, .npz.",
)
@click.option("--devices", type=int, help="Number of devices.  [default: 100, or the trace's]")
@click.option("--policy", default="lyapunov", help=f"One of {', '.join(POLICIES)}.")
@click.option("--design", default="with-replacement", help=f"One of {', '.join(DESIGNS)}.")
@click.option("--draws", default=10, help="m: draws a round, or devices for fixed-size.")
@click.option("--lam", default=100.0, help="lambda: price of a second on air against 1/q.")
@click.option("--v", default=100.0, help="V: weight of the objective against the power queues.")
@click.option("--qmin", default=0.0, help="Least probability of every reachable device.")
@click.option("--rounds", default=4000, help="How many rounds.")
@click.option("--seed", default=0, help="Seed of channel and sampling.")
@click.option("--budget-w", default=1.0, help="Average power a device may spend.")
@click.option("--max-power-w", default=PAPER_UPLINK.max_power_w, help="Peak power of a device.")
@click.option("--noise-w", default=PAPER_UPLINK.noise_w, help="Noise power.")
@click.option("--bits", default=float(PAPER_UPLINK.bits), help="Size of an update.")
@click.option("--bandwidth-hz", default=PAPER_UPLINK.bandwidth_hz, help="Bandwidth of the link.")
@click.option("--power", help=f"{' or '.join(POWERS)}.  [default: the policy's own]")
@click.option("--start", default="empty", help=f"Power queues at first: {' or '.join(STARTS)}.")
@click.option("--scale-v", is_flag=True, help="V = v * 100 / lambda: one v serves every lambda.")
@click.option("--candidates", type=int, help="Devices fedcs considers.  [default: all]")
@click.option("--deadline-s", type=float, help="Of fedcs.  [default: m uploads at 4 bit/s/Hz]")
@click.option("--as-printed", is_flag=True, help="Theorem 2 with the paper's ln(2)^2.")
@click.option(
    "--compare",
    is_flag=False,
    flag_value=_COMPARED,
    metavar="[POLICY[:DESIGN],...]",
    help="Run several policies over the same channel draws, side by side.",
)
@click.option("--out", metavar="FILE", help=f"Write every round and device: {', '.join(SUFFIXES)}.")
@click.option(
    "--plot",
    metavar="FILE",
    help=f"Draw the paper's scheduling figures: {', '.join(FIGURE_SUFFIXES)}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    channel_name: str, devices: int | None, policy: str, design: str, draws: int, lam: float,
    v: float, qmin: float, rounds: int, seed: int, budget_w: float, max_power_w: float,
    noise_w: float, bits: float, bandwidth_hz: float, power: str | None, start: str,
    scale_v: bool, candidates: int | None, deadline_s: float | None, as_printed: bool,
    compare: str | None, out: str | None, plot: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Schedule without training: who would upload, at what power, and how long it takes."""
    whole_number("rounds", rounds)
    whole_number("draws", draws)
    whole_number("seed", seed, least=0)
    uplink = Uplink(bits=bits, bandwidth_hz=bandwidth_hz, noise_w=noise_w, max_power_w=max_power_w)
    case = _Case(
        policy=policy, design=design, draws=draws, v=v, lam=lam, budget_w=budget_w, qmin=qmin,
        as_printed=as_printed, uplink=uplink, power=power, start=start, scale_v=scale_v,
        candidates=candidates, deadline_s=deadline_s,
    )  # fmt: skip
    cases = [case] if compare is None else _compared(case, compare)
    # Bad names and numbers are refused before anything runs, also those that only lyapunov uses.
    for each in (replace(case, policy="lyapunov"), *cases):
        each.make()
    if out is not None:
        output_path("out", out, SUFFIXES)
        if len(cases) > 1:
            raise click.UsageError("--out takes one policy; leave out --compare")
    if plot is not None:
        output_path("plot", plot, FIGURE_SUFFIXES)
    channel = make_channel(channel_name, devices)
    reports = [_report(each, channel, rounds, seed, out) for each in cases]
    if plot is not None:
        save_figure(_figure(case, channel, rounds, seed), plot)
    if as_json:
        about = {"channel": channel_name, "devices": channel.devices, "seed": seed}
        print_json({**about, **(reports[0] if compare is None else {"compared": reports})})
        return
    _print(reports, f"{channel_name}, {channel.devices} devices, {rounds} rounds, seed {seed}")
    for name in filter(None, (out, plot)):
        click.echo(f"wrote {name}")


def _compared(case: _Case, names: str) -> list[_Case]:
    cases = []
    for name in names.split(","):
        policy, _, design = name.strip().partition(":")
        cases.append(replace(case, policy=policy, design=design or case.design))
    return cases


def _rounds(case: _Case, channel: AbstractChannel, seed: int) -> Iterator[ScheduledRound]:
    running = schedule(channel=channel, policy=case.make(), uplink=case.uplink, seed=seed)
    return (done for done, _ in running)


def _tally(
    case: _Case, channel: AbstractChannel, rounds: int, seed: int, out: str | None, label: str
) -> ScheduleTally:
    tally = ScheduleTally(channel.devices)
    running: Iterator[ScheduledRound] = itertools.islice(_rounds(case, channel, seed), rounds)
    if out is not None:
        running = write_schedule(out, running)
    for done in track(running, total=rounds, label=label):
        tally.add(done)
    return tally


def _report(
    case: _Case, channel: AbstractChannel, rounds: int, seed: int, out: str | None
) -> dict[str, Any]:
    began = time.perf_counter()
    tally = _tally(case, channel, rounds, seed, out, case.label)
    return {
        "policy": case.policy,
        "design": case.design if case.reads("design") else None,
        "draws": case.draws,
        "lam": case.lam,
        "v": case.v,
        **tally.summary().as_dict(),
        "seconds": time.perf_counter() - began,
    }


def _figure(case: _Case, channel: AbstractChannel, rounds: int, seed: int) -> Any:
    """The paper's figures vary V, then lambda, around the case that was asked for."""
    ours = replace(case, policy="lyapunov")
    by_v = {
        f"V = {v:g}": _tally(replace(ours, v=v), channel, rounds, seed, None, f"V = {v:g}")
        for v in _FIGURE_V
    }
    by_policy = {
        f"lambda = {lam:g}": _tally(
            replace(ours, lam=lam), channel, rounds, seed, None, f"lambda = {lam:g}"
        )
        for lam in _FIGURE_LAM
    }
    baseline = replace(case, policy="uniform")
    by_policy["uniform"] = _tally(baseline, channel, rounds, seed, None, "uniform")
    return schedule_figure(by_v, by_policy, budget_w=case.budget_w)


def _print(reports: list[dict[str, Any]], title: str) -> None:
    header = ["policy", "draws", "airtime s/round", "devices/round", "mean 1/q",
              "worst mean power W", "seconds"]  # fmt: skip
    rows = [
        [
            report["policy"]
            + (f" ({report['design']})" if report["design"] else "")
            + policy_info(report["policy"]).mark,
            "-" if report["policy"] == "full" else str(report["draws"]),
            f"{report['airtime_s_per_round']:.4f}",
            f"{report['devices_per_round']:.2f}",
            _inverse(report["mean_inverse_probability"]),
            f"{report['worst_mean_power_w']:.3f}",
            f"{report['seconds']:.1f}",
        ]
        for report in reports
    ]
    print_table(title, header, rows)


def _inverse(value: float | None) -> str:
    """The mean of 1/q, where there is a q."""
    return "-" if value is None else f"{value:.1f}"
