"""``fedsched compare``: policies on one scenario and the same channel draws."""

import time
from typing import Any

import click

from fedsched.analysis.comparison import comparison_row
from fedsched.checks import number_within, one_of
from fedsched.cli.budgets import mean_power, print_budgets
from fedsched.cli.options import NUMBER, json_option, out_option, set_option, workers_option
from fedsched.cli.output import end_with, print_json, print_table, run_each, seconds, sent
from fedsched.errors import InputError
from fedsched.files import output_folder
from fedsched.policies import policy_names
from fedsched.runs.comparison import comparison_jobs, comparison_scenarios
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import Scenario
from fedsched.solve.uplink import PAPER_UPLINK
from fedsched.views.report import write_report

__all__ = ["command"]

# Rounds, how often to measure, and the target: what two minutes, ten, or an hour allow.
SCALES = {"smoke": (50, 2, 0.80), "small": (300, 4, 0.90), "full": (1500, 10, 0.92)}


def _built_in(scale: str) -> dict[str, Any]:
    """Digits on the paper's heterogeneous channel, at a scale: a scenario but for its policy."""
    rounds, eval_every, _ = SCALES[scale]
    return {
        "run": {"rounds": rounds, "seed": 1, "eval_every": eval_every},
        # Runs are short: the queues of lyapunov begin where they would end.
        "policy": {"start": "budget"},
        # An update counts as many bits as the CNN of the paper, so airtimes are the same.
        "uplink": {"bits": float(PAPER_UPLINK.bits)},
        "data": {"name": "digits", "alpha": 1.0},
        "training": {"model": "softmax", "steps": 5, "learning_rate": 0.01},
    }


@click.command("compare", context_settings={"show_default": True})
@click.argument("scenario", required=False)
@click.option("--scale", help=f"Without SCENARIO: {', '.join(SCALES)}.  [default: smoke]")
@click.option("--policies", metavar="NAME,...", help="Which to compare.  [default: all]")
@click.option("--target", type=NUMBER, help="Test accuracy.  [default: of the scale, or 0.9]")
@click.option("--aggregator", help="sum or memory (MIFA).  [default: the scenario's]")
@click.option("--compress", metavar="NAME,...", help="none,4,3: each policy with each of them.")
@click.option("--power", help="queue or constant, for all.  [default: each policy's own]")
@set_option
@out_option("Folder for runs and the report.", default="compare")
@workers_option()
@json_option
def command(
    scenario: str | None, scale: str | None, policies: str | None, target: float | None,
    aggregator: str | None, compress: str | None, power: str | None, out: str, workers: int,
    as_json: bool, settings: dict[str, Any],
) -> None:  # fmt: skip
    """Train with every policy on the same data and channel draws, and compare the clocks.

    SCENARIO is a scenario file whose [policy] kind is replaced by each of the policies. One that
    fails is named and left out of the table. Running it again uses what is there; nothing finished
    is done twice.
    """
    began = time.perf_counter()
    if scenario is not None and scale is not None:
        raise InputError(
            f"scale = {scale!r} is for the built-in scenario, and {scenario!r} has rounds of its "
            "own; leave out --scale, or the file"
        )
    scale = scale or "smoke"
    one_of("scale", scale, SCALES)
    if target is None:
        target = SCALES[scale][2] if scenario is None else 0.9
    number_within("target", target, "(0, 1]", "it is an accuracy, such as 0.8 or 80%")
    names = list(policy_names()) if policies is None else [n.strip() for n in policies.split(",")]
    if "policy.kind" in settings:
        raise InputError(
            f"set: policy.kind = {settings['policy.kind']!r} is one policy, and compare takes "
            "several; name them with --policies"
        )
    short = {"policy.power": power, "training.aggregator": aggregator}
    settings |= {name: value for name, value in short.items() if value is not None}
    base = _built_in(scale) if scenario is None else scenario
    compressors = None if compress is None else [name.strip() for name in compress.split(",")]
    scenarios = comparison_scenarios(base, names, settings, compressors)
    folder = output_folder("out", out)
    jobs = comparison_jobs(scenarios, folder, tagged=compressors is not None)
    failed = run_each(jobs, workers=workers)
    done = [job for job in jobs if job.name not in failed]
    if not done:
        end_with(failed)
    rows = [comparison_row(read_run(job.folder), target) for job in done]
    report = write_report(
        [job.folder for job in done], folder / "report.html", target=target,
        title="Policies compared",
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if as_json:
        about = {"target": target, "report": str(report.path), "seconds": seconds}
        print_json({**about, "policies": rows, "failed": failed})
    else:
        _print(rows, target, scenarios[0])
        click.echo(f"report: {report.path}   ({seconds:.0f} s)")
    end_with(failed)


def _print(rows: list[dict[str, Any]], target: float, base: Scenario) -> None:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    several = len({row["compress"] for row in rows}) > 1
    packed = ["Mbit/upload", "omega"] if several else []
    header = ["policy", f"seconds to {target:g}", "rounds", "airtime s/round", "feedback ms/round",
              *packed, "devices/round", "worst power W", "Jain", "mean 1/q",
              "accuracy"]  # fmt: skip
    table = [
        [
            row["policy"]
            + (f" {row['compress']}" if several else "")
            + (" (biased)" if row["biased"] else ""),
            "not reached" if (s := row["seconds_to_target"]) is None else seconds(s),
            shown(row["rounds_to_target"], ".0f"),
            f"{row['airtime_s_per_round']:.3f}",
            f"{1e3 * row['feedback_s_per_round']:.3f}",
            *sent(row["upload_bits"], row["omega"])[: len(packed)],
            f"{row['devices_per_round']:.2f}",
            mean_power(row["worst_mean_power_w"], row["budgets"]),
            f"{row['jain_fairness']:.3f}",
            shown(row["mean_inverse_probability"], ".1f"),
            f"{row['final_accuracy']:.3f}",
        ]
        for row in rows
    ]
    title = f"{base.data.name}, {base.channel.kind} channels, {base.run.rounds} rounds"
    print_table(title, header, table)
    print_budgets([(row["policy"], row["budgets"]) for row in rows])
    if {"auto", "uniform"} <= {row["policy"] for row in rows}:
        click.echo(
            f"uniform has m = {base.policy.draws} here, and auto has none. Another m may suit the "
            "radio: `fedsched advise` predicts them all, and --set policy.draws=1 trains with one."
        )
