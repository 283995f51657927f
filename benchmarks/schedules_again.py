"""Whether this machine schedules as those did that made the runs in ``results/cifar10``.

`python -m benchmarks.schedules_again` makes the schedule of every run there anew, over all its
rounds, and writes ``results/schedules-again.md``. The decision has the same bits on every
processor; NumPy, which draws the gains, chooses its kernels by the vector instructions of the
processor, and another kernel may round the last bit of a number otherwise.
"""

import sys
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.run import machine
from fedsched.runs.assembly import schedule_of
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from

RESULTS = Path(__file__).parents[1] / "results" / "cifar10"
PLACE = Path(__file__).parent / "results" / "schedules-again.md"
HEADER = "| run | rounds | other cohorts | weights apart by | airtimes apart by |"


def apart(here, there):
    """The largest relative difference; nobody's airtime, 0 s, is equal to itself."""
    here, there = np.asarray(here), np.asarray(there)
    return float(np.max(np.abs(here - there) / np.where(there == 0.0, 1.0, there), initial=0.0))


def compare(log):
    """Rounds whose cohort is another, and how far weights and airtimes are apart in the rest."""
    scenario = scenario_from(log.manifest["scenario"])
    rounds = islice(schedule_of(scenario, int(log.manifest["update_bits"]) // 32), log.rounds)
    logged = zip(
        log.lists("device"), log.lists("weight"), log.column("airtime_s"), rounds, strict=True
    )
    others, weight, airtime = 0, 0.0, 0.0
    for device, weights, airtime_s, done in logged:
        if done.cohort.device.tolist() == device:
            weight = max(weight, apart(done.cohort.weight, weights))
            airtime = max(airtime, apart(done.airtime_s, airtime_s))
        else:
            others += 1
    return others, weight, airtime


def vector_instructions():
    """The newest group of instructions that NumPy uses here, as it names it."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return found[-1] if found else "its baseline"


def main():
    logs = [read_run(path.parent) for path in sorted(RESULTS.glob("*/*/rounds.arrows"))]
    logs = [log for log in logs if log.folder.parent.name in ("runs", "designs")]
    lines = [HEADER, "|---|---|---|---|---|"]
    worst, rounds = np.zeros(3), 0
    for log in logs:
        found = compare(log)
        worst, rounds = np.maximum(worst, found), rounds + log.rounds
        others, weight, airtime = found
        row = f"| {log.folder.name} | {log.rounds:,} | {others} | {weight:.1e} | {airtime:.1e} |"
        lines.append(row)
        print(row, flush=True)
    about = (
        f"{machine()['cpu']}, NumPy {np.__version__} with {vector_instructions()}: of {rounds:,} "
        f"rounds in {len(logs)} runs the cohorts are "
        f"{'the same in all' if not worst[0] else 'others in some'}, weights agree to "
        f"{worst[1]:.1e} and airtimes to {worst[2]:.1e}."
    )
    PLACE.write_text("\n".join(["# Schedules again", "", about, "", *lines, ""]), encoding="utf-8")
    print(about)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"it takes no arguments, got {' '.join(sys.argv[1:])}")
    main()
