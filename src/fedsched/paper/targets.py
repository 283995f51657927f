"""The targets: for each figure or table, the runs it needs and what is made of them."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsched.analysis.arrival import Reach
from fedsched.analysis.envelope import lower_envelope
from fedsched.analysis.groups import Group, mean_reach, paired_speedup
from fedsched.analysis.tally import ScheduleTally
from fedsched.paper import drawing, published
from fedsched.paper.scales import Scale
from fedsched.policies import make_policy
from fedsched.radio import make_channel
from fedsched.rounds import schedule
from fedsched.runs.scenario import Scenario
from fedsched.runs.scenario_file import expand
from fedsched.solve.uplink import PAPER_UPLINK

__all__ = ["TARGETS", "Product", "Target"]

ALPHAS = (math.inf, 1.0, 0.0)
LAMBDAS = (1.0, 10.0, 100.0)
_FIGURE_V = (1.0, 100.0, 1_000.0, 100_000.0)

Table = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """What a target makes of its runs."""

    figure: Any
    rows: list[Row]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One figure or table of the paper."""

    name: str
    about: str
    tables: Callable[[Scale], list[Table]]  # scenarios with sweeps; none if nothing is trained
    make: Callable[[Scale, Sequence[Group]], Product]

    def scenarios(self, scale: Scale) -> list[Scenario]:
        """Every run the target needs."""
        return [each for table in self.tables(scale) for each in expand(table)]


def _tables(
    scale: Scale,
    *,
    channel: str = "heterogeneous",
    draws: Sequence[int] | None = None,
    alphas: Sequence[float] = (math.inf,),
    lambdas: Sequence[float] = (100.0,),
) -> list[Table]:
    """A scenario with a sweep for each number of draws and alpha, which decide when runs end."""
    tables = []
    for m, alpha in itertools.product(draws or scale.draws, alphas):
        base = scale.base(m, alpha)
        base["channel"]["kind"] = channel
        sweep = {
            "policy": ["lyapunov", "uniform"],
            "draws": [m],
            "lambda": list(lambdas),
            "seeds": list(scale.seeds),
        }
        tables.append({**base, "policy": {}, "sweep": sweep})
    return tables


def _find(groups: Sequence[Group], **wanted: Any) -> Group | None:
    """The group whose fields have these values; alpha is compared as it is logged."""
    names = {"policy": "policy.kind", "draws": "policy.draws", "lam": "policy.lam",
             "alpha": "data.alpha", "channel": "channel.kind"}  # fmt: skip
    for group in groups:
        fields = {names[name]: "inf" if v == math.inf else v for name, v in wanted.items()}
        if all(group.fields.get(name) == value for name, value in fields.items()):
            return group
    return None


def _pairs(
    scale: Scale, groups: Sequence[Group], channel: str, alpha: float, computation_s: float
) -> list[Row]:
    """Ours beside uniform, and beside the paper, for each number of draws."""
    rows = []
    target = scale.targets[alpha]
    for m in scale.draws:
        ours = _find(groups, policy="lyapunov", draws=m, lam=100.0, alpha=alpha, channel=channel)
        base = _find(groups, policy="uniform", draws=m, alpha=alpha, channel=channel)
        if ours is None or base is None:
            continue
        gain = paired_speedup(
            base, ours, target, computation_s=computation_s, protocol=scale.protocol
        )
        in_paper = scale.paper_beside and alpha == math.inf
        printed = published.SPEEDUPS.get((channel, m, computation_s)) if in_paper else None
        for policy, group in (("lyapunov", ours), ("uniform", base)):
            mean = mean_reach(group, target, protocol=scale.protocol)
            seconds = published.SECONDS_TO_TARGET.get((policy, m))
            plain = in_paper and channel == "heterogeneous" and computation_s == 0.0
            rows.append(
                {
                    "channel": channel, "alpha": alpha, "draws": m, "policy": policy,
                    "target": target, "computation_s": computation_s, "seeds": len(group.logs),
                    "seconds_to_target": None if mean is None else mean.time_s(computation_s),
                    "rounds_to_target": None if mean is None else mean.rounds,
                    "speedup": gain.ratio if gain and policy == "lyapunov" else None,
                    "speedup_low": gain.low if gain and policy == "lyapunov" else None,
                    "speedup_high": gain.high if gain and policy == "lyapunov" else None,
                    "paper_seconds": seconds if plain else None,
                    "paper_speedup": printed if policy == "lyapunov" else None,
                }
            )  # fmt: skip
    return rows


def _convergence(scale: Scale, groups: Sequence[Group]) -> Product:
    figure = drawing.convergence(scale, groups, computations_s=(0.0, 2.0))
    rows = [row for c in (0.0, 2.0) for row in _pairs(scale, groups, "heterogeneous", math.inf, c)]
    return Product(figure=figure, rows=rows)


def _rounds(scale: Scale, groups: Sequence[Group]) -> Product:
    rows = _pairs(scale, groups, "heterogeneous", math.inf, 0.0)
    return Product(figure=drawing.over_rounds(scale, groups), rows=rows)


def _data_heterogeneity(scale: Scale, groups: Sequence[Group]) -> Product:
    rows = [row for alpha in ALPHAS for row in _pairs(scale, groups, "heterogeneous", alpha, 1.0)]
    return Product(figure=drawing.heterogeneity(scale, groups, computation_s=1.0), rows=rows)


def _homogeneous(scale: Scale, groups: Sequence[Group]) -> Product:
    rows = [
        row for alpha in (math.inf, 1.0) for row in _pairs(scale, groups, "homogeneous", alpha, 0.0)
    ]
    return Product(figure=drawing.homogeneous(scale, groups), rows=rows)


def _time_to_target(scale: Scale, groups: Sequence[Group]) -> Product:
    lines = _lines(scale, groups, "heterogeneous", "lyapunov", math.inf)
    rows = [
        {"best": piece.name, "from_s": piece.begin_s, "to_s": piece.end_s,
         "target": scale.targets[math.inf]}
        for piece in lower_envelope(lines)
    ]  # fmt: skip
    ours = [group for group in groups if group.fields["policy.kind"] == "lyapunov"]
    return Product(figure=drawing.time_to_target(scale, ours), rows=rows)


def _lines(
    scale: Scale, groups: Sequence[Group], channel: str, policy: str, alpha: float
) -> dict[str, Reach]:
    """Configurations that reach the target of their alpha, by label."""
    lines = {}
    for group in groups:
        logged = "inf" if alpha == math.inf else alpha
        fields = group.fields
        if (fields["channel.kind"], fields["policy.kind"], fields["data.alpha"]) != (
            channel, policy, logged,
        ):  # fmt: skip
            continue
        reached = mean_reach(group, scale.targets[alpha], protocol=scale.protocol)
        if reached is not None:
            lines[group.label] = reached
    return lines


def _table(channel: str) -> Callable[[Scale, Sequence[Group]], Product]:
    def make(scale: Scale, groups: Sequence[Group]) -> Product:
        by_label = {group.label: group for group in groups}
        rows: list[Row] = []
        for alpha, policy in ((x, y) for x in ALPHAS for y in ("lyapunov", "uniform")):
            lines = _lines(scale, groups, channel, policy, alpha)
            common = {"channel": channel, "alpha": alpha, "policy": policy,
                      "target": scale.targets[alpha]}  # fmt: skip
            # One that arrived alone is not the best of anything.
            for piece in lower_envelope(lines) if len(lines) > 1 else []:
                group = by_label[piece.name]
                rows.append(
                    {**common, "source": "ours", "from_s": piece.begin_s, "to_s": piece.end_s,
                     "draws": group.fields["policy.draws"],
                     "lambda": group.fields.get("policy.lam"), "seeds": len(group.logs)}
                )  # fmt: skip
            printed = published.BEST_CONFIGURATIONS.get((channel, policy, alpha), [])
            for begin, end, m, lam in printed if scale.paper_beside else []:
                rows.append(
                    {**common, "source": "paper", "from_s": begin, "to_s": end, "draws": m,
                     "lambda": lam, "seeds": None}
                )  # fmt: skip
        return Product(figure=drawing.best_configurations(rows), rows=rows)

    return make


def _schedules(
    scale: Scale, cases: Mapping[str, Mapping[str, Any]], channel: str = "heterogeneous"
) -> dict[str, ScheduleTally]:
    """Schedules without training, by label."""
    tallies = {}
    for label, settings in cases.items():
        arguments: dict[str, Any] = {"name": "lyapunov", "draws": 10, **settings}
        name = arguments.pop("name")
        place = make_channel(channel, scale.devices)
        policy = make_policy(name, uplink=PAPER_UPLINK, **arguments)
        rounds = schedule(channel=place, policy=policy, uplink=PAPER_UPLINK, seed=scale.seeds[0])
        tallies[label] = ScheduleTally(scale.devices)
        for done, _ in itertools.islice(rounds, scale.schedule_rounds):
            tallies[label].add(done)
    return tallies


def _effect_of_v(scale: Scale, groups: Sequence[Group]) -> Product:
    del groups
    tallies = _schedules(scale, {f"V = {v:g}": {"v": v} for v in _FIGURE_V})
    rows = [
        {"V": v, **tally.summary().as_dict(), "paper": "V = 1e5 does not reach 1; V = 1 oscillates"}
        for v, tally in zip(_FIGURE_V, tallies.values(), strict=True)
    ]
    return Product(figure=drawing.effect_of_v(tallies), rows=rows)


def _device_statistics(scale: Scale, groups: Sequence[Group]) -> Product:
    del groups
    cases: dict[str, dict[str, Any]] = {f"λ = {lam:g}": {"lam": lam} for lam in LAMBDAS}
    tallies = _schedules(scale, {**cases, "uniform": {"name": "uniform"}})
    rows: list[Row] = []
    for label, tally in tallies.items():
        rows += [
            {"policy": label, "quantity": "selections per round", "of": n, "value": float(value)}
            for n, value in enumerate(tally.selection_frequency)
        ]
        rows += [
            {"policy": label, "quantity": "share of rounds with this many devices", "of": n,
             "value": float(value)}
            for n, value in enumerate(tally.size_distribution)
        ]  # fmt: skip
    return Product(figure=drawing.device_statistics(tallies), rows=rows)


_ALL = (
    Target(name="time-to-target", about="time to the target against computation time",
           tables=_tables, make=_time_to_target),
    Target(name="table-heterogeneous", about="best m and lambda by computation time",
           tables=lambda scale: _tables(scale, alphas=ALPHAS, lambdas=LAMBDAS),
           make=_table("heterogeneous")),
    Target(name="table-homogeneous", about="the same for homogeneous channels",
           tables=lambda scale: _tables(scale, channel="homogeneous", alphas=ALPHAS,
                                        lambdas=LAMBDAS),
           make=_table("homogeneous")),
    Target(name="convergence", about="accuracy and loss over time, computation 0 s and 2 s",
           tables=_tables, make=_convergence),
    Target(name="data-heterogeneity", about="accuracy and loss for alpha = 0, 1, infinity",
           tables=lambda scale: _tables(scale, draws=scale.draws[-1:], alphas=ALPHAS),
           make=_data_heterogeneity),
    Target(name="rounds", about="accuracy and loss against rounds", tables=_tables, make=_rounds),
    Target(name="homogeneous", about="accuracy and loss over homogeneous channels",
           tables=lambda scale: _tables(scale, channel="homogeneous", alphas=(math.inf, 1.0),
                                        draws=(scale.draws[0], scale.draws[-1])),
           make=_homogeneous),
    Target(name="effect-of-v", about="average power over rounds for several V",
           tables=lambda _: [], make=_effect_of_v),
    Target(name="device-statistics", about="selection frequency and devices a round",
           tables=lambda _: [], make=_device_statistics),
)  # fmt: skip
TARGETS: Mapping[str, Target] = {target.name: target for target in _ALL}
# What the paper calls them.
PRINTED: Mapping[str, str] = {
    "fig2": "time-to-target", "fig3": "convergence", "fig4": "data-heterogeneity",
    "fig5": "rounds", "fig6": "homogeneous", "fig7": "effect-of-v", "fig8": "device-statistics",
    "table1": "table-heterogeneous", "table2": "table-homogeneous",
}  # fmt: skip
