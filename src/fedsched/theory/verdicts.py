"""What predicted times say: which policy is sooner, at which computation time and which SNR."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fedsched.theory.advice import Case, Study
from fedsched.theory.costs import Cost, error_of_ratio, pooled

__all__ = ["SNR_SHIFTS_DB", "TIE", "UPLOADS", "Point", "point"]

UPLOADS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # computation times to look at, in uploads
SNR_SHIFTS_DB = (-20.0, -10.0, 10.0, 20.0)
TIE = 0.02  # less is no difference between policies
_SAME = 0.01  # nor between numbers of devices
_ERRORS = 3.0  # standard errors of a gain that its range has on either side


@dataclass(frozen=True, kw_only=True)
class Point:
    """``auto`` beside the best uniform cohort, at one computation time and one SNR."""

    computation_s: float
    snr_db: float
    times: Mapping[str, float]  # by label, in units of the best uniform
    costs: Mapping[str, Cost]  # by label, over all seeds; times are made of them
    best: int  # m of the best uniform, of those within their budgets if there are any
    alike: tuple[int, ...]  # the m that take as long, the best among them
    kept: bool  # whether a uniform cohort is within its budgets
    gain: float  # the best uniform's time over that of auto, at kappa
    low: float  # least gain of any seed and kappa, and by the error of so few rounds
    high: float

    @property
    def verdict(self) -> str:
        """Who is sooner; "likely" where that depends on kappa or on the seed."""
        if abs(self.gain - 1.0) <= TIE:
            return "tie"
        sooner = "auto" if self.gain > 1.0 else "uniform"
        return f"likely {sooner}" if self.low < 1.0 < self.high else sooner

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        return {
            "computation_s": self.computation_s, "snr_shift_db": self.snr_db,
            "best_uniform_m": self.best, "as_good_m": list(self.alike),
            "uniform_keeps_budgets": self.kept, "auto_sooner": self.gain,
            "auto_sooner_low": self.low, "auto_sooner_high": self.high, "verdict": self.verdict,
            "schedules": [*self.rows()],
        }  # fmt: skip

    def rows(self) -> Iterator[dict[str, Any]]:
        """The schedules of the point, the soonest first."""
        for label in sorted(self.times, key=lambda each: self.times[each]):
            cost = self.costs[label]
            yield {
                "schedule": label,
                "relative_time": self.times[label],
                "airtime_s_per_round": cost.airtime_s,
                "mean_inverse_probability": cost.inverse,
                "devices_per_round": cost.devices,
                "budgets": [use.as_dict() for use in cost.uses],
            }


def point(
    study: Study, costs: Mapping[Case, Cost], computation_s: float, snr_db: float = 0.0
) -> Point:
    """What the costs of a point's cases say."""
    found = {key: costs[case] for key, case in study.cases(computation_s, snr_db).items()}
    if study.alike:
        found = {key: cost.at(computation_s) for key, cost in found.items()}
    labels = list(dict.fromkeys(label for label, _ in found))
    every = tuple(dict.fromkeys(seed for _, seed in found))
    by_seed = [{label: found[label, seed] for label in labels} for seed in every]
    whole = {label: pooled([each[label] for each in by_seed]) for label in labels}
    uniform = {int(each.partition("=")[2]): each for each in labels if each.startswith("uniform m")}
    kept = {m: label for m, label in uniform.items() if whole[label].keeps_budgets}
    rivals = kept or uniform

    def soonest(costs: Mapping[str, Cost], kappa: float) -> Cost:
        return min((costs[label] for label in rivals.values()), key=lambda cost: cost.time_s(kappa))

    def gain(costs: Mapping[str, Cost], kappa: float) -> float:
        return soonest(costs, kappa).time_s(kappa) / costs["auto"].time_s(kappa)

    times = {label: cost.time_s(study.kappas[0]) for label, cost in whole.items()}
    best = min(rivals, key=lambda m: times[rivals[m]])
    best_s = times[rivals[best]]
    gains = [gain(costs, kappa) for costs in (whole, *by_seed) for kappa in study.kappas]
    for kappa in study.kappas:
        error = error_of_ratio(soonest(whole, kappa), whole["auto"], kappa)
        gains += [gain(whole, kappa) * math.exp(sign * _ERRORS * error) for sign in (-1.0, 1.0)]
    return Point(
        computation_s=computation_s,
        snr_db=snr_db,
        times={label: each / best_s for label, each in times.items()},
        costs=whole,
        best=best,
        alike=tuple(m for m in rivals if times[rivals[m]] <= (1.0 + _SAME) * best_s),
        kept=bool(kept),
        gain=gain(whole, study.kappas[0]),
        low=min(gains),
        high=max(gains),
    )
