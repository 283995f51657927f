"""What a mean of the last models of a run is worth, where devices hold unlike data.

`python -m benchmarks.averaged_models keep RUN KEPT` beside `fedsched run` copies every checkpoint
of the run folder RUN to the folder KEPT, for a run itself keeps the last two; stop it with Ctrl-C.
`python -m benchmarks.averaged_models table RUN KEPT [RUN KEPT ...]` evaluates means of them and
adds them to ``results/averaged-models.md``; what that page has of other runs, or of earlier rounds
of these, stays there.
"""

import shutil
import sys
import time
from pathlib import Path

import numpy as np

from fedsched.learning.pool import training_pool
from fedsched.runs.assembly import trainer_spec_of
from fedsched.runs.checkpoint import read_checkpoint, rounds_done
from fedsched.runs.runlog import read_run
from fedsched.runs.scenario import scenario_from

POLL_S = 10.0
EVERY = 500  # rounds between two rows
SPANS = (5, 10, 20)  # checkpoints in a mean
NEAR = 10  # measurements of the run itself to compare with
PLACE = Path(__file__).parent / "results" / "averaged-models.md"


def keep(run, kept):
    """Copy what is new, until interrupted. A checkpoint appears whole or not at all."""
    kept.mkdir(parents=True, exist_ok=True)
    while True:
        for path in run.glob("checkpoint-*.npz"):
            if not (kept / path.name).exists():
                shutil.copyfile(path, kept / path.name)
        time.sleep(POLL_S)


def models(kept):
    """The parameters of every kept checkpoint by its round."""
    found = {}
    before = rounds_done(kept) + 1
    while (checkpoint := read_checkpoint(kept, before=before)) is not None:
        found[checkpoint.round] = checkpoint.parameters
        before = checkpoint.round
    return found


def row(t, found, step, accuracy, evaluate):
    """Accuracies after t rounds: of the run's last measurements, and of means of its models."""
    measured = accuracy[:t][~np.isnan(accuracy[:t])][-NEAR:]
    cells = [f"{t:,}", f"{measured.mean():.3f} ({measured.min():.3f} to {measured.max():.3f})"]
    for span in SPANS:
        last = [found[s] for s in found if t - step * span < s <= t]
        whole = len(last) == span
        mean = np.mean(last, axis=0, dtype=np.float64).astype(np.float32)
        cells.append(f"{evaluate(mean).accuracy:.3f}" if whole else "-")
    return f"| {' | '.join(cells)} |"


def measured(run, kept):
    """What a table of one run is called, and its rows by their round."""
    log, found = read_run(run), models(kept)
    scenario = scenario_from(log.manifest["scenario"])
    accuracy = np.asarray(log.column("test_accuracy"), dtype=np.float64)
    step = min(np.diff(sorted(found)))
    heading = (
        f"{scenario.policy.kind}, m = {scenario.policy.draws}, alpha = {scenario.data.alpha:g}, "
        f"{scenario.channel.kind} channels, seed {scenario.run.seed}. Test accuracy of the run's "
        f"last {NEAR} measurements (mean, least, largest), and of the mean of its last models, one "
        f"every {step} rounds:"
    )
    rows = {}
    with training_pool(trainer_spec_of(scenario, log.manifest["devices"], "cpu"), 1) as pool:
        for t in sorted(found):
            if t % EVERY == 0:
                rows[t] = row(t, found, step, accuracy, pool.evaluate)
                print(rows[t], flush=True)
    return heading, rows


def known(page):
    """The rows of a page by their round, for each table by its heading."""
    tables = {}
    for line in page.splitlines():
        first = line.removeprefix("| ").partition(" |")[0].replace(",", "")
        if line.endswith(":"):
            rows = tables[line] = {}
        elif first.isdigit():
            rows[int(first)] = line
    return tables


def table(*folders):
    """Tables of pairs of folders, a run and what was kept of it, beside what is known."""
    tables = known(PLACE.read_text(encoding="utf-8")) if PLACE.is_file() else {}
    for run, kept in zip(folders[::2], folders[1::2], strict=True):
        heading, rows = measured(run, kept)
        # The first of what was kept has no whole mean yet; an earlier measurement may have.
        tables[heading] = rows | tables.get(heading, {})
    lines = ["# Means of the last models"]
    for heading, rows in tables.items():
        columns = f"| rounds | the run | {' | '.join(f'mean of {span}' for span in SPANS)} |"
        lines += ["", heading, "", columns, f"|{'---|' * (2 + len(SPANS))}"]
        lines += [rows[t] for t in sorted(rows)]
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asked, folders = sys.argv[1:2], [Path(each) for each in sys.argv[2:]]
    if asked == ["keep"] and len(folders) == 2:
        keep(*folders)
    elif asked == ["table"] and folders and len(folders) % 2 == 0:
        table(*folders)
    else:
        sys.exit("say keep RUN KEPT, or table RUN KEPT [RUN KEPT ...]")
