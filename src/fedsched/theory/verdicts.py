"""What predicted times say: which policy is sooner, at which computation time and which SNR."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedsched.theory.advice import Case, Cost, Study

__all__ = ["SNR_SHIFTS_DB", "TIE", "UPLOADS", "Point", "point"]

UPLOADS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # computation times to look at, in uploads
SNR_SHIFTS_DB = (-20.0, -10.0, 10.0, 20.0)
TIE = 0.02  # less is no difference between policies
_SAME = 0.01  # nor between numbers of devices


@dataclass(frozen=True, kw_only=True)
class Point:
    """``auto`` beside the best uniform cohort, at one computation time and one SNR."""

    computation_s: float
    snr_db: float
    times: Mapping[str, float]  # by label, in units of the best uniform; means over seeds
    costs: Mapping[str, Cost]  # by label, of the first seed
    best: int  # m of the best uniform, of those within their budgets if there are any
    alike: tuple[int, ...]  # the m that take as long, the best among them
    kept: bool  # whether a uniform cohort is within its budgets
    gain: float  # the best uniform's time over that of auto, at kappa
    low: float  # least gain of any seed and kappa
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
    uniform = {int(each.partition("=")[2]): each for each in labels if each.startswith("uniform m")}
    kept = {
        m: label
        for m, label in uniform.items()
        if all(found[label, seed].keeps_budgets for seed in every)
    }
    rivals = kept or uniform

    def time_s(label: str, seeds: tuple[int, ...], kappa: float) -> float:
        return fmean(found[label, seed].time_s(kappa) for seed in seeds)

    def gain(seeds: tuple[int, ...], kappa: float) -> float:
        soonest_s = min(time_s(label, seeds, kappa) for label in rivals.values())
        return soonest_s / time_s("auto", seeds, kappa)

    times = {label: time_s(label, every, study.kappas[0]) for label in labels}
    best = min(rivals, key=lambda m: times[rivals[m]])
    best_s = times[rivals[best]]
    gains = [gain((seed,), kappa) for seed in every for kappa in study.kappas]
    middle = gain(every, study.kappas[0])
    return Point(
        computation_s=computation_s,
        snr_db=snr_db,
        times={label: each / best_s for label, each in times.items()},
        costs={label: found[label, every[0]] for label in labels},
        best=best,
        alike=tuple(m for m in rivals if times[rivals[m]] <= (1.0 + _SAME) * best_s),
        kept=bool(kept),
        gain=middle,
        low=min(middle, *gains),
        high=max(middle, *gains),
    )
