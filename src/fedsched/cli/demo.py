"""``fedsched demo``: auto beside uniform cohorts of every size, on digits that need no download."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import click

from fedsched.analysis.arrival import ACCURACY, ARRIVAL
from fedsched.analysis.comparison import usage
from fedsched.analysis.curves import curve_of
from fedsched.analysis.speedup import speedup
from fedsched.cli.budgets import ABOVE, mean_power
from fedsched.cli.options import json_option, out_option, workers_option
from fedsched.cli.output import counted, print_json, print_table, run_all
from fedsched.files import output_folder
from fedsched.runs.engines import Job
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, scenario_from
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.views.accuracy import accuracy_figure
from fedsched.views.figures import save_figure
from fedsched.views.report import write_report

__all__ = ["command"]

TARGET = 0.92
PROTOCOL = ARRIVAL  # what counts as having reached it
SEEDS = (1, 2)
COMPUTATIONS_S = (0.0, 0.1, 1.0)
DRAWN_S = 0.1  # at which the picture and the report are made
# Enough rounds for each to pass the target and show it: the more devices, the fewer rounds.
UNIFORM = {1: 200, 2: 200, 3: 180, 5: 160, 10: 140, 20: 130}
LYAPUNOV = {10: 260}
AUTO_ROUNDS = 200


@dataclass(frozen=True)
class Entry:
    """A policy of the demo; auto's schedule is made for a computation time, no other's is."""

    kind: str
    draws: int | None = None
    computation_s: float = DRAWN_S

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.kind if self.draws is None else f"{self.kind} m={self.draws}"

    @property
    def name(self) -> str:
        """What its folders are called."""
        tail = f"{self.computation_s:g}s" if self.draws is None else f"m{self.draws}"
        return f"{self.kind}-{tail}"

    @property
    def rounds(self) -> int:
        """How long it trains."""
        if self.draws is None:
            return AUTO_ROUNDS
        return (UNIFORM if self.kind == "uniform" else LYAPUNOV)[self.draws]

    def scenario(self, seed: int) -> Scenario:
        """The paper's heterogeneous channel and prices; a softmax regression on digits."""
        draws = {} if self.draws is None else {"draws": self.draws, "lam": 100.0, "v": 100.0}
        return scenario_from(
            {
                "run": {"rounds": self.rounds, "seed": seed, "eval_every": 4},
                "policy": {"kind": self.kind, **draws},
                "channel": {"kind": "heterogeneous", "devices": 100},
                # An update counts as many bits as the CNN of the paper, so airtimes are the same.
                "uplink": {
                    "bits": float(PAPER_UPLINK.bits),
                    "computation_s": self.computation_s,
                },
                "data": {"name": "digits"},
                "training": {"model": "softmax", "learning_rate": 0.002},
            }
        )


Logs = Mapping[Entry, Sequence[RunLog]]  # of the seeds


def entries() -> list[Entry]:
    """All that is trained, the longest first."""
    found = [Entry("uniform", m) for m in sorted(UNIFORM, reverse=True)]
    found += [Entry("lyapunov", m) for m in LYAPUNOV]
    return found + [Entry("auto", computation_s=each) for each in COMPUTATIONS_S]


@click.command("demo", context_settings={"show_default": True})
@out_option("Folder for runs and the picture.", default="demo")
@workers_option()
@json_option
def command(out: str, as_json: bool, workers: int) -> None:
    """Train auto, uniform cohorts of 1 to 20 devices and the paper's lyapunov on digits.

    All have the same channel draws. The table has their times to an accuracy at three computation
    times, and compares auto with the best uniform cohort of each. Running it again uses what is
    there; nothing finished is done twice.
    """
    began = time.perf_counter()
    folder = output_folder("out", out)
    jobs = {
        (entry, seed): Job(
            name=f"{entry.name}-seed{seed}",
            scenario=entry.scenario(seed),
            folder=folder / f"{entry.name}-seed{seed}",
        )
        for entry in entries()
        for seed in SEEDS
    }
    run_all([*jobs.values()], workers=workers)
    logs = {
        entry: [read_run(jobs[entry, seed].folder) for seed in SEEDS]
        for entry in reversed(entries())
    }
    rows, bests = _rows(logs), [_best(logs, each) for each in COMPUTATIONS_S]
    shown = {entry: each for entry, each in logs.items() if entry.computation_s == DRAWN_S}
    figure = accuracy_figure(
        {entry.label: [curve_of(log) for log in each] for entry, each in shown.items()},
        draws={entry.label: entry.draws for entry in shown},
        target=TARGET,
        computation_s=DRAWN_S,
    )
    pictures = [save_figure(figure, folder / f"demo.{kind}") for kind in ("png", "svg")]
    report = write_report(
        [log.folder for each in logs.values() for log in each], folder / "report.html",
        target=TARGET, protocol=PROTOCOL, title="fedsched demo",
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if as_json:
        print_json(
            {
                "target": TARGET, "seeds": list(SEEDS), "computations_s": list(COMPUTATIONS_S),
                "rows": rows, "best": bests, "picture": str(pictures[0]),
                "report": str(report.path), "out": str(folder), "seconds": seconds,
            }
        )  # fmt: skip
        return
    _print(rows, bests)
    click.echo(
        f"picture: {pictures[0]}   report with a slider for the computation time: {report.path}   "
        f"({seconds:.0f} s)"
    )


def _times(logs: Sequence[RunLog], computation_s: float) -> list[float | None]:
    """Seconds to the target by seed; None where it was not reached."""
    reached = [ACCURACY.reach(log, TARGET, PROTOCOL) for log in logs]
    return [None if each is None else each.time_s(computation_s) for each in reached]


def _mean(times: Sequence[float | None]) -> float | None:
    known = [each for each in times if each is not None]
    return fmean(known) if len(known) == len(times) else None


def _rows(logs: Logs) -> list[dict[str, Any]]:
    """A row for each policy; that of auto has each time from the schedule made for it."""
    found = []
    for entry, own in logs.items():
        if entry.computation_s != DRAWN_S:
            continue
        timed = {
            f"{each:g}": logs.get(Entry(entry.kind, entry.draws, each), own)
            for each in COMPUTATIONS_S
        }
        found.append(
            {
                "policy": entry.kind,
                "draws": entry.draws,
                "seconds_to_target": {
                    each: _mean(_times(timed[each], float(each))) for each in timed
                },
                **(used := usage(own)),
                "worst_mean_power_w": _worst_w(used["budgets"]),
                "final_accuracy": fmean(float(log.column("test_accuracy")[-1]) for log in own),
            }
        )
    return found


def _worst_w(budgets: Sequence[Mapping[str, Any]]) -> float:
    """The mean power of the device that spends most; power is the demo's one budget."""
    (power,) = budgets
    return float(power["worst_use"] * power["limit"])


def _best(logs: Logs, computation_s: float) -> dict[str, Any]:
    """Auto beside the uniform cohort that is the best at a computation time."""
    auto = _times(logs[Entry("auto", computation_s=computation_s)], computation_s)
    times = {m: _times(logs[Entry("uniform", m)], computation_s) for m in sorted(UNIFORM)}
    arrived = {m: mean for m, each in times.items() if (mean := _mean(each)) is not None}
    best = min(arrived, key=lambda m: arrived[m], default=None)
    known = best is not None and _mean(auto) is not None
    return {
        "computation_s": computation_s,
        "auto_s": _mean(auto),
        "best_uniform_m": best,
        "best_uniform_s": None if best is None else arrived[best],
        "edge": best == max(UNIFORM),  # fewer than one device is no cohort
        "sooner": speedup(times[best], auto).ratio if known else None,  # type: ignore[index,arg-type]
    }


def _print(rows: list[dict[str, Any]], bests: list[dict[str, Any]]) -> None:
    times = [f"{each:g}" for each in COMPUTATIONS_S]
    budget_w = rows[0]["budgets"][0]["limit"]
    print_table(
        f"digits, heterogeneous channels, {counted(len(SEEDS), 'seed')}: simulated seconds to "
        f"{TARGET}, by computation time a round",
        ["policy", "m", *[f"{each} s" for each in times], "airtime s/round", "devices/round",
         f"worst power W, of {budget_w:g}", "final accuracy"],
        [
            [
                row["policy"],
                "" if row["draws"] is None else str(row["draws"]),
                *[_seconds(row["seconds_to_target"][each]) for each in times],
                f"{row['airtime_s_per_round']:.3f}",
                f"{row['devices_per_round']:.2f}",
                mean_power(row["worst_mean_power_w"], row["budgets"]),
                f"{row['final_accuracy']:.3f}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    click.echo(
        f"{ABOVE.strip()}: the worst device is above its budget so far. auto is scheduled for each "
        f"of the times; its other columns are those for {DRAWN_S:g} s."
    )
    for best in bests:
        if best["sooner"] is not None:
            edge = ", the largest that was tried" if best["edge"] else ""
            sooner, ratio = best["sooner"] >= 1.0, max(best["sooner"], 1.0 / best["sooner"])
            click.echo(
                f"best against best at {best['computation_s']:g} s a round: auto takes "
                f"{best['auto_s']:.1f} s and uniform m={best['best_uniform_m']}{edge} takes "
                f"{best['best_uniform_s']:.1f} s, so auto is {ratio:.2f} times "
                f"{'sooner' if sooner else 'later'}"
            )


def _seconds(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.1f}"
