"""``fedsched init``: a scenario to begin with, written with what its numbers mean."""

from pathlib import Path

import click
import numpy as np

from fedsched.cli.options import json_option, out_option
from fedsched.cli.output import print_json
from fedsched.errors import InputError
from fedsched.files import atomic_path, output_folder
from fedsched.radio.presets import Preset, find_preset

__all__ = ["command"]

_DEVICES = 20

_SCENARIO = """\
# {about}
# Run it:       fedsched run {name} --out {folder}/run
# Look at it:   fedsched report {folder}/run
# Schedule it:  fedsched schedule {name}      (no training: who uploads, for how long)
# Size it:     fedsched advise {name}        (no training: when scheduling pays)
# Every field, with its default, is in docs/scenarios.md.

[run]
rounds = 100
seed = 1                # of channel, cohorts, data, model and minibatches
eval_every = 10         # rounds between measurements on the test set

[policy]
kind = "auto"           # tunes itself; `fedsched policies` lists the others

[channel]
{channel}

[uplink]
preset = "{preset}"{space}# a link and its cell: stands for the fields below
# Where it comes from:
{sources}
# bandwidth_hz = {bandwidth_hz:.6g}{computed}
# noise_w = {noise_w:.6g}    # of the receiver, thermal noise times its noise figure
{power}

[data]
name = "digits"         # or "cifar10", a .npz file, "module:function"
alpha = 1.0             # how alike devices are: 0 one class each, inf all classes alike
{samples}

[training]
model = "small-cnn"     # or "softmax", "paper-cnn", "module:Class"
steps = 10              # local steps a round
learning_rate = 0.05
compress = 4            # bits a number of an update; "none" sends all 32
{fleet}"""
_FLEET = """
[fleet]
file = "fleet.csv"      # a row for each device
"""


@click.command("init")
@click.argument("preset", default="lte", metavar="[PRESET]")
@click.option("--fleet", is_flag=True, help="Also write fleet.csv, with a row for each device.")
@out_option("Folder for scenario.toml; made if need be.", required=True)
@json_option
def command(preset: str, fleet: bool, out: str, as_json: bool) -> None:
    """Write a scenario for a link that exists, with comments, ready to run.

    PRESET is wifi, lte, 5g, nb-iot or lorawan.
    """
    found = find_preset(preset)
    folder = output_folder("out", out)
    files = {"scenario.toml": _scenario(found, out, fleet)}
    if fleet:
        files["fleet.csv"] = _fleet(found)
    for name, text in files.items():
        # What a killed command has left is written again.
        if (folder / name).exists() and not _holds(folder / name, text):
            raise InputError(
                f"out: {str(folder / name)!r} is there already; name another folder, or remove it"
            )
    for name, text in files.items():
        with atomic_path(folder / name) as aside:
            aside.write_text(text, encoding="utf-8", newline="\n")
    if as_json:
        print_json({"wrote": [str(folder / name) for name in files]})
        return
    for name in files:
        click.echo(f"wrote {folder / name}")
    click.echo(f"next: fedsched run {folder / 'scenario.toml'} --out {folder / 'run'}")


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _scenario(preset: Preset, folder: str, fleet: bool) -> str:
    power = (
        f"# max_power_w = {preset.max_power_w:.6g}      # {preset.max_power_dbm:g} dBm\n"
        f"# budget_w = {preset.budget_w:.6g}      # average power of a device"
    )
    return _SCENARIO.format(
        about=preset.about,
        name=f"{folder}/scenario.toml",
        folder=folder,
        preset=preset.name,
        space=" " * max(12 - len(preset.name), 1),
        sources="\n".join(f"#   {each.strip()}" for each in preset.sources.split(";")),
        bandwidth_hz=preset.bandwidth_hz,
        computed=f"    # {preset.efficiency:g} of the band's {preset.band_hz:.6g} Hz",
        noise_w=preset.noise_w,
        channel="# The devices of fleet.csv, in the cell of the preset."
        if fleet
        else f"devices = {_DEVICES}            # in the cell of the preset; or a trace: kind = "
        '"rates.csv", unit = "mbit/s"',
        power="# Peaks and budgets are in fleet.csv." if fleet else power,
        samples="# samples are in fleet.csv"
        if fleet
        else "samples = 60            # of every device",
        fleet=_FLEET if fleet else "",
    )


def _fleet(preset: Preset) -> str:
    """Devices of three kinds: peaks and budgets 3 dB apart, and computers of different speeds."""
    rows = ["name,max_power_dbm,budget_w,steps_per_s,samples"]
    for device in range(_DEVICES):
        kind = device % 3
        dbm = preset.max_power_dbm - 3.0 * (kind == 2)
        budget_w = preset.budget_w * (1.0, 1.0, 0.5)[kind]
        speed, samples = (40, 20, 10)[kind], 40 + 10 * (device % 5)
        rows.append(f"device-{device},{dbm:g},{float(np.round(budget_w, 6))!r},{speed},{samples}")
    return "\n".join([*rows, ""])
