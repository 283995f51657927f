"""``fedsched run``: a scenario file becomes a run folder."""

import os

import click

from fedsched.cli.output import live_progress, print_table
from fedsched.config import load_scenario
from fedsched.core.checks import whole_number

__all__ = ["command"]


@click.command("run", context_settings={"show_default": True})
@click.argument("scenario")
@click.option("--out", required=True, metavar="DIR", help="Run folder; run again to resume.")
@click.option("--workers", default=min(2, os.cpu_count() or 1), help="Processes that train.")
@click.option("--device", default="cpu", help="cpu or cuda.")
def command(scenario: str, out: str, workers: int, device: str) -> None:
    """Train the scenario in the file SCENARIO under the radio clock.

    Whatever the number of workers, and however often it is stopped and run again, the log and the
    model come out the same to the bit.
    """
    whole_number("workers", workers)
    loaded = load_scenario(scenario)
    # Torch and the data are loaded only once the scenario is known to be sound.
    from fedsched.experiment import run

    with live_progress(f"{loaded.policy.kind}, m = {loaded.policy.draws}") as progress:
        log = run(loaded, out, workers=workers, torch_device=device, progress=progress)
    accuracy = log.column("test_accuracy")
    on_air_s = float(log.column("airtime_s").sum())
    clock_s = on_air_s + loaded.uplink.computation_s * log.rounds
    print_table(
        f"{scenario}, seed {loaded.run.seed}",
        ["policy", "rounds", "airtime s", "clock s", "test accuracy", "best", "train loss"],
        [
            [
                loaded.policy.kind,
                str(log.rounds),
                f"{on_air_s:.1f}",
                f"{clock_s:.1f}",
                f"{accuracy[-1]:.4f}",
                f"{accuracy[accuracy == accuracy].max():.4f}",
                f"{log.column('train_loss')[-1]:.4f}",
            ]
        ],
    )
    click.echo(f"wrote {out}")
