"""What scheduling is worth on radios that exist: how many times sooner than devices at random.

    python -m benchmarks.radios [--trace NAME PATH UNIT ...] [--seeds 3] [--rounds 1000]

Makes schedules, without training, on the paper's two channels, the five link presets and the traces
that are named (UNIT as in docs/units.md: ``gain``, ``mbit/s``). Policies: uniform with cohorts of
1/2 to N devices, the paper's, and auto as it comes. Time to a target is predicted as
(kappa + Q)(c + tau), kappa = 1.5 N, from expected values. Writes ``results/radios.md``,
and ``docs/images/radios.svg``; the numbers of its table stand in ``docs/radios.md`` as well.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsched.policies import Airtime, Auto, AveragePower, Lyapunov, System, WithReplacement
from fedsched.radio import PRESETS, make_channel
from fedsched.radio.trace import record
from fedsched.randomness import Luck
from fedsched.solve.uplink import PAPER_UPLINK, AbstractLink, RateLink
from fedsched.values import Observation
from fedsched.views.figures import PALETTE, save_figure, subplots

DEVICES = 100
KAPPA = 1.5  # of the law of rounds, for each device
UPLOADS = (0.0, 0.1, 1.0, 10.0)  # computation times, in median uploads
SIZES = (0.5, 1, 2, 3, 5, 10, 20, np.inf)  # m of uniform; the last: all in reach
TRACE_PEAK = 10.0  # of a trace of gains, in budgets: that of the presets
HERE = Path(__file__).parent
PLACE, FIGURE = HERE / "results" / "radios.md", HERE.parent / "docs" / "images" / "radios.svg"


@dataclass(frozen=True, kw_only=True)
class Radio:
    """Gains (or rates) of every round, and the link that they are of, its power in budgets.

    An update has as many bits as take the paper's median upload, so that lambda = 100 and V = 100
    mean everywhere what they mean in the paper. What is compared does not depend on the bits.
    """

    name: str
    table: np.ndarray
    link: AbstractLink
    duty_cycle: float | None = None

    @property
    def powered(self):
        return not isinstance(self.link, RateLink)  # nobody knows the power behind a rate

    @property
    def median_s(self):
        return median_s(self.link, self.table)

    def system(self, uploads):
        budgets = (AveragePower(1.0),) if self.powered else ()
        if self.duty_cycle:
            budgets += (Airtime(self.duty_cycle, "second"),)
        return System(link=self.link, budgets=budgets, compute_s=uploads * self.median_s)


def median_s(link, table):
    """A median upload at the power that ten of a hundred devices have."""
    power_w = np.full_like(table, min(link.max_power_w, 10.0))
    return float(np.nanmedian(link.airtime_s(table, power_w)))


def radio(name, table, link, duty_cycle=None):
    paper = record(make_channel("heterogeneous", DEVICES), rounds=500, seed=1)
    scale = median_s(PAPER_UPLINK, paper) / median_s(link, table)
    link = replace(link, bits=link.bits * scale)
    return Radio(name=name, table=table, link=link, duty_cycle=duty_cycle)


def model(name, rounds, seed):
    """A channel of the paper, or a preset."""
    table = record(make_channel(name, DEVICES), rounds=rounds, seed=seed)
    if name not in PRESETS:
        return radio(f"paper, {name}", table, PAPER_UPLINK)
    preset = PRESETS[name]
    link = replace(
        PAPER_UPLINK,
        noise_w=preset.noise_w / preset.budget_w,
        max_power_w=preset.max_power_w / preset.budget_w,
    )
    return radio(name, table, link, preset.duty_cycle)


def trace(name, path, unit, rounds):
    """A recorded channel. Gains have the paper's noise; over rates no power is known."""
    channel = make_channel(path, unit=unit, noise_w=1.0, bandwidth_hz=PAPER_UPLINK.bandwidth_hz)
    table = record(channel, rounds=rounds, seed=1)
    if channel.quantity == "rate":
        return radio(name, table, RateLink(bits=PAPER_UPLINK.bits, max_power_w=1.0))
    return radio(name, table, replace(PAPER_UPLINK, max_power_w=TRACE_PEAK))


@dataclass(frozen=True)
class Schedule:
    """Means over the rounds: Q, tau with the server's waits, and q P and q tau of each device."""

    inverse: float
    airtime_s: float
    power: np.ndarray
    own_s: np.ndarray

    def round_s(self, on, uploads):
        """With the wait after which no device is on air for longer than it may."""
        free_s = uploads * on.median_s + self.airtime_s
        return max(free_s, self.own_s.max() / on.duty_cycle) if on.duty_cycle else free_s

    def time(self, on, uploads):
        return (KAPPA * on.table.shape[1] + self.inverse) * self.round_s(on, uploads)

    def air_use(self, on, uploads):
        """Of the worst device, to what its duty cycle allows, in the rounds as they are."""
        if not on.duty_cycle:
            return np.nan
        return self.own_s.max() / (uploads * on.median_s + self.airtime_s) / on.duty_cycle


def play(policy, on):
    """The schedule of a policy."""
    devices = on.table.shape[1]
    state, rows, power, own_s = policy.init(devices), [], np.zeros(devices), np.zeros(devices)
    for t, gain in enumerate(on.table):
        decision, state = policy.decide(Observation(gain=gain, luck=Luck(1, t)), state)
        q = decision.probability
        part = q > 0.0
        on_air = np.where(part, q * np.where(part, decision.plan.upload_s, 0.0), 0.0)
        rows.append(((1.0 / q[part]).mean() if part.any() else np.nan,
                     on_air.sum() + decision.wait_s))  # fmt: skip
        power += decision.expected_power_w
        own_s += on_air
    inverse, airtime_s = np.array(rows).T
    rounds = len(on.table)
    return Schedule(np.nanmean(inverse), airtime_s.mean(), power / rounds, own_s / rounds)


def uniform(m, on):
    """Cohorts of m devices in reach, at the constant power that spends the budget."""
    near = ~np.isnan(on.table)
    count = near.sum(axis=1, keepdims=True)
    q = np.where(near, np.minimum(1.0, m / np.maximum(count, 1)), 0.0)
    peak_w = on.link.max_power_w
    power = np.where(near, np.minimum(peak_w, 1.0 / np.maximum(q, 1e-9)), 0.0)
    upload_s = np.where(near, on.link.airtime_s(np.where(near, on.table, 1.0), power), 0.0)
    some = near.any(axis=1)
    own_s = q * upload_s
    return Schedule(
        float((1.0 / q.max(axis=1)[some]).mean()),
        float(own_s.sum(axis=1).mean()),
        (q * power).mean(axis=0),
        own_s.mean(axis=0),
    )


def papers(m, on, start="budget"):
    """The paper's policy. Its queues begin at the budget: with empty ones it is above for long."""
    powers = tuple(each for each in on.system(0.0).budgets if isinstance(each, AveragePower))
    system = System(link=on.link, budgets=powers)
    design = WithReplacement(m)
    return play(Lyapunov(system=system, design=design, v=100.0, lam=100.0, start=start), on)


def measure(on):
    """By computation time: predicted times to those of uniform, and uses of the budgets."""
    equal = {m: uniform(m, on) for m in SIZES}
    paper = {m: papers(m, on) for m in (10, 1)}
    empty = papers(10, on, start="empty")
    found = []
    for uploads in UPLOADS:
        own = play(Auto(system=on.system(uploads)), on)
        times = {m: each.time(on, uploads) for m, each in equal.items()}
        best = min(times, key=times.get)
        whole_s = min(time for m, time in times.items() if m != 0.5)
        auto_s = own.time(on, uploads)
        paper_s = {m: each.time(on, uploads) for m, each in paper.items()}
        found.append({
            "radio": on.name, "uploads": uploads, "best m": best, "powered": on.powered,
            "auto to best": times[best] / auto_s, "auto to whole": whole_s / auto_s,
            "auto to 10": times[10] / auto_s,
            "paper 10 to best": times[best] / paper_s[10],
            "paper 10 to 10": times[10] / paper_s[10],
            "paper 1 to best": times[best] / paper_s[1],
            "power": {"uniform": max(each.power.max() for each in equal.values()),
                      "auto": own.power.max(), "paper 10": paper[10].power.max(),
                      "paper 1": paper[1].power.max(), "empty": empty.power.max()},
            "air": {"best uniform": equal[best].air_use(on, uploads),
                    "auto": own.air_use(on, uploads), "paper 10": paper[10].air_use(on, uploads),
                    "paper 1": paper[1].air_use(on, uploads)},
        })  # fmt: skip
    return found


def middle(rows, name):
    """The geometric mean over the seeds."""
    return float(np.exp(np.mean([np.log(row[name]) for row in rows])))


def spread(rows, name):
    """The geometric mean, and from where to where the seeds lie."""
    values = [row[name] for row in rows]
    inside = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return f"{middle(rows, name):.2f}{inside}"


def sizes(rows):
    words = {0.5: "1/2", np.inf: "N"}
    return ", ".join(words.get(m, str(m)) for m in sorted({row["best m"] for row in rows}))


def times_table(cases):
    yield "| radio | computation | best m | `auto`: than the best uniform | than the best whole m \
| than m = 10 | paper, m = 10: than the best uniform | than m = 10 \
| paper, m = 1: than the best uniform |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for (radio_name, uploads), rows in cases.items():
        yield (
            f"| {radio_name} | {uploads:g} | {sizes(rows)} | {spread(rows, 'auto to best')} "
            f"| {middle(rows, 'auto to whole'):.2f} | {spread(rows, 'auto to 10')} "
            f"| {middle(rows, 'paper 10 to best'):.2f} | {middle(rows, 'paper 10 to 10'):.2f} "
            f"| {middle(rows, 'paper 1 to best'):.2f} |"
        )


def budgets_table(cases):
    yield "| radio | uniform, any m | `auto` | paper, m = 10 | paper, m = 1 \
| paper, m = 10, queues empty at first |"
    yield "|---|---|---|---|---|---|"
    for radio_name in dict.fromkeys(name for name, _ in cases):
        rows = [row for (name, _), some in cases.items() for row in some if name == radio_name]
        names = ("uniform", "auto", "paper 10", "paper 1", "empty")
        worst = (max(row["power"][name] for row in rows) for name in names)
        words = [f"{use:.3f}" if rows[0]["powered"] else "not known" for use in worst]
        yield f"| {radio_name} | {' | '.join(words)} |"


def airs_table(cases):
    yield "| radio | computation | best uniform | `auto` | paper, m = 10 | paper, m = 1 |"
    yield "|---|---|---|---|---|---|"
    for (radio_name, uploads), rows in cases.items():
        if not np.isnan(rows[0]["air"]["auto"]):
            worst = (max(row["air"][name] for row in rows) for name in rows[0]["air"])
            yield f"| {radio_name} | {uploads:g} | {' | '.join(f'{use:.2f}' for use in worst)} |"


def draw(cases):
    """A row a radio, a dot a computation time; lines from the least seed to the largest."""
    names = list(dict.fromkeys(name for name, _ in cases))
    panels = {"auto to best": "than the best uniform", "auto to 10": "than uniform with m = 10"}
    looks = dict(zip(UPLOADS, (PALETTE[4], PALETTE[5], PALETTE[0], PALETTE[6]), strict=True))
    with subplots(1, 2, width=10.5, height=0.42 * len(names) + 1.6) as (figure, axes):
        for axis, (key, title) in zip(axes[0], panels.items(), strict=True):
            for (name, uploads), rows in cases.items():
                y = names.index(name) + 0.18 * (UPLOADS.index(uploads) - 1.5)
                values = [row[key] for row in rows]
                axis.plot([min(values), max(values)], [y, y], color=looks[uploads], linewidth=1.2)
                axis.plot(middle(rows, key), y, "o", color=looks[uploads], markersize=4.5,
                          label=f"{uploads:g}" if name == names[0] else None)  # fmt: skip
            axis.axvline(1.0, color="#555555", linestyle="--", linewidth=1.0)
            axis.set(title=title, xlabel="times sooner with auto")
            axis.set_yticks(range(len(names)), names)
            axis.tick_params(axis="y", length=0)
            axis.grid(visible=False, axis="y")
            axis.invert_yaxis()
        axes[0, 1].set(xscale="log", yticklabels=[])
        axes[0, 1].set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axes[0, 1].minorticks_off()
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=4, loc="outside lower center",
                      title="computation time of a round, in median uploads")  # fmt: skip
        save_figure(figure, FIGURE)


def page(cases, command):
    return [
        "# Scheduling on radios that exist",
        "",
        f"`{command}`: how many times sooner a target is reached, predicted; the geometric mean of "
        "the seeds, and from the least to the largest. Computation is that of a round, in median "
        "uploads.",
        "",
        *times_table(cases),
        "",
        "Mean power of the worst device over all rounds, to its budget; the worst seed and "
        "computation time.",
        "",
        *budgets_table(cases),
        "",
        "Time on air of the worst device, to what its duty cycle allows, before the server waits "
        "until it is kept; the worst seed. The waiting is part of the times above.",
        "",
        *airs_table(cases),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", nargs=3, action="append", default=[],
                        metavar=("NAME", "PATH", "UNIT"))  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1000)
    given = parser.parse_args()
    seeds, rounds = range(1, given.seeds + 1), given.rounds
    names = ("heterogeneous", "homogeneous", *PRESETS)
    radios = [*(model(name, rounds, seed) for name in names for seed in seeds),
              *(trace(*each, rounds) for each in given.trace)]  # fmt: skip
    cases = {}
    for number, each in enumerate(radios):
        for row in measure(each):
            cases.setdefault((row["radio"], row["uploads"]), []).append(row)
        print(f"{number + 1} of {len(radios)}", end="\r", flush=True)
    shown = "".join(f' --trace "{name}" TRACE.csv {unit}' for name, _, unit in given.trace)
    command = f"python -m benchmarks.radios --seeds {given.seeds} --rounds {rounds}{shown}"
    lines = page(cases, command)
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(cases)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
