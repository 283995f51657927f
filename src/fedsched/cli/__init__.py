"""The command line. Commands are imported when called, so that ``--help`` answers at once."""

import difflib
import importlib
import os
import signal
import sys
from typing import Any

import click

from fedsched.cli.terminal import cleaned_output
from fedsched.errors import FedschedError

__all__ = ["main"]

# Command -> module that defines it, and the line shown by --help.
_COMMANDS = {
    "demo": "train auto beside uniform cohorts of every size on digits, and compare the clocks",
    "run": "train a scenario under the radio clock; run it again to resume",
    "init": "a commented scenario for WiFi, LTE, 5G, NB-IoT or LoRaWAN, ready to run",
    "compare": "train with many policies on one scenario and the same channel draws",
    "reproduce": "every figure and table of the paper, at the scale you have time for",
    "report": "one page to look at, from run folders",
    "times": "when runs reached which accuracy and how much sooner, as text",
    "plot": "figures and tables for papers, from run folders: PDF, SVG, PNG, LaTeX, CSV",
    "pack": "small copies of runs, to keep or to send",
    "data": "fetch a data set (cifar10) into the cache, verified",
    "advise": "when scheduling pays on a radio, and when not, before any training",
    "bound": "the convergence bound of a run, beside its measured gradients",
    "policies": "every policy: what it reads, whether it is unbiased, where it comes from",
    "schedule": "schedule without training: probabilities, powers and airtime over many rounds",
}


class _Commands(click.Group):
    """Finds a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"fedsched.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _naming_field(error) from None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0].lower(), _COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            ctx.fail(f"unknown command {args[0]!r}; {hint}known are {', '.join(_COMMANDS)}")
        return super().resolve_command(ctx, args)


def _naming_field(error: click.NoSuchOption) -> click.UsageError:
    """Of a command with --set, an option that it has not may be a field of the scenario."""
    name = error.option_name.lstrip("-").replace("-", "_")
    options = [] if error.ctx is None else [each.name or "" for each in error.ctx.command.params]
    if "settings" not in options or difflib.get_close_matches(name, options, n=1, cutoff=0.8):
        return error
    from fedsched.runs.scenario_file import field_like

    if (field := field_like(name)) is None:
        return error
    return click.UsageError(f"{error.message} Did you mean --set {field}=VALUE?", error.ctx)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="fedsched")
def _fedsched() -> None:
    """Device scheduling for federated learning over a shared wireless uplink."""


def main() -> None:
    """Run the command line; what is raised on purpose, or by the machine, becomes a sentence."""
    # Interpreters that are started for workers begin with the present folder; nothing there may be
    # taken for a module of Python's.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    # What ends a batch job is heard as Ctrl-C is, so that what is done is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with cleaned_output():
        _main()


def _main() -> None:
    try:
        _fedsched(prog_name="fedsched")
    except FedschedError as error:
        sentence = str(error)
    except MemoryError as error:
        sentence = f"there is not enough memory: {error}; ask for fewer devices or rounds"
    except OSError as error:
        where = "" if error.filename is None else f"{str(error.filename)!r}: "
        sentence = f"{where}{error.strerror or error}; check the path and the space on its disk"
    else:
        return
    click.echo(f"fedsched: {sentence}", err=True)
    sys.exit(2)
