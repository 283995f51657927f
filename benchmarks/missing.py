"""What the runs that are not trained yet would take: the paper's, and those of `auto`.

    python -m benchmarks.missing

Rounds are those of the committed run that is nearest, by the law of rounds R0 (1 + Q / kappa) where
Q is another, and 500 more. Local steps are devices a round times the steps of one. A core does 42
local steps a second. What `auto` would schedule is scheduled. Writes ``results/missing.md``.
"""

from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from statistics import fmean

import fedsched
from fedsched import read_run
from fedsched.analysis import group_runs
from fedsched.policies import Auto, AveragePower, System
from fedsched.radio import make_channel

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


# Of `auto`: channel, alpha, computation in seconds, Mbit an upload (its own, or 32 bits a number),
# seeds.
OWN, WHOLE = 1.65, 17.77
TIMES = (0.05, 0.5, 2.0, 10.0)
MISSING_OF_AUTO = [
    *(("heterogeneous", EQUAL, compute_s, OWN, 2) for compute_s in TIMES),
    *(("heterogeneous", EQUAL, compute_s, WHOLE, 3) for compute_s in TIMES),
    *(("homogeneous", EQUAL, compute_s, OWN, 3) for compute_s in TIMES),
    *(("heterogeneous", 1.0, compute_s, OWN, 1) for compute_s in TIMES),
    *(("homogeneous", 1.0, compute_s, OWN, 1) for compute_s in (0.0, *TIMES)),
    *((kind, 0.0, compute_s, OWN, 1)
      for kind, compute_s in product(("heterogeneous", "homogeneous"), (0.0, *TIMES))),
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


def scheduled(channel, alpha, compute_s, mbit):
    """Devices a round and mean 1/q of `auto`, from 300 rounds without training."""
    link = replace(fedsched.PAPER_UPLINK, bits=1e6 * mbit)
    system = System(link=link, budgets=(AveragePower(1.0),), compute_s=compute_s)
    rounds = fedsched.schedule(
        channel=make_channel(channel, 100), policy=Auto(system=system, kappa=KAPPA[alpha]),
        uplink=link, seed=1,
    )  # fmt: skip
    q = [done.decision.probability for done, _ in islice(rounds, 300)]
    return fmean(float(each.sum()) for each in q), fmean(float((1.0 / each).mean()) for each in q)


def cost(near, alpha, devices, inverse):
    """Rounds, local steps and hours of one core, from the rounds of a run that is near."""
    kappa = KAPPA[alpha]
    rounds = near[2] * (1.0 + inverse / kappa) / (1.0 + near[1] / kappa) + BEYOND
    steps = devices * STEPS * rounds
    return rounds, steps, steps / STEPS_A_SECOND / 3600.0


def of_the_paper(known):
    """Each missing run with what it takes."""
    for channel, alpha, kind, m, seeds in MISSING:
        own = known.get((channel, alpha, kind, m))
        devices, inverse, _ = own or known["heterogeneous", EQUAL, kind, m]
        same = known.get((channel, alpha, kind, 10)) or known["heterogeneous", alpha, kind, 10]
        yield (channel, named(alpha), kind, m), seeds, cost(own or same, alpha, devices, inverse)


def of_auto(known):
    """The same for `auto`."""
    for channel, alpha, compute_s, mbit, seeds in MISSING_OF_AUTO:
        near = known["heterogeneous", alpha, "lyapunov", 10]
        devices, inverse = scheduled(channel, alpha, compute_s, mbit)
        about = (channel, named(alpha), f"{compute_s:g} s", f"{mbit:g}")
        yield about, seeds, cost(near, alpha, devices, inverse)


def named(alpha):
    return "∞" if alpha == EQUAL else f"{alpha:g}"


def table(names, found):
    """What each takes, and all of them."""
    cells, total = [*names, "seeds", "rounds each", "local steps each", "core-hours in all"], 0.0
    yield f"| {' | '.join(cells)} |"
    yield "|---" * len(cells) + "|"
    for about, seeds, (rounds, steps, hours) in found:
        total += seeds * hours
        shown = " | ".join(map(str, about))
        yield f"| {shown} | {seeds} | {rounds:,.0f} | {steps:,.0f} | {seeds * hours:.1f} |"
    yield f"| all {'| ' * (len(cells) - 2)}| {total:.0f} |"


def lines():
    known = schedules(group_runs(map(read_run, sorted(RUNS.glob("*")))))
    yield from (
        "# What is missing, and what it would take",
        "",
        "`python -m benchmarks.missing`: 42 local steps a second on a core.",
        "",
        "## Of the paper",
        "",
    )
    yield from table(("channel", "α", "policy", "m"), of_the_paper(known))
    yield from ("", "## Of auto", "")
    yield from table(("channel", "α", "computation", "Mbit an upload"), of_auto(known))


if __name__ == "__main__":
    PLACE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
