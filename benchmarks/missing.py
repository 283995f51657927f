"""What the runs of the paper that are not trained yet would take.

    python -m benchmarks.missing

Rounds are those of the committed run that is nearest, by the law of rounds R0 (1 + Q / kappa) where
m is another, and 500 more. Local steps are devices a round times the steps of one. A core does 42
local steps a second. Writes ``results/missing.md``.
"""

from pathlib import Path
from statistics import fmean

from fedsched import read_run
from fedsched.analysis import group_runs

HERE = Path(__file__).parent
RUNS, PLACE = HERE.parent / "results" / "cifar10" / "runs", HERE / "results" / "missing.md"
STEPS_A_SECOND, STEPS, BEYOND = 42.0, 10, 500
KAPPA = {"inf": 143.0, 1.0: 30.0, 0.0: 50.0}  # by accuracy; the middle of what is fitted
EQUAL = "inf"
# What is missing: channel, alpha, policy, m, seeds.
MISSING = [
    *(("heterogeneous", alpha, kind, 10, 2)
      for alpha in (1.0, 0.0) for kind in ("lyapunov", "uniform")),
    *(("heterogeneous", alpha, kind, m, 1)
      for alpha in (1.0, 0.0) for m in (1, 5) for kind in ("lyapunov", "uniform")),
    ("homogeneous", 1.0, "lyapunov", 1, 1),
    *(("homogeneous", EQUAL, "lyapunov", m, 2) for m in (1, 10)),
]  # fmt: skip


def case(group):
    fields = group.fields
    return (
        fields["channel.kind"],
        fields["data.alpha"],
        fields["policy.kind"],
        fields["policy.draws"],
    )


def schedules(groups):
    """Devices a round, mean 1/q and rounds of the longest run, by case; lambda = 100."""
    return {
        case(group): (
            fmean(fmean(map(len, log.lists("device"))) for log in group.logs),
            fmean(float(log.column("mean_inverse_probability").mean()) for log in group.logs),
            max(log.rounds for log in group.logs),
        )
        for group in groups
        if group.fields.get("policy.lam", 100.0) == 100.0
    }


def hours(channel, alpha, kind, m, known):
    """Rounds, and the hours of one core that they take."""
    own = known.get((channel, alpha, kind, m))
    devices, inverse, rounds = own or known["heterogeneous", EQUAL, kind, m]
    if own is None:
        near = known.get((channel, alpha, kind, 10)) or known["heterogeneous", alpha, kind, 10]
        kappa = KAPPA[alpha]
        rounds = near[2] * (1.0 + inverse / kappa) / (1.0 + near[1] / kappa)
    rounds += BEYOND
    return rounds, devices * STEPS * rounds, devices * STEPS * rounds / STEPS_A_SECOND / 3600.0


def lines():
    known = schedules(group_runs(map(read_run, sorted(RUNS.glob("*")))))
    yield "# What is missing, and what it would take"
    yield ""
    yield "`python -m benchmarks.missing`: 42 local steps a second on a core."
    yield ""
    yield "| channel | α | policy | m | seeds | rounds | local steps | core-hours in all |"
    yield "|---|---|---|---|---|---|---|---|"
    total = 0.0
    for channel, alpha, kind, m, seeds in MISSING:
        rounds, steps, each = hours(channel, alpha, kind, m, known)
        total += seeds * each
        shown = "∞" if alpha == EQUAL else f"{alpha:g}"
        yield (
            f"| {channel} | {shown} | {kind} | {m} | {seeds} | {rounds:,.0f} | {steps:,.0f} "
            f"| {seeds * each:.1f} |"
        )
    yield f"| all | | | | | | | {total:.0f} |"


if __name__ == "__main__":
    PLACE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
