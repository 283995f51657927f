"""``fedsched demo``: the main result in a minute, on the digits that come with scikit-learn."""

import time
from statistics import fmean
from typing import Any

import click

from fedsched.analysis.arrival import ACCURACY, ARRIVAL
from fedsched.analysis.curves import curve_of
from fedsched.analysis.speedup import speedup
from fedsched.cli.options import json_option, out_option, workers_option
from fedsched.cli.output import print_json, print_table, run_all
from fedsched.files import output_folder
from fedsched.runs.engines import Job
from fedsched.runs.runlog import RunLog, read_run
from fedsched.runs.scenario import Scenario, scenario_from
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.views.figures import accuracy_figure, save_figure
from fedsched.views.report import write_report

__all__ = ["command"]

TARGET = 0.92
PROTOCOL = ARRIVAL  # what counts as having reached it
DRAWS = (1, 5, 10)
SEEDS = (1, 2)
# Enough rounds for each to pass the target and show it; uniform needs fewer but dearer ones.
_ROUNDS = {
    ("uniform", 1): 260, ("uniform", 5): 170, ("uniform", 10): 170,
    ("lyapunov", 1): 260, ("lyapunov", 5): 260, ("lyapunov", 10): 260,
}  # fmt: skip


def demo_scenario(policy: str, draws: int, seed: int) -> Scenario:
    """The paper's heterogeneous channel and prices; a softmax regression on digits."""
    return scenario_from(
        {
            "run": {"rounds": _ROUNDS[policy, draws], "seed": seed, "eval_every": 4},
            "policy": {"kind": policy, "draws": draws, "lam": 100.0, "v": 100.0},
            "channel": {"kind": "heterogeneous", "devices": 100},
            # An update counts as many bits as the CNN of the paper, so airtimes are the same.
            "uplink": {"bits": float(PAPER_UPLINK.bits)},
            "data": {"name": "digits"},
            "training": {"model": "softmax", "learning_rate": 0.002},
        }
    )


@click.command("demo", context_settings={"show_default": True})
@out_option("Folder for runs and the picture.", default="demo")
@workers_option()
@json_option
def command(out: str, as_json: bool, workers: int) -> None:
    """Train lyapunov and uniform on digits, on the same channel draws, and compare the clocks.

    Running it again uses what is there; nothing finished is done twice.
    """
    began = time.perf_counter()
    folder = output_folder("out", out)
    jobs = [
        Job(
            name=f"{policy}-m{draws}-seed{seed}",
            scenario=demo_scenario(policy, draws, seed),
            folder=folder / f"{policy}-m{draws}-seed{seed}",
        )
        for draws in reversed(DRAWS)  # the longest first
        for policy in ("uniform", "lyapunov")
        for seed in SEEDS
    ]
    run_all(jobs, workers=workers)
    logs = {job.name: read_run(job.folder) for job in jobs}
    rows = [_row(logs, policy, draws) for draws in DRAWS for policy in ("uniform", "lyapunov")]
    gains = {str(draws): _speedup(rows, draws) for draws in DRAWS}
    curves = {
        draws: {
            policy: [curve_of(log) for log in _logs(logs, policy, draws)]
            for policy in ("uniform", "lyapunov")
        }
        for draws in DRAWS
    }
    figure = accuracy_figure(curves, target=TARGET)
    pictures = [save_figure(figure, folder / f"demo.{kind}") for kind in ("png", "svg")]
    report = write_report(
        [folder], folder / "report.html", target=TARGET, protocol=PROTOCOL, title="fedsched demo"
    )
    seconds = time.perf_counter() - began
    if as_json:
        print_json(
            {
                "target": TARGET, "seeds": list(SEEDS), "speedup": gains, "rows": rows,
                "picture": str(pictures[0]), "report": str(report.path), "out": str(folder),
                "seconds": seconds,
            }
        )  # fmt: skip
        return
    _print(rows, gains)
    click.echo(f"picture: {pictures[0]}   report: {report.path}   ({seconds:.0f} s)")


def _logs(logs: dict[str, RunLog], policy: str, draws: int) -> list[RunLog]:
    return [logs[f"{policy}-m{draws}-seed{seed}"] for seed in SEEDS]


def _row(logs: dict[str, RunLog], policy: str, draws: int) -> dict[str, Any]:
    chosen = _logs(logs, policy, draws)
    arrived = [ACCURACY.reach(log, TARGET, PROTOCOL) for log in chosen]
    times = [None if each is None else each.time_s(0.0) for each in arrived]
    reached = [each for each in times if each is not None]
    return {
        "draws": draws,
        "policy": policy,
        "seconds_to_target": fmean(reached) if len(reached) == len(times) else None,
        "seconds_by_seed": times,
        "airtime_s_per_round": fmean(log.column("airtime_s").mean() for log in chosen),
        "devices_per_round": fmean(
            fmean(len(devices) for devices in log.lists("device")) for log in chosen
        ),
        "final_accuracy": fmean(float(log.column("test_accuracy")[-1]) for log in chosen),
    }


def _speedup(rows: list[dict[str, Any]], draws: int) -> float | None:
    uniform_s, ours_s = (
        next(row["seconds_by_seed"] for row in rows
             if (row["policy"], row["draws"]) == (policy, draws))
        for policy in ("uniform", "lyapunov")
    )  # fmt: skip
    return None if None in (*uniform_s, *ours_s) else speedup(uniform_s, ours_s).ratio


def _print(rows: list[dict[str, Any]], gains: dict[str, float | None]) -> None:
    header = ["policy", "m", f"seconds to {TARGET}", "speed-up", "airtime s/round",
              "devices/round", "final accuracy"]  # fmt: skip
    table = []
    for row in rows:
        seconds = row["seconds_to_target"]
        gain = gains[str(row["draws"])] if row["policy"] == "lyapunov" else None
        table.append(
            [
                row["policy"],
                str(row["draws"]),
                "not reached" if seconds is None else f"{seconds:.1f}",
                "" if gain is None else f"{gain:.2f}x",
                f"{row['airtime_s_per_round']:.3f}",
                f"{row['devices_per_round']:.2f}",
                f"{row['final_accuracy']:.3f}",
            ]
        )
    print_table(
        f"digits, heterogeneous channels, {len(SEEDS)} seeds: simulated seconds to {TARGET}",
        header,
        table,
    )
